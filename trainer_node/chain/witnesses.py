"""Blocks of the chain as the endpoints show them, and the time that slow endpoints have.

The first answer decides nothing, and so not how long the others have, either. Until a majority (and `agree` of them)
shows what may be one view, all are waited for as long as their requests may take. Then the others have the usual
patience, and those that let us wait recently have none. A dead endpoint lets us wait in full once per minute at most:
after that it is silent (`Endpoint.silent`), and has no more than the usual patience for as long.

Where a tag says which blocks count (`finality`), its block is part of what is shown: each endpoint is asked for it
right after the newest one, so nobody is waited for twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..errors import ChainError
from .block import Block
from .counted_blocks import ViewRule
from .endpoint import Endpoint
from .endpoints import Endpoints
from .tags import near, near_tags


class Newest(NamedTuple):
    """End of the chain as an endpoint shows it. ``tagged``: the block that has the tag of the settings, None where no
    tag counts, or why it is not shown."""

    head: Block
    tagged: Block | ChainError | None = None


class Witnesses:
    """Asks the endpoints for blocks. ``read`` returns a block by number or tag, from the endpoint of the thread."""

    def __init__(
        self,
        endpoints: Endpoints,
        policy: ViewRule,
        read: Callable[[int | str], Block],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._endpoints, self._policy, self._read, self._wall_clock = endpoints, policy, read, wall_clock
        self._at: dict[Endpoint, Block] = {}
        """By endpoint: the block of the last look, as this endpoint has it."""
        self._asked: frozenset[Endpoint] = frozenset()
        """The endpoints that were asked for their newest blocks at first."""
        self._tagged: dict[Endpoint, Block | ChainError | None] = {}
        """By endpoint: the block that it has shown with the tag of the settings, in this look."""

    @property
    def quorum(self) -> int:
        """The number of endpoints that must show one view before the others are hurried."""
        return max(self._policy.agree, len(self._endpoints.every) // 2 + 1)

    def heads(self) -> dict[Endpoint, Block]:
        """Return the newest blocks, by endpoint. Raises the first error if nobody answers.

        SAFETY: if those of our chain that have not just failed are no quorum, the others are asked all the same; and
        somebody of our own chain is asked at every look.
        """
        every, apart = self._endpoints.every, self._endpoints.apart
        asked = [e for e in every if not e.waits and not (e.hangs and e.owes)]
        if len(set(asked) - apart) < self.quorum:
            asked = [e for e in every if not (e.waits and e.silent)]
        if not set(asked) - apart:
            asked = list(every)
        self._asked, self._tagged = frozenset(asked), {}
        found = self._newest(asked, {})
        if not any(isinstance(answer, Newest) for answer in found.values()):
            raise next(error for error in found.values() if isinstance(error, ChainError))
        return self._heads(found)

    def others(self, heads: dict[Endpoint, Block]) -> dict[Endpoint, Block]:
        """Return the newest blocks of those that had been left alone, or were late: they may make a majority. Those
        whose requests have just failed are not asked again."""
        failed = {e for e in self._asked if e.waits and not e.owes}
        asked = [e for e in self._endpoints.every if e not in heads and e not in failed and not e.silent]
        return self._heads(self._newest(asked, heads)) if asked else {}

    def tags(self, among: Iterable[Endpoint]) -> dict[Endpoint, Block]:
        """Return the block that has the tag of the settings, by endpoint, as these endpoints have shown it in this
        look. Raises the first error if none has."""
        shown = {endpoint: self._tagged[endpoint] for endpoint in among}
        tags = {endpoint: block for endpoint, block in shown.items() if isinstance(block, Block)}
        if not tags:
            raise next(error for error in shown.values() if isinstance(error, ChainError))
        return tags

    def votes(self, block: Block, heads: dict[Endpoint, Block], lead: Endpoint) -> dict[Endpoint, Block]:
        """Return the block of that number, by endpoint. NOTE: it is asked for once, unless the lead's has changed."""
        votes = {lead: block}
        asked = list[Endpoint]()
        for endpoint, head in heads.items():
            kept, tag = self._at.get(endpoint), self._tagged.get(endpoint)
            if endpoint is lead:
                continue
            if head.number == block.number:
                votes[endpoint] = head
            elif isinstance(tag, Block) and tag.number == block.number:
                votes[endpoint] = tag
            elif kept == block:
                votes[endpoint] = kept
            elif head.number > block.number and not endpoint.silent:
                asked.append(endpoint)
        if asked:
            before = list(votes.values())
            found = self._endpoints.each(
                lambda _: self._read(block.number),
                asked,
                hurries=lambda answers: self._hurries([*before, *answers]),
            )
            votes |= _blocks(found)
        self._at = votes
        return votes

    def stale(self, head: Block) -> str | None:
        """Return why a newest block is too old, or in the future; None if it is neither."""
        age, limit = self._wall_clock() - head.timestamp, self._policy.max_head_age_s
        if not limit or abs(age) <= limit:
            return None
        if age < 0:
            return f"block {head.number} is {-age:.0f} s in the future: check this machine's clock"
        return f"the newest block, {head.number}, is {age:.0f} s old (max_head_age_s = {limit:g})"

    def age_s(self, head: Block) -> float:
        """Return the seconds since a block's time."""
        return self._wall_clock() - head.timestamp

    # ------------------------------------------------------------------ inside

    def _newest(
        self, asked: list[Endpoint], heads: dict[Endpoint, Block]
    ) -> dict[Endpoint, Newest | ChainError]:
        before = [Newest(head, self._tagged[endpoint]) for endpoint, head in heads.items()]
        return self._endpoints.each(
            lambda _: self._read_newest(),
            asked,
            hurries=lambda answers: self._hurries([*before, *answers]),
        )

    def _read_newest(self) -> Newest:
        """NOTE: an endpoint without such a tag still shows blocks."""
        head = self._read("latest")
        if self._policy.finality == "confirmations":
            return Newest(head)
        try:
            return Newest(head, self._read(self._policy.finality))
        except ChainError as error:
            return Newest(head, error)

    def _heads(self, found: dict[Endpoint, Newest | ChainError]) -> dict[Endpoint, Block]:
        """Return the newest blocks of those that have answered, and keep the tags' blocks."""
        shown = {endpoint: answer for endpoint, answer in found.items() if isinstance(answer, Newest)}
        self._tagged |= {endpoint: answer.tagged for endpoint, answer in shown.items()}
        return {endpoint: answer.head for endpoint, answer in shown.items()}

    def _hurries(self, answers: Iterable[Newest | Block | ChainError]) -> bool:
        """Return whether so many of these may belong to one view. What they are worth is said by the votes."""
        shown = [Newest(one) if isinstance(one, Block) else one for one in answers]
        views = [one for one in shown if isinstance(one, Newest)]
        return any(sum(_alike(one, other) for other in views) >= self.quorum for one in views)


def _alike(one: Newest, other: Newest) -> bool:
    head, tagged = one.head, one.tagged
    if not (head == other.head if head.number == other.head.number else near(head, other.head)):
        return False
    if tagged is None or other.tagged is None:
        return tagged is other.tagged
    # SAFETY: who shows no tag must not hurry those who do.
    return isinstance(tagged, Block) and isinstance(other.tagged, Block) and near_tags(tagged, other.tagged)


def _blocks(found: dict[Endpoint, Block | ChainError]) -> dict[Endpoint, Block]:
    return {endpoint: block for endpoint, block in found.items() if isinstance(block, Block)}
