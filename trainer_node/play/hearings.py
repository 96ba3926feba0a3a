"""A party's part in hearings: which move is due, and its moves in trials.

    spokesman   appeals from a verdict that calls its right record wrong; plays that trial and later those of signers
    signer      stands by its verdict once it is overruled, and plays the trial
    both        keep a hearing going: escalate, proceed

Every round reads the hearings from the chain, so a restart loses nothing. Moves in trials may take long to compute;
threads beside the node's loop compute them (`drafts`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import structlog

from referee_py.commit import Record
from referee_py.commit.tensor import Array
from referee_py.panel.solver import plan, seat
from referee_py.panel.state import Appeal, HearingPhase, Stand, Submission
from referee_py.program import Structure, TensorType
from referee_py.trial import Stage, Timeout
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
from ..stake.admission import DRAFT_LANES
from ..stake.gas_patience import NONE, Patience, Slack
from .drafts import Drafts, RoundPatience, Stop
from .right_records import First, Rights
from .unbound_moves import confirmed_first

MAX_KEPT = 4
"""Number of operators whose tensors are in memory while their trials last. NOTE: states of a chain are kept for every
trial. With more trials than this in which a move of ours is due, each round reads published tensors from the disk."""
_log = structlog.get_logger(__name__)


class OperatorSource(Protocol):
    """A party's knowledge of the operator that a hearing is about; None: not yet. Asked for only if needed."""

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:
        """Return the right record, as the party has computed it, within ``patience_s`` seconds. ``hurry``: half of the
        time in which it is of use is over."""
        ...

    def operator(self) -> Callable[[], Operator] | None:
        """Return what gives the operator's tensors, to which the party's record commits; it may compute them, so it is
        called outside the loop."""
        ...

    def servers(self) -> Sequence[str]:
        """Return the servers that may have the other side's tensors."""
        ...


@dataclass
class _Kept:
    of: Submission
    right: Record | None = None
    operator: Callable[[], Operator] | None = None
    """Gives the operator's tensors, and holds them from the first draft on."""
    walk: ChainStates = field(default_factory=ChainStates)
    waiting: object = None
    """The state in which a move waits for cheaper gas, once that is logged."""
    idle: object = None
    """The state of the trial in which it is the other side's move, once we have looked for one of ours in it."""


class HearingPlayer:
    """Decides for the account ``me``, until ``stop`` is set. Moves are computed within ``first``."""

    def __init__(
        self,
        contracts: Contracts,
        me: str,
        opponents: Opponents,
        stop: threading.Event,
        patience: RoundPatience | None = None,
        first: First = nullcontext,
    ) -> None:
        self._contracts = contracts
        self._me = me
        self._opponents = opponents
        self._drafts: Drafts[int, Planned] = Drafts(stop, DRAFT_LANES, "trial")
        self._first = first
        self.rights = Rights(first)
        """Right records, which spokesmen compute before an appeal."""
        self._patience = RoundPatience() if patience is None else patience
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
            about = {"match": whole(hearing.match_id), "move": move.function}
            # SAFETY: all verdicts that we have signed may be overruled in one block, so no stand waits for another.
            sent = _nothing_waits if isinstance(move, Stand) else None
            return [Due(call, "hearing.move", about, dispute=True, sent=sent)]
        return []

    def forget(self, job_id: int, but: Collection[int] = ()) -> None:
        """Drop the data kept about a job's hearings, except those in ``but``."""
        for number in [n for n, kept in self._kept.items() if kept.of.job_id == job_id and n not in but]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        """Drop the data kept about a hearing."""
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
        slack = Slack.by_clock(trial.state, side, hearing.terms.rules.clock, now)
        if moves and patience.waits(slack):
            self._wait(hearing, trial.state, patience)
        elif moves:
            names = [type(move).__name__ for move, _ in moves]
            about = {"match": whole(hearing.match_id), "side": side, "moves": names}
            made = [trial_call(move, trial.trial_terms, trial.dispute, before) for move, before in moves]
            call = Call.batch(self._contracts.court, *made, inputs=len(trial.dispute.records[0].inputs))
            due = Due(call, "trial.move", about, dispute=True)
            return [confirmed_first(due, [move for move, _ in moves], slack)]
        return []

    def _drafted(
        self, snapshot: Snapshot, hearing: HearingInfo, trial: TrialInfo, side: int, source: OperatorSource
    ) -> list[Planned]:
        """Return our moves in the trial, or none while they are still being computed."""
        kept, state = self._keep(hearing), (trial.state, trial.children, trial.leaves)
        # SAFETY: the tensors of an operator may be large. With more trials than are kept in memory, they are read for
        # each trial in which a move of ours may be due, and for none that waits for the other side.
        if kept.idle == state:
            return []
        make = self._operator(hearing, source)
        if make is None:
            return []
        servers, now = list(source.servers()), snapshot.now

        def work(stop: Stop) -> Sequence[Planned]:
            rival = Rival(trial, 1 - side, self._opponents.ask(servers).tensor)
            if trial.state.stage in (Stage.OUTPUTS, Stage.WALK, Stage.LEAF):
                # SAFETY: asked for here, so that no run rests while the other side's server is slow.
                rival.output(trial.state.output)
            with self._first():
                operator = make()
                operator.walk = kept.walk
                operator.walk.stop = stop
                return trials.plan(trial.state, trial.dispute, side, operator, rival, now)

        with self._patience.of(snapshot) as left:
            moves = self._drafts.moves(hearing.id, state, work, left)
        if moves is None:
            _log.info("trial.pending", match=whole(hearing.match_id), side=side, steps=kept.walk.steps)
        elif not moves and not owing(trial.state) >> side & 1:
            kept.idle = state
        return moves or []

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
        with self._patience.of(snapshot) as left:
            found = source.right(left, hurry=hurry)
        if not hurry:
            kept.right = found
        return found

    def _operator(self, hearing: HearingInfo, source: OperatorSource) -> Callable[[], Operator] | None:
        """Return what gives the operator's tensors; None if they cannot be had yet, or if `MAX_KEPT` others are in
        use."""
        kept = self._keep(hearing)
        if kept.operator is None and self._room():
            make = source.operator()
            kept.operator = None if make is None else cache(make)
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
        """Return what is kept about a hearing.

        SAFETY: after a reorganisation its match may have reached another operator, and nothing that was found of the
        one before counts. NOTE: each hearing that is not over takes a few states and a record of memory.
        """
        of, kept = hearing.terms.submission, self._kept.get(hearing.id)
        if kept is not None and kept.of != of:
            self._drop(hearing.id)
        return self._kept.setdefault(hearing.id, _Kept(of))

    def _wait(self, hearing: HearingInfo, state: object, patience: Patience) -> None:
        """Leave a move for later, and log that once."""
        kept = self._keep(hearing)
        if kept.waiting != state:
            kept.waiting = state
            _log.info("hearing.waits", match=whole(hearing.match_id), fee=patience.fee, bears=patience.bears)


def _nothing_waits(_: int) -> None:
    """The outbox takes care of it; while it is on its way, the same is not sent again."""


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
