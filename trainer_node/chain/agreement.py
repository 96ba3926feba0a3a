"""The view of the chain to act on, and whether enough endpoints share it to stake money.

    look       the block to read, which endpoint reads it, and a doubt: why nothing may be staked on it
    confirm    ask the other endpoints again what was read at that block

Money is staked, and a claim disputed, only if `agree` endpoints give the same answers at a block of the same hash. All
else continues in doubt: moves in disputes, reveals, responses. A move proves what it shows against a hash of what is
disputed, so a false view costs the gas of a refused transaction; a missed clock costs a stake. What no hash binds
(`play.unbound_moves`), and what is signed, is confirmed first. While endpoints contradict each other
and no majority decides, those serve whose chain has a block that most had shown before (:mod:`.known`), however slow
they are. If that decides nothing either, they serve in turns, so that every second look or so shows the true chain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import structlog

from ..errors import ChainError, Disagreement, RpcCorrupt, RpcUnavailable
from ..storage.database import Database
from .block import Block
from .counted_blocks import Look, ViewRule
from .differences import Hurry, Unlike, difference, read_block
from .endpoint import Endpoint
from .endpoints import Endpoints
from .known_blocks import Known, Shown
from .recorded_reads import Note
from .tags import NEAR_BLOCKS, Tagged, near, tagged
from .witnesses import Witnesses

T = TypeVar("T")
VOUCH_S = 20.0
"""Seconds for which others are waited for that read a long range of logs again."""
DISTRUST_S = 60.0
"""Seconds for which an endpoint that a majority contradicts serves only if no other one does."""

_log = structlog.get_logger(__name__)


class _Seen(NamedTuple):
    """Leading endpoint, the newest blocks and the votes by endpoint, the block that counts, a doubt, and the endpoints
    that have this very block, or another of its number. ``torn``: they contradict each other about a tag."""

    lead: Endpoint
    heads: dict[Endpoint, Block]
    votes: dict[Endpoint, Block]
    block: Block
    doubt: str | None
    same: list[Endpoint]
    other: list[Endpoint]
    torn: bool


class Agreement:
    """Compares the endpoints of a connection."""

    def __init__(
        self, endpoints: Endpoints, policy: ViewRule, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._endpoints = endpoints
        self._policy = policy
        self._witnesses = Witnesses(endpoints, policy, self._block, wall_clock)
        self._known = Known(endpoints, self._block)
        self._turn = 0
        self._split = False
        """True if the endpoints serve in turns."""
        self._odd: dict[Endpoint, tuple[float, str]] = {}
        """Endpoints that others contradict: since when, and in what."""
        self._conflict: str | None = None
        """A contradiction about values that no majority has decided."""
        self._accused: Endpoint | None = None
        """The endpoint whose answers two others contradicted then."""
        self._hurry = Hurry(lambda: endpoints.clock())
        self.doubt: str | None = None
        """Why nothing may be staked on the last look; None if it may."""

    @property
    def problems(self) -> list[str]:
        """Problems of endpoints and view, for /readyz; empty if all of them answer, agree and are up to date."""
        found = [f"{e.trouble} ({e.failures} in a row)" for e in self._endpoints.every if e.trouble]
        found += [f"RPC {e.name}: {e.limits}" for e in self._endpoints.every if e.limits]
        found += [f"RPC {e.name}: {told}" for e, (_, told) in self._odd.items()]
        return found + ([f"{self.doubt}; nothing is staked until then"] if self.doubt else [])

    @property
    def known(self) -> Block | None:
        """The newest block that most endpoints have shown, by which another chain is told from ours."""
        return self._known.block

    def keep_in(self, database: Database) -> None:
        """Begin with the known block of a daemon's database, and keep newer ones there."""
        self._known.keep_in(database)

    @property
    def conflict(self) -> bool:
        """True if endpoints contradict each other without a majority."""
        return self._conflict is not None

    # ------------------------------------------------------------------ which block, and who reads it

    def look(self) -> Look:
        """Choose the block to read and the endpoint that serves. Raises RpcUnavailable or RpcCorrupt if none can."""
        policy, known = self._policy, self._known
        lead, heads, votes, block, doubt, same, other, torn = self._widest()
        if not known.most(same):
            new = known.sort(votes)
            for endpoint in new:
                self._mark(endpoint, "shows another chain than most endpoints had shown, unlike the others")
            self._endpoints.apart |= new
            if lead in known.strangers:
                if new:
                    return self.look()
                raise _elsewhere(votes)
        rivals = [e for e in other if e not in known.strangers]
        decided = len(same) >= policy.agree and len(same) > len(rivals)
        known.learn(Shown(block, frozenset(same), frozenset(other)), votes)
        silent = self._endpoints.apart - votes.keys()
        self._endpoints.apart = (known.strangers | silent | set(other)) - {lead}
        self._note_odd(block, votes, other if decided else [])
        far = any(not near(heads[lead], heads[e]) for e in heads.keys() - known.strangers)
        self._split = torn or self._conflict is not None or (not decided and (bool(rivals) or far))
        self._turn += self._split
        if self._conflict is not None:
            doubt = doubt or self._conflict
        elif other and not decided:
            doubt = doubt or _contradiction(block.number, votes)
        elif not decided:
            count, every = len(same), len(self._endpoints.every)
            doubt = doubt or f"{count} of {every} endpoints show block {block.number}; agree = {policy.agree}"
        self._endpoints.metrics.set("rpc_agreeing", len(same))
        self._tell(doubt or self._witnesses.stale(heads[lead]))
        return Look(block, heads[lead], self.doubt)

    def _widest(self) -> _Seen:
        """Return what is seen, by a quorum of the endpoints if there is one.

        SAFETY: an endpoint alone can show blocks far ahead of all others', so that nobody has them to contradict it.
        """
        answered, quorum = self._witnesses.heads(), self._witnesses.quorum
        seen = self._seen(answered)
        if len(seen.same) < quorum and (more := self._witnesses.others(answered)):
            answered |= more
            seen = self._seen(answered)
        ours = seen.heads.keys() - self._known.strangers
        numbers = sorted((seen.heads[endpoint].number for endpoint in ours), reverse=True)
        if len(self._endpoints.every) > 2 and len(seen.same) < quorum <= len(numbers):
            ahead = seen.heads[seen.lead].number - numbers[quorum - 1]
            if ahead > NEAR_BLOCKS:
                wider = self._seen(answered, but=seen.lead)
                if len(wider.same) >= quorum:
                    self._mark(seen.lead, f"its newest block is {ahead} blocks ahead of the others'")
                    return wider
                self._endpoints.serving = seen.lead
        return seen

    def _seen(self, answered: dict[Endpoint, Block], but: Endpoint | None = None) -> _Seen:
        """Return what is seen if the first endpoint in order leads, ``but`` this one."""
        heads, strangers = self._fresh(answered), self._known.strangers
        mine = {e: head for e, head in heads.items() if e not in strangers and e is not but}
        if not mine and not self._known.most(heads):
            raise _elsewhere(heads)
        mine = mine or heads
        final = self._final(mine)
        policy, numbers = self._policy, sorted((head.number for head in mine.values()), reverse=True)
        common = numbers[min(policy.agree, len(numbers)) - 1]
        ranked = self._ranked(list(mine))
        near = [e for e in ranked if heads[e].number >= common - NEAR_BLOCKS] or ranked
        if self._split:
            turn = self._turn % len(near)
            near = near[turn:] + near[:turn]
        lead, block, doubt = self._first_with_block(near, heads, common, final)
        self._endpoints.serving = lead
        self._endpoints.apart -= {lead}
        votes = self._witnesses.votes(block, heads, lead)
        same, other = _parted(votes, block, heads, heads[lead])
        if not self._known.most(other):
            other = [e for e in other if e not in strangers]
        if len(other) > len(same) and len(other) >= policy.agree:
            # NOTE: a majority has this block with another hash, so one of its members serves.
            lead = self._ranked(other)[0]
            block, self._endpoints.serving = votes[lead], lead
            self._endpoints.apart -= {lead}
        parted, torn = _parted(votes, block, heads, heads[lead]), final is not None and bool(final.torn)
        return _Seen(lead, heads, votes, block, doubt, *parted, torn)

    def _final(self, heads: dict[Endpoint, Block]) -> Tagged | None:
        """Return what these endpoints show with the tag of the settings, if one counts. Raises the first one's error
        if none shows any."""
        if self._policy.finality == "confirmations":
            return None
        final = tagged(self._policy, self._witnesses.tags(heads), heads)
        for endpoint, told in final.odd.items():
            self._mark(endpoint, told)
        return final

    def _fresh(self, heads: dict[Endpoint, Block]) -> dict[Endpoint, Block]:
        """Return newest blocks without those of endpoints that are behind, if another one is not."""
        newest = max(heads.values(), key=lambda head: head.timestamp)
        self._endpoints.metrics.set("head_age_seconds", self._witnesses.age_s(newest))
        fresh = {e: head for e, head in heads.items() if self._witnesses.stale(head) is None}
        for endpoint in heads.keys() - fresh.keys() if fresh else ():
            self._mark(endpoint, f"its newest block, {heads[endpoint].number}, is old")
        return fresh or heads

    def _first_with_block(
        self, near: list[Endpoint], heads: dict[Endpoint, Block], common: int, final: Tagged | None
    ) -> tuple[Endpoint, Block, str | None]:
        """Return the first of these endpoints that has the block that counts, the block, and a doubt. Raises the last
        one's error."""
        for lead in near:
            ahead = heads[lead].number - common
            top = common if 0 < ahead <= NEAR_BLOCKS else heads[lead].number
            number = None if final is None else final.number_of(lead)
            if number is None:
                number = max(top - self._policy.depth, 0)
            own = (heads[lead], *([] if final is None or lead not in final.own else [final.own[lead]]))
            try:
                with self._endpoints.through(lead):
                    block = next((one for one in own if one.number == number), None) or self._block(number)
            except ChainError as error:
                if lead is near[-1]:
                    raise
                # SAFETY: an endpoint that shows the newest block and no other must not keep us from the chain.
                self.distrust(lead, str(error))
            else:
                return lead, block, None if final is None else final.doubt
        raise AssertionError("there is no endpoint")

    # ------------------------------------------------------------------ what was read

    def confirm(
        self, block: Block, notes: Sequence[Note], doubt: str | None = None, *, hurried: bool = False
    ) -> None:
        """Ask the endpoints again what others of them have answered about a block. ``hurried``: moves wait for it
        (:class:`Hurry`).

        Raises Disagreement if there is a doubt, or if fewer than `agree` endpoints, the first one included, give these
        answers at a block of this hash, or as many give others; RpcUnavailable if there is no time.
        """
        if doubt is not None:
            raise Disagreement(f"{doubt}; nothing is staked until then")
        endpoints, policy = self._endpoints, self._policy
        if not endpoints.several:
            return
        # SAFETY: who serves now may have taken over from one that has lied. So it agrees, without being asked, only to
        # what it has given itself, and so does everybody.
        lacks = {e: [note for note in notes if note.source is not e] for e in endpoints.ours}
        others = [e for e, left in lacks.items() if left or e is not endpoints.serving]
        given = len(lacks) - len(others)
        every, over = len(endpoints.every), threading.Event()

        def enough(answers: Iterable[Unlike | ChainError | None]) -> bool:
            alike = given + sum(answer is None for answer in answers)
            return alike >= policy.agree and 2 * alike > every

        with self._hurry.within(hurried) as late:

            def differs(e: Endpoint) -> Unlike | None:
                return difference(endpoints, block, lacks[e], lambda: over.is_set() or late(), self.distrust)

            try:
                # SAFETY: a contradiction hurries nobody, or who is quick and wrong keeps slow ones from confirming.
                found = endpoints.each(differs, others, enough=enough, hurries=enough)
            finally:
                over.set()
        unlike = {e: one for e, one in found.items() if isinstance(one, tuple)}
        same = given + sum(told is None for told in found.values())
        decided = same >= policy.agree and same > len(unlike)
        for endpoint, (told, _) in unlike.items():
            endpoints.metrics.add("rpc_disagreements", endpoint.name)
            if decided:
                self._mark(endpoint, told)
        if decided:
            self._end_conflict(found)
            return
        reasons = [f"RPC {e.name}: {unlike.get(e, (one,))[0]}" for e, one in found.items() if one is not None]
        reasons += [f"RPC {e.name} shows another chain" for e in endpoints.every if e in endpoints.apart]
        told = f"{same} of {len(endpoints.every)} endpoints agree with RPC {endpoints.serving.name} (agree = "
        told += f"{policy.agree}): {'; '.join(reasons)}"
        if unlike:
            # SAFETY: who serves now may have taken over from a liar; and one that accuses alone may be the liar.
            named = [source for _, source in unlike.values()]
            self._accused = next((e for e in named if e and named.count(e) > 1), self._accused)
            # SAFETY: at once, or who says the truth whenever others serve would serve again after each of its lies.
            for endpoint in {e for e in named if e and named.count(e) > max(same, 1)}:
                self._mark(endpoint, told)
            self._conflict = told
            _log.error("rpc.disagreement", reason=told)
        # NOTE: who gives two answers contradicts itself.
        twice = any(isinstance(one, Disagreement) for one in found.values())
        raise Disagreement(told, contradicted=bool(unlike) or twice)

    def _end_conflict(self, found: dict[Endpoint, Unlike | ChainError | None]) -> None:
        """End a contradiction about values: the others decide for the endpoint that serves now.

        SAFETY: the one that is accused, and was not waited for now, would serve and be contradicted again.
        """
        accused, told = self._accused, self._conflict
        if told is None:
            return
        silent = accused not in found or isinstance(found[accused], ChainError)
        if accused not in (None, self._endpoints.serving) and None in found.values() and silent:
            self._mark(accused, told)
        self._conflict, self._accused, self._split = None, None, False

    def vouches(self, read: Callable[[], T], found: T, source: Endpoint | None) -> bool:
        """Return whether `agree` endpoints, ``source`` included, give what that has given. Raises RpcCorrupt if more
        give something else."""
        endpoints = self._endpoints
        if not endpoints.several:
            return True
        agree, every = self._policy.agree, len(endpoints.every)

        def alike(answers: Iterable[T | ChainError]) -> int:
            return 1 + sum(answer == found for answer in answers)

        others = [e for e in endpoints.ours if e is not source and e.ready]
        if 1 + len(others) < agree:
            return False
        answers = endpoints.each(
            lambda _: read(),
            others,
            VOUCH_S,
            enough=lambda now: alike(now) >= agree and 2 * alike(now) > every,
        )
        same, failed = alike(answers.values()), sum(isinstance(a, ChainError) for a in answers.values())
        if (unlike := 1 + len(answers) - same - failed) > same:
            raise RpcCorrupt(f"{unlike} endpoints give something else")
        return same >= agree

    # ------------------------------------------------------------------ inside

    def _block(self, at: int | str) -> Block:
        return read_block(self._endpoints, at)

    def _ranked(self, among: list[Endpoint]) -> list[Endpoint]:
        now = self._endpoints.clock()
        self._odd = {e: (since, told) for e, (since, told) in self._odd.items() if now - since < DISTRUST_S}
        return sorted(self._endpoints.ranked(among), key=lambda endpoint: endpoint in self._odd)

    def distrust(self, endpoint: Endpoint | None, told: str) -> None:
        """Let another endpoint serve for a while, if there is one: this one's answers make no sense."""
        if endpoint is not None:
            self._endpoints.metrics.add("rpc_failures", endpoint.name)
            if self._endpoints.several:
                self._mark(endpoint, told)

    def _mark(self, endpoint: Endpoint, told: str) -> None:
        if endpoint not in self._odd:
            _log.warning("rpc.endpoint_differs", endpoint=endpoint.name, reason=told)
        self._odd[endpoint] = self._endpoints.clock(), told

    def _note_odd(self, block: Block, votes: dict[Endpoint, Block], other: list[Endpoint]) -> None:
        for endpoint in other:
            self._endpoints.metrics.add("rpc_disagreements", endpoint.name)
            self._mark(endpoint, f"block {block.number} is {votes[endpoint]}, unlike the others'")

    def _tell(self, doubt: str | None) -> None:
        if doubt != self.doubt:
            if doubt is not None:
                _log.warning("rpc.doubt", reason=doubt)
            else:
                _log.info("rpc.agreement")
        self.doubt = doubt


def _parted(
    votes: dict[Endpoint, Block], block: Block, heads: dict[Endpoint, Block], lead: Block
) -> tuple[list[Endpoint], list[Endpoint]]:
    """Return the endpoints that have this very block, and those that have another of its number.

    SAFETY: an endpoint that is far ahead of ``lead``, the head of the serving one, does not vouch for an old block.
    """
    same = [e for e, vote in votes.items() if vote == block and near(lead, heads[e])]
    return same, [e for e, vote in votes.items() if vote != block]


def _elsewhere(answered: Iterable[Endpoint]) -> RpcUnavailable:
    """Return the error if nobody of our chain answers."""
    names = ", ".join(endpoint.name for endpoint in answered)
    return RpcUnavailable(f"only {names} answers, and shows another chain than most had shown before")


def _contradiction(number: int, votes: dict[Endpoint, Block]) -> str:
    told = ", ".join(f"{vote} by {endpoint.name}" for endpoint, vote in votes.items())
    return f"endpoints disagree about block {number}: {told}"
