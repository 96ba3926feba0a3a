"""A party's part in hearings: which move is due, and its moves in trials.

    spokesman   appeals from a verdict that calls its right record wrong; plays that trial and later those of signers
    signer      stands by its verdict once it is overruled, and plays the trial
    both        keep a hearing going: escalate, proceed

Every round reads the hearings from the chain, so a restart loses nothing. Moves in trials may take long to compute;
threads beside the node's loop compute them (`trial_drafts`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from referee_py.commit import Record
from referee_py.commit.tensor import Array
from referee_py.panel.solver import plan, seat
from referee_py.panel.state import Appeal, HearingPhase
from referee_py.program import Structure, TensorType
from referee_py.trial import Timeout
from referee_py.trial import solver as trials
from referee_py.trial.chain_states import ChainStates
from referee_py.trial.solver import Operator, Planned
from referee_py.walk.clock import late, owing

from ..chain import Call, Contracts, HearingInfo, Snapshot, TrialInfo
from ..chain.codec.hearing import hearing_call
from ..chain.codec.trial import trial_call
from ..daemon.due import Due
from ..errors import RpcCorrupt
from ..ids import whole
from ..network.opponents import Opponents
from ..run.package import MAX_HEADER_BYTES
from ..stake.gas_patience import NONE, Patience, Slack
from .right_records import Rights
from .trial_drafts import Drafts, Stop

MAX_KEPT = 4
"""Number of operators whose tensors are kept while their trials last. NOTE: states of a chain are kept for every trial.
With more trials than this in which a move of ours is due, each round recomputes tensors, but repeats no pass."""
PATIENCE_S = 1.0
"""Seconds that a round of the node's loop waits for moves and right records, over all hearings; what takes longer is
sent later."""

_log = structlog.get_logger(__name__)


class OperatorSource(Protocol):
    """A party's knowledge of the operator that a hearing is about; None: not yet. Asked for only if needed."""

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:
        """Return the right record, as the party has computed it, within ``patience_s`` seconds. ``hurry``: half of the
        time in which it is of use is over."""
        ...

    def operator(self) -> Operator | None:
        """Return the operator's tensors, to which the party's record commits."""
        ...

    def servers(self) -> Sequence[str]:
        """Return the servers that may have the other side's tensors."""
        ...


@dataclass
class _Kept:
    job_id: int
    right: Record | None = None
    operator: Operator | None = None
    walk: ChainStates = field(default_factory=ChainStates)
    waiting: object = None
    """The state in which a move waits for cheaper gas, once that is logged."""
    idle: object = None
    """The state of the trial in which it is the other side's move, once we have looked for one of ours in it."""


class HearingPlayer:
    """Decides for the account ``me``, until ``stop`` is set."""

    def __init__(
        self,
        contracts: Contracts,
        me: str,
        opponents: Opponents,
        stop: threading.Event,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._contracts = contracts
        self._me = me
        self._opponents = opponents
        self._drafts = Drafts(stop)
        self.rights = Rights()
        """Right records, which spokesmen compute before an appeal."""
        self._patience_s = patience_s
        self._round: tuple[Snapshot | None, float] = None, 0.0
        """The snapshot of this round of the loop, and the seconds left of its patience."""
        self._kept: dict[int, _Kept] = {}

    def due(
        self, snapshot: Snapshot, hearing: HearingInfo, source: OperatorSource, patience: Patience = NONE
    ) -> list[Due]:
        """Return the move that is due, if one is and gas is cheap enough for it. Raises what ``source`` raises."""
        me, state = self._me, hearing.state
        if state.in_trial:
            return self._in_trial(snapshot, hearing, seat(state, hearing.terms, me), source, patience)
        # SAFETY: a signer that does not know of its own vote would not stand by it, and would end its own time.
        may_have_signed = me in hearing.terms.verifiers
        if hearing.hidden is not None and may_have_signed and state.phase is HearingPhase.DEFENCE:
            raise RpcCorrupt(hearing.hidden)
        right = self._right(snapshot, hearing, source) if self._matters(hearing, snapshot.now) else None
        move = plan(state, hearing.terms, me, right, snapshot.now)
        slack = Slack.until(state.until - snapshot.now, hearing.terms.rules.appeal_period)
        if move is not None and patience.waits(slack):
            self._wait(hearing, state, patience)
        elif move is not None:
            bond = hearing.bond if isinstance(move, Appeal) else 0
            call = Call.batch(self._contracts.panel, hearing_call(move, hearing.id), value=bond)
            return [
                Due(
                    call,
                    "hearing.move",
                    {"match": whole(hearing.match_id), "move": move.function},
                    dispute=True,
                )
            ]
        return []

    def forget(self, job_id: int, but: Collection[int] = ()) -> None:
        """Drop the data kept about a job's hearings, except those in ``but``."""
        for number in [n for n, kept in self._kept.items() if kept.job_id == job_id and n not in but]:
            self._drafts.forget(number)
            self.rights.forget(number)
            del self._kept[number]

    def _matters(self, hearing: HearingInfo, now: int) -> bool:
        """Return whether our next move depends on the right record."""
        me, state, submission = self._me, hearing.state, hearing.terms.submission
        if now >= state.until:
            return False
        if state.phase is HearingPhase.RULED:
            wrong = submission.unlike(state.verdict)
            return any(player == me and wrong >> side & 1 for side, player in enumerate(submission.players))
        return state.phase is HearingPhase.DEFENCE and hearing.signed(me)

    # ------------------------------------------------------------------ trials

    def _in_trial(
        self,
        snapshot: Snapshot,
        hearing: HearingInfo,
        side: int | None,
        source: OperatorSource,
        patience: Patience,
    ) -> list[Due]:
        """Return the moves that are due in the running trial, all in one transaction.

        A party that does not play in the trial, or has no moves yet, can still claim that a player is late.
        """
        trial, now = snapshot.trial(hearing), snapshot.now
        lost = late(trial.state, now)
        if lost:
            claims = side is None or lost == 1 << (1 - side)
            moves: list[Planned] = [(Timeout(), trial.state)] if claims else []
        else:
            moves = [] if side is None else self._drafted(snapshot, hearing, trial, side, source)
            if side is not None and not moves and trial.hidden is not None:
                raise RpcCorrupt(trial.hidden)
        if moves and patience.waits(Slack.by_clock(trial.state, side, hearing.terms.rules.clock, now)):
            self._wait(hearing, trial.state, patience)
        elif moves:
            names = [type(move).__name__ for move, _ in moves]
            about = {"match": whole(hearing.match_id), "side": side, "moves": names}
            made = [trial_call(move, trial.trial_terms, trial.dispute, before) for move, before in moves]
            call = Call.batch(self._contracts.court, *made, inputs=len(trial.dispute.records[0].inputs))
            return [Due(call, "trial.move", about, dispute=True)]
        return []

    def _drafted(
        self, snapshot: Snapshot, hearing: HearingInfo, trial: TrialInfo, side: int, source: OperatorSource
    ) -> list[Planned]:
        """Return our moves in the trial, or none while they are still being computed."""
        kept, state = self._keep(hearing), (trial.state, trial.children, trial.leaves)
        # SAFETY: the tensors of an operator take an interval of a run to compute. With more trials than are kept, it is
        # one for each trial in which a move of ours may be due, and none for those that wait for the other side.
        if kept.idle == state:
            return []
        operator = self._operator(hearing, source)
        if operator is None:
            return []
        servers, now = list(source.servers()), snapshot.now

        def work(stop: Stop) -> Sequence[Planned]:
            operator.walk.stop = stop
            rival = Rival(trial, 1 - side, self._opponents.ask(servers).tensor)
            return trials.plan(trial.state, trial.dispute, side, operator, rival, now)

        with self._patient(snapshot) as left:
            moves = self._drafts.moves(hearing.id, state, work, left)
        if moves is None:
            _log.info("trial.pending", match=whole(hearing.match_id), side=side, steps=operator.walk.steps)
        elif not moves and not owing(trial.state) >> side & 1:
            kept.idle = state
        return moves or []

    @contextlib.contextmanager
    def _patient(self, snapshot: Snapshot) -> Iterator[float]:
        """Yield the seconds that this round may still wait; what the block takes is taken from them."""
        of, left = self._round
        left = left if of is snapshot else self._patience_s
        began = time.monotonic()
        yield left
        self._round = snapshot, max(left - (time.monotonic() - began), 0.0)

    # ------------------------------------------------------------------ what we know

    def _right(self, snapshot: Snapshot, hearing: HearingInfo, source: OperatorSource) -> Record | None:
        """Return the right record, if it is known by now.

        SAFETY: half of the period is for the processor. Then what the run's device gives twice is appealed on, because
        a bond is less than a stake and a lost root.
        """
        kept, state = self._keep(hearing), hearing.state
        if kept.right is not None:
            return kept.right
        hurry = state.until - snapshot.now <= hearing.terms.rules.appeal_period / 2
        with self._patient(snapshot) as left:
            found = source.right(left, hurry=hurry)
        if not hurry:
            kept.right = found
        return found

    def _operator(self, hearing: HearingInfo, source: OperatorSource) -> Operator | None:
        """Return the operator's tensors; None if they are not there yet, or if `MAX_KEPT` others are in use."""
        kept = self._keep(hearing)
        if kept.operator is None and self._room():
            kept.operator = source.operator()
            if kept.operator is not None:
                kept.operator.walk = kept.walk
        return kept.operator

    def _room(self) -> bool:
        """Return whether there is room for one more operator's tensors. Those of another trial are dropped if need be,
        first of one that waits for the other side."""
        holders = [number for number, kept in self._kept.items() if kept.operator is not None]
        if len(holders) < MAX_KEPT:
            return True
        free = [number for number in holders if not self._drafts.busy(number)]
        if not free:
            return False
        self._kept[min(free, key=lambda number: self._kept[number].idle is None)].operator = None
        return True

    def _keep(self, hearing: HearingInfo) -> _Kept:
        """NOTE: each hearing that is not over takes a few states and a record of memory."""
        return self._kept.setdefault(hearing.id, _Kept(hearing.terms.submission.job_id))

    def _wait(self, hearing: HearingInfo, state: object, patience: Patience) -> None:
        """Leave a move for later, and log that once."""
        kept = self._keep(hearing)
        if kept.waiting != state:
            kept.waiting = state
            _log.info("hearing.waits", match=whole(hearing.match_id), fee=patience.fee, bears=patience.bears)


class Rival:
    """The other side of a trial, as the chain and its server show it, if it has one.

    SAFETY: an output is checked against the record's hash when it is fetched, and here against the structure's type.
    """

    def __init__(self, trial: TrialInfo, side: int, serve: Callable[[bytes, int], Array | None]) -> None:
        self._trial = trial
        self._side = side
        self._serve = serve
        self._outputs: dict[int, Array | None] = {}

    def output(self, number: int) -> Array | None:
        if number not in self._outputs:
            dispute = self._trial.dispute
            kind = Structure.decode(dispute.structure).outputs[number]
            served = self._serve(dispute.records[self._side].outputs[number], kind.nbytes + MAX_HEADER_BYTES)
            fits = served is not None and TensorType.of(served) == kind
            self._outputs[number] = served if fits else None
        return self._outputs[number]

    def children(self) -> Sequence[bytes] | None:
        return self._trial.children[self._side]

    def leaf(self) -> bytes | None:
        return self._trial.leaves[self._side]
