"""One look at the chain through the index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

from referee_py.errors import AssayError, InvalidInput
from trainer_node.chain import ChainClient, HearingInfo, JobView, MatchInfo, Snapshot, TrialInfo
from trainer_node.chain.block import Block
from trainer_node.client.dispute_words import Told, told
from trainer_node.errors import ChainError

from .index import Index, Sent

T = TypeVar("T")
MAX_KEPT = 256
READINGS = 3
"""Attempts at a page, if the chain is reorganised while the page is made."""


class IndexedClient(ChainClient):
    """Reads events from an index. NOTE: the index needs no first block, which is costly to find."""

    def first_block(self, job: JobView, before: Block) -> int:  # noqa: ARG002
        return self.deployment.block


class Case:
    """A match of a job with everything that came of it, at one block."""

    def __init__(self, look: Look, job: JobView, match: MatchInfo) -> None:
        self.look, self.job, self.match = look, job, match
        self.hearing: HearingInfo | None = look.snapshot.hearing(job, match.id)

    @property
    def id(self) -> int:
        return self.match.id

    @cached_property
    def trials(self) -> tuple[TrialInfo, ...]:
        """The trials of the hearing, in order."""
        if self.hearing is None:
            return ()
        return tuple(
            self.look.snapshot.trial(self.hearing, number)
            for number in range(1, self.hearing.state.trials + 1)
        )

    @cached_property
    def told(self) -> tuple[Told, ...]:
        """All events of the match, its hearing and its trials, in order."""
        return tuple(told(self.look.snapshot, self.match.id, self.hearing))

    @cached_property
    def refuter(self) -> int | None:
        """The side that claims no result, but has staked on one checkpoint of the other's being wrong; None if both
        claim one."""
        for side, (root, player) in enumerate(
            zip(self.match.terms.roots, self.match.terms.players, strict=True)
        ):
            mine = (claim for claim in self.job.claims if claim.owner.lower() == player.lower())
            groups = [
                group for group in (self.job.groups[claim.group] for claim in mine) if group.root == root
            ]
            if groups and all(group.refutes is not None for group in groups):
                return side
        return None

    def sent(self, tx_hash: bytes) -> Sent:
        return self.look.sent(tx_hash)


class Kept:
    """Results that took long, by all that they depend on; the last ones. Safe for several threads."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._found:
                found: T = self._found.pop(key)
                self._found[key] = found
                return found
        made = make()
        with self._lock:
            self._found[key] = made
            if len(self._found) > MAX_KEPT:
                del self._found[next(iter(self._found))]
        return made


class Look:
    """Queries of the pages at one block. Raises RpcUnavailable, RpcCorrupt; InvalidInput for what does not exist."""

    def __init__(self, client: IndexedClient, index: Index, block: Block, kept: Kept) -> None:
        self.client, self.index, self.kept = client, index, kept
        self.snapshot = Snapshot(client, block)

    @property
    def block(self) -> Block:
        return self.snapshot.block

    @property
    def now(self) -> int:
        """The contracts' time."""
        return self.snapshot.now

    def job(self, number: int) -> JobView:
        if not 0 < number < 1 << 64:
            raise InvalidInput(f"there is no job {number}")
        return self.snapshot.job(number)

    def case(self, job: JobView, match_id: int) -> Case:
        return Case(self, job, self.snapshot.match(job, match_id))

    def matches(self, job: JobView) -> list[int]:
        return self.snapshot.matches_of(job.id)

    def sent(self, tx_hash: bytes) -> Sent:
        return self.index.sent(self.client, tx_hash)


class Chain:
    """The chain that the pages are about. ``tick`` follows it; ``look`` never waits for more than the endpoint."""

    def __init__(self, client: IndexedClient, index: Index) -> None:
        self.client, self.index = client, index
        self._lock = threading.Lock()
        self._kept = Kept()
        self._head: Block | None = None
        self.problem: str | None = None
        """Why the index is not up to date; None if it is."""
        index.belong_to(client.identity())

    def tick(self) -> None:
        """Follow the chain. Never raises: a failure is shown on the pages, and the next tick tries again."""
        try:
            head = self.index.follow(self.client)
        except ChainError as error:
            self.problem = str(error)
            return
        except AssayError as error:
            self.problem = f"{type(error).__name__}: {error}"
            return
        with self._lock:
            self._head, self.problem = head, None

    def look(self) -> Look:
        """Return the state at the last block that was followed."""
        if self._head is None:
            self.tick()
        if self._head is None:
            raise InvalidInput(f"the chain could not be read yet: {self.problem}")
        return Look(self.client, self.index, self._head, self._kept)

    def reading(self, make: Callable[[Look], T]) -> T:
        """Return ``make(look)``. If the chain was reorganised meanwhile, it is followed, and read again."""
        for attempt in range(READINGS):
            look = self.look()
            try:
                return make(look)
            except ChainError:
                if attempt == READINGS - 1:
                    raise
                self.tick()
        raise AssertionError("unreachable")
