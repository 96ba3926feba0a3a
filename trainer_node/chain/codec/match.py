"""Matches (the contract Referee): moves to calldata and back, and a match's state from `getMatch` and its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.commit import Record
from referee_py.game.calldata import match_id as match_id_of
from referee_py.game.calldata import match_terms, position, position_hash
from referee_py.game.player_data import ChainLog
from referee_py.game.state import MOVES, MatchState, MatchTerms, Move, Phase
from referee_py.program.terms import Terms
from referee_py.walk import clock
from referee_py.walk.dispute import ZERO
from referee_py.walk.reason import Reason

from ...errors import RpcCorrupt
from ..events import Event
from .base import Calls, Fold, Made, View, hidden
from .job import Group, JobView

Pair = tuple[bytes, bytes]
ShownTerms = tuple[Pair, tuple[str, str], int, int, Terms]
"""Match terms as moves show them: roots, spokesmen, clock, number, program."""

_MOVES = Calls[Move](
    "Referee",
    {"matchId": int, "matchTerms": ShownTerms, "here": tuple[Pair, Pair, bytes]},
    *MOVES,
)
_MATCH = View(MatchState, "Referee", "getMatch", beside="root node agreed clock")


def match_call(move: Move, state: MatchState, terms: MatchTerms) -> Made:
    """Return the referee's function for a move in this state, and its arguments."""
    shown = {"matchTerms": match_terms(terms), "here": position(state)}
    return _MOVES.encode(move, matchId=terms.match_id, **shown)


def match_move(function: str, arguments: Sequence[Any]) -> Move | None:
    """Return the move of a decoded call; None if the function is not a move. Raises InvalidEncoding."""
    found = _MOVES.decode(function, arguments)
    return found and found[0]


@dataclass(frozen=True, slots=True)
class MatchInfo:
    """A match at one block: the rules' state and terms, with the job's id and the address of Jobs."""

    id: int
    job_id: int
    jobs: str
    state: MatchState
    terms: MatchTerms
    log: ChainLog = field(default_factory=ChainLog, compare=False)
    """Data that the match's moves have published, for the solver."""
    hidden: str | None = field(default=None, compare=False)
    """Why what a side has posted is unknown: the endpoint lacks its event. None if nothing is."""

    @property
    def deadline(self) -> int:
        """Last second in which a move is in time, in Walk, Refine and Open; zero in other phases."""
        return clock.first_deadline(self.state)

    def side_of(self, address: str) -> int | None:
        """Return the side that the address speaks for, or None."""
        for side, player in enumerate(self.terms.players):
            if player.lower() == address.lower():
                return side
        return None


@dataclass(frozen=True, slots=True)
class Seat:
    """A match in which our result is at stake: the side that claims it, and both groups."""

    match: MatchInfo
    side: int
    may_refine: bool
    own: Group
    opponent: Group


@dataclass
class History(Fold, contract="Referee"):
    """Data that the moves of a match have published. ``log`` feeds the solver (``LoggedView``)."""

    log: ChainLog = field(default_factory=ChainLog)
    losers: int | None = None
    reason: Reason | None = None
    events: list[Event] = field(default_factory=list)
    shown: ShownTerms | None = None
    root: Pair = ZERO, ZERO
    node: Pair = ZERO, ZERO
    agreed: bytes = ZERO

    def take(self, event: Event) -> None:
        super().take(event)
        self.events.append(event)

    def on_opened(self, match_terms: ShownTerms) -> None:
        self.shown = match_terms
        self.root = self.node = match_terms[0]
        self.agreed = match_terms[4].initial_root

    def on_entered(self, phase: int, level: int, agreed: bytes) -> None:
        self.log.children = [None, None]  # they belong to the previous position
        self.agreed = agreed
        if phase == Phase.WALK and self.shown and level == len(self.shown[4].strides):
            self.root = self.node
        elif phase == Phase.WALK:
            self.node = self.root

    def on_descended(self, node0: bytes, node1: bytes) -> None:
        self.log.children = [None, None]
        self.node = node0, node1

    def on_revealed(self, side: int, children: tuple[bytes, ...]) -> None:
        self.log.children[side] = children

    def on_refined(self, side: int, root: bytes) -> None:
        self.root = (root, self.root[1]) if side == 0 else (self.root[0], root)

    def on_record_opened(self, record: Record) -> None:
        self.log.records[record.hash()] = record

    def on_decided(self, losers: int, reason: Reason) -> None:
        self.losers, self.reason = losers, reason


def match_view(match_id: int, raw: Any, events: Sequence[Event], job: JobView) -> MatchInfo:
    """Return a MatchInfo from `getMatch` and the match's events. Raises RpcCorrupt."""
    if raw.height > 64 or raw.level > len(job.program.strides) or raw.losers > 3 or raw.posted > 3:
        raise RpcCorrupt(f"match {match_id}: position ({raw.level}, {raw.height}) cannot be")
    told = History.of(events)
    terms = _terms(match_id, raw.jobs, told.shown, job)
    here = {"root": told.root, "node": told.node, "agreed": told.agreed}
    state = _MATCH.read(f"match {match_id}", raw, **here, clock=(raw.clock0, raw.clock1))
    # SAFETY: the contract keeps only a hash of the position, which binds what the events say.
    if position_hash(state) != raw.position:
        raise RpcCorrupt(f"the endpoint has not all events of match {match_id}; use one with complete logs")
    log = told.log
    lacks = {
        Phase.WALK: [children is None for children in log.children],
        Phase.OPEN: [node not in log.records for node in state.node],
    }
    lost = hidden(f"match {match_id}", state.posted, lacks.get(state.phase, (False, False)))
    return MatchInfo(match_id, job.id, raw.jobs, state, terms, log, lost)


def _terms(match_id: int, jobs: str, shown: ShownTerms | None, job: JobView) -> MatchTerms:
    """Return the match terms. SAFETY: the contract keeps only their hash, which is the match's id."""
    if shown is None:
        raise RpcCorrupt(f"the endpoint has no event of match {match_id}; use one with complete logs")
    roots, players, seconds, number, program = shown
    terms = MatchTerms(program, seconds, players, match_id, job.logs, roots, number)
    if match_id_of(jobs, job.id, terms) != match_id or terms.program != job.program:
        raise RpcCorrupt(f"the event of match {match_id} is of another match")
    return terms
