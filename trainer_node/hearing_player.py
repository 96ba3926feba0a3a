"""A party's part in hearings: which move is due, and its moves in trials.

    spokesman   appeals from a verdict that calls its right record wrong; plays the trial, later those of signers
    signer      stands by its verdict once that was overruled, and plays the trial
    both        see to it that a hearing goes on: escalate, proceed

Every hearing is read from the chain anew, so it does not matter what this process has seen of it. Moves in trials may
take long to find, and are worked out beside the node's loop (`drafts`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from referee_py.commit import Record
from referee_py.commit.tensor import Array
from referee_py.panel.solver import plan, seat
from referee_py.panel.state import Appeal, HearingPhase, Move
from referee_py.program import Structure, TensorType
from referee_py.trial import Move as TrialMove
from referee_py.trial import Timeout
from referee_py.trial import solver as trials
from referee_py.trial.chain_states import ChainStates
from referee_py.trial.solver import Operator
from referee_py.walk.clock import late, owing

from .chain import Contracts, HearingInfo, Snapshot, TransactionManager, TrialInfo
from .chain.outbox import Call, Value
from .drafts import Drafts, Stop
from .opponent import Opponents
from .package import MAX_HEADER_BYTES
from .patience import NONE, Patience
from .submit import ACT_TIMEOUT_S

MAX_KEPT = 4
"""Of operators whose tensors are kept while their trials last. NOTE: states of a chain are kept for every trial: with
many at a time, tensors are made again for each round, and a pass over the chain is not."""
PATIENCE_S = 1.0
"""How long a round of the node's loop waits for moves in trials, all in all; what takes longer is sent later."""

_log = structlog.get_logger(__name__)


class OperatorSource(Protocol):
    """What a party knows of the operator that a hearing is about; None: not yet. Asked for only where it matters."""

    def right(self) -> Record | None:
        """The right record, as the party has found it."""
        ...

    def operator(self) -> Operator | None:
        """Its tensors, as the record that the party stands for has them."""
        ...

    def servers(self) -> Sequence[str]:
        """Who may have the other side's."""
        ...


@dataclass
class _Kept:
    job_id: int
    right: Record | None = None
    operator: Operator | None = None
    walk: ChainStates = field(default_factory=ChainStates)
    waiting: object = None
    """The state in which a move waits for cheaper gas, once that was said."""


class HearingPlayer:
    """Acts for whoever holds the key of ``transactions``, until told to ``stop``."""

    def __init__(
        self,
        contracts: Contracts,
        transactions: TransactionManager,
        opponents: Opponents,
        stop: threading.Event,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._opponents = opponents
        self._drafts = Drafts(stop)
        self._patience_s = patience_s
        self._round: tuple[Snapshot | None, float] = None, 0.0
        """The snapshot of this round of the loop, and what is left of its patience."""
        self._kept: dict[int, _Kept] = {}

    def attend(
        self, snapshot: Snapshot, hearing: HearingInfo, source: OperatorSource, patience: Patience = NONE
    ) -> None:
        """Make the move that is due, if one is and gas is cheap enough for it.

        Raises the errors of TransactionManager, and what ``source`` raises.
        """
        me, state = self._transactions.address, hearing.state
        if state.in_trial:
            self._try(snapshot, hearing, seat(state, hearing.terms, me), source, patience)
            return
        right = self._right(hearing, source) if self._matters(hearing, snapshot.now) else None
        move = plan(state, hearing.terms, me, right, snapshot.now)
        left = state.until - snapshot.now
        period = hearing.terms.rules.appeal_period
        if move is not None and (patience.waits(left, period) if left > 0 else patience.lingers(-left)):
            self._wait(hearing, state, patience)
        elif move is not None:
            _log.info("hearing.move", match=hearing.match_id, move=move.function)
            self._send(self._contracts.hearing_move(hearing.id, move, _bond(hearing, move)))

    def forget(self, job_id: int, but: Collection[int] = ()) -> None:
        """Let go of what is known about a job's hearings, but for those."""
        for number in [n for n, kept in self._kept.items() if kept.job_id == job_id and n not in but]:
            self._drafts.forget(number)
            del self._kept[number]

    def _matters(self, hearing: HearingInfo, now: int) -> bool:
        """Whether it depends on what is right, what is due from us."""
        me, state, submission = self._transactions.address, hearing.state, hearing.terms.submission
        if now >= state.until:
            return False
        if state.phase is HearingPhase.RULED:
            wrong = submission.unlike(state.verdict)
            return any(player == me and wrong >> side & 1 for side, player in enumerate(submission.players))
        return state.phase is HearingPhase.DEFENCE and hearing.signed(me)

    # ------------------------------------------------------------------ trials

    def _try(
        self,
        snapshot: Snapshot,
        hearing: HearingInfo,
        side: int | None,
        source: OperatorSource,
        patience: Patience,
    ) -> None:
        """Make the moves that are due in the running trial, all in one transaction.

        Whoever is no player of it, or has not got its moves yet, can still claim that another is late.
        """
        trial, now = snapshot.trial(hearing), snapshot.now
        lost = late(trial.state, now)
        if lost:
            claims = side is None or lost == 1 << (1 - side)
            moves: list[TrialMove] = [Timeout()] if claims else []
        else:
            moves = [] if side is None else self._drafted(snapshot, hearing, trial, side, source)
        if moves and _waits(trial, side, hearing.terms.rules.clock, now, patience):
            self._wait(hearing, trial.state, patience)
        elif moves:
            names = [type(move).__name__ for move in moves]
            _log.info("trial.move", match=hearing.match_id, side=side, moves=names)
            self._send(self._contracts.trial_moves(trial, moves, self._transactions.address, now))

    def _drafted(
        self, snapshot: Snapshot, hearing: HearingInfo, trial: TrialInfo, side: int, source: OperatorSource
    ) -> list[TrialMove]:
        """The own moves, if they are worked out by now."""
        operator = self._operator(hearing, source)
        if operator is None:
            return []
        servers, now = list(source.servers()), snapshot.now

        def work(stop: Stop) -> Sequence[TrialMove]:
            operator.walk.stop = stop
            rival = Rival(trial, 1 - side, self._opponents.ask(servers).tensor)
            return trials.plan(trial.state, trial.dispute, side, operator, rival, now)

        of, left = self._round
        if of is not snapshot:
            left = self._patience_s
        began, state = time.monotonic(), (trial.state, trial.children, trial.leaves)
        moves = self._drafts.moves(hearing.id, state, work, left)
        self._round = snapshot, max(left - (time.monotonic() - began), 0.0)
        if moves is None:
            _log.info("trial.pending", match=hearing.match_id, side=side, steps=operator.walk.steps)
        return moves or []

    # ------------------------------------------------------------------ what we know

    def _right(self, hearing: HearingInfo, source: OperatorSource) -> Record | None:
        kept = self._keep(hearing)
        if kept.right is None:
            kept.right = source.right()
        return kept.right

    def _operator(self, hearing: HearingInfo, source: OperatorSource) -> Operator | None:
        """The operator's tensors; None if they are not there yet, or as many as are kept are being worked with."""
        kept = self._keep(hearing)
        if kept.operator is None and self._room():
            kept.operator = source.operator()
            if kept.operator is not None:
                kept.operator.walk = kept.walk
        return kept.operator

    def _room(self) -> bool:
        """Whether there is room for the tensors of one more operator; the first that nobody works with makes it."""
        holders = [number for number, kept in self._kept.items() if kept.operator is not None]
        if len(holders) < MAX_KEPT:
            return True
        idle = next((number for number in holders if not self._drafts.busy(number)), None)
        if idle is not None:
            self._kept[idle].operator = None
        return idle is not None

    def _keep(self, hearing: HearingInfo) -> _Kept:
        """NOTE: a few states and a record a hearing; there are as many as hearings that are not over."""
        return self._kept.setdefault(hearing.id, _Kept(hearing.terms.submission.job_id))

    def _send(self, call: Call) -> None:
        self._transactions.send(call, timeout_s=ACT_TIMEOUT_S)

    def _wait(self, hearing: HearingInfo, state: object, patience: Patience) -> None:
        """Leave a move for later, and say so once."""
        kept = self._keep(hearing)
        if kept.waiting != state:
            kept.waiting = state
            _log.info("hearing.waits", match=hearing.match_id, fee=patience.fee, bears=patience.bears)


class Rival:
    """The other side of a trial, as the chain shows it and as its server does, if it serves.

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


def _waits(trial: TrialInfo, side: int | None, clock: int, now: int, patience: Patience) -> bool:
    """Whether moves of a trial are sent later. SAFETY: only while our clock runs, or another has lost by his."""
    state = trial.state
    ends = [state.tick + state.clock[s] for s in (0, 1) if owing(state) >> s & 1]
    if late(state, now):
        return patience.lingers(now - min(ends))
    if side is None or not owing(state) >> side & 1:
        return False
    return patience.waits(state.tick + state.clock[side] - now, clock)


def _bond(hearing: HearingInfo, move: Move) -> int | Value:
    return hearing.bond if isinstance(move, Appeal) else 0
