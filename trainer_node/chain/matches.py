"""Matches as typed values, built from `getMatch` and, for the position, from a match's events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.game.calldata import match_id as match_id_of
from referee_py.game.calldata import position_hash
from referee_py.game.state import MatchState, MatchTerms, Phase
from referee_py.game.view import ChainLog
from referee_py.walk import clock
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides

from ..errors import RpcCorrupt
from .events import Event
from .history import build_history
from .views import JobView, known, program_terms
from .wire import values


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

    @property
    def deadline(self) -> int:
        """Last second in which a move is in time, in Walk, Refine and Open; zero in other phases."""
        return clock.first_deadline(self.state)

    def side_of(self, address: str) -> int | None:
        """Return the side whose spokesman the address is; None if it is none."""
        for side, player in enumerate(self.terms.players):
            if player.lower() == address.lower():
                return side
        return None


def match_view(match_id: int, raw: Any, events: Sequence[Event], job: JobView) -> MatchInfo:
    """Return a MatchInfo from `getMatch` and the match's events. Raises RpcCorrupt."""
    if raw.height > 64 or raw.level > len(job.program.strides) or raw.losers > 3 or raw.posted > 3:
        raise RpcCorrupt(f"match {match_id}: position ({raw.level}, {raw.height}) cannot be")
    terms = _terms(match_id, raw.jobs, events, job)
    root, node, agreed = _position(terms, events)
    state = MatchState(
        phase=known(Phase, raw.phase, f"match {match_id}"),
        posted=raw.posted,
        level=raw.level,
        height=raw.height,
        index=raw.index,
        start=raw.start,
        end=raw.end,
        root=root,
        node=node,
        agreed=agreed,
        clock=(raw.clock0, raw.clock1),
        tick=raw.tick,
        losers=raw.losers,
        reason=known(Reason, raw.reason, f"match {match_id}"),
    )
    if position_hash(state) != raw.position:
        raise RpcCorrupt(f"the endpoint has not all events of match {match_id}; use one with complete logs")
    log = build_history(events).log
    _check_published(match_id, state, log)
    return MatchInfo(match_id, job.id, raw.jobs, state, terms, log)


def _check_published(match_id: int, state: MatchState, log: ChainLog) -> None:
    """Raise RpcCorrupt if a side has posted according to the state, but the events lack its data."""
    for side in sides(state.posted):
        hidden = (state.phase is Phase.WALK and log.children[side] is None) or (
            state.phase is Phase.OPEN and state.node[side] not in log.records
        )
        if hidden:
            raise RpcCorrupt(
                f"match {match_id}: side {side} has posted, but the endpoint has no event of it; "
                "use one with complete logs, clocks are running"
            )


def _terms(match_id: int, jobs: str, events: Sequence[Event], job: JobView) -> MatchTerms:
    """Return the match terms. SAFETY: the contract keeps only their hash, which is the match's id."""
    opened = next((event.args["matchTerms"] for event in events if event.name == "Opened"), None)
    if opened is None:
        raise RpcCorrupt(f"the endpoint has no event of match {match_id}; use one with complete logs")
    roots, players, clock_, number, program = values(opened)
    terms = MatchTerms(
        program=program_terms(program),
        clock=clock_,
        players=(players[0], players[1]),
        match_id=match_id,
        logs=job.logs,
        roots=(bytes(roots[0]), bytes(roots[1])),
        number=number,
    )
    if match_id_of(jobs, job.id, terms) != match_id or terms.program != job.program:
        raise RpcCorrupt(f"the event of match {match_id} is of another match")
    return terms


def _position(
    terms: MatchTerms, events: Sequence[Event]
) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes], bytes]:
    """Return roots, nodes and the agreed checkpoint from the events."""
    root, node, agreed = terms.roots, terms.roots, terms.program.initial_root
    for event in events:
        args = event.args
        match event.name:
            case "Descended":
                node = bytes(args["node0"]), bytes(args["node1"])
            case "Refined":
                finer = bytes(args["root"])
                root = (finer, root[1]) if args["side"] == 0 else (root[0], finer)
            case "Entered":
                agreed = bytes(args["agreed"])
                if args["phase"] == Phase.WALK and args["level"] == len(terms.program.strides):
                    root = node
                elif args["phase"] == Phase.WALK:
                    node = root
    return root, node, agreed
