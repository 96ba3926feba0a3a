"""A hearing, its trial, and the hearing player in it; the test moves for the other side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from eth_utils.address import to_checksum_address

from referee_py.commit import Record
from referee_py.panel.state import (
    HearingPhase,
    HearingState,
    HearingTerms,
    Submission,
    hearing_id,
    trial_terms_of,
)
from referee_py.trial import Move as TrialMove
from referee_py.trial import NodesReveal, ShowLeaf, TrialState, apply, open_trial
from referee_py.trial import solver as trials
from referee_py.trial.solver import Operator
from referee_py.walk.dispute import dispute_hash
from tests.referee_py.trial.parties import Known, Setting
from tests.support.planned import moves_of
from trainer_node.chain import HearingInfo, TrialInfo
from trainer_node.chain.outbox import Value
from trainer_node.daemon.due import Due
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.opponents import Opponents
from trainer_node.play.drafts import RoundPatience
from trainer_node.play.hearings import HearingPlayer
from trainer_node.storage.store import Store

from .desk import REFEREE, rules
from .sent import CONTRACTS, move_of_hearing, moves_of_trial

ME, LIAR, STRANGER = (to_checksum_address("0x" + byte * 20) for byte in ("aa", "bb", "cc"))
VERIFIER = to_checksum_address("0x" + "dd" * 20)
CLOCK, BEGAN, STAKE, PERIOD = 1000, 1000, 7, 100
PATIENT_S = 60.0
"""Long enough that what is due is sent in the round that asks for it."""


@dataclass
class Told:
    """A source with fixed answers that counts the questions."""

    record: Record | None
    tensors: Operator | None
    uris: list[str] = field(default_factory=list)
    asked: int = 0

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:  # noqa: ARG002
        self.asked += 1
        return self.record

    def operator(self) -> Callable[[], Operator] | None:
        self.asked += 1
        tensors = self.tensors
        return None if tensors is None else lambda: tensors

    def servers(self) -> Sequence[str]:
        return self.uris


class Room:
    """A hearing about a matrix product, one element of which is wrong at the liar, and the hearing player in it."""

    def __init__(self, folder: Path, me: str = ME, patience_s: float = PATIENT_S) -> None:
        rng = np.random.default_rng(7)
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((20, 300), (300, 20))]
        setting = Setting.of("mm", inputs, {}, 0.7, 0, 137)
        assert setting is not None
        self.setting, self.dispute = setting, setting.dispute
        hashes = self.dispute.records[0].hash(), self.dispute.records[1].hash()
        at = Submission(1, "0x" + "34" * 20, 1, 5, 3, (ME, LIAR), hashes, dispute_hash(self.dispute))
        periods = replace(rules(), verdict_period=PERIOD, appeal_period=PERIOD)
        terms = HearingTerms(
            hearing_id(REFEREE, 1), at, self.dispute, periods, STAKE, (VERIFIER,), 1, "0x" + "12" * 20
        )
        self.hearing = HearingInfo(
            HearingState(HearingPhase.VOTING, until=BEGAN + PERIOD), terms, {}, Value(2 * STAKE, STAKE)
        )
        self.trial = open_trial(self.dispute, (ME, LIAR), (CLOCK, CLOCK), BEGAN)
        self.shown = Known(), Known()
        self.sent: list[tuple[Any, tuple[int, int | None]]] = []
        self.store = Store(folder / "own", sync=False)
        fetcher = Fetcher(self.store, timeout_s=60.0, attempts=1, budget_s=60.0)
        self.stop = threading.Event()
        opponents = Opponents(fetcher, patience_s=60.0)
        self.hearing_player = HearingPlayer(CONTRACTS, me, opponents, self.stop, RoundPatience(patience_s))

    def attend(self, source: Told, now: int = BEGAN + 1) -> Any:
        """Look once; return the move that is sent, or the batch of a trial, or None."""
        snapshot: Any = SimpleNamespace(now=now, trial=lambda _hearing: self.trial_info())
        sent = self.take(self.hearing_player.due(snapshot, self.hearing, source))
        return sent[-1] if sent else None

    def take(self, dues: list[Due]) -> list[Any]:
        """Note what is sent; return it: a move, or the batch of a trial."""
        calls = [due.call for due in dues]
        decode = moves_of_trial if self.hearing.state.in_trial else move_of_hearing
        found: list[Any] = [decode(call) for call in calls]
        self.sent += [(moves, (call.value, call.least)) for moves, call in zip(found, calls, strict=True)]
        return found

    def has_come_to(self, phase: HearingPhase, **changes: Any) -> None:
        self.hearing = replace(self.hearing, state=replace(self.hearing.state, phase=phase, **changes))

    def trial_info(self) -> TrialInfo:
        """Return the trial as events and views show it."""
        state = self.trial
        children = tuple(None if k.revealed is None else tuple(k.revealed) for k in self.shown)
        leaves = tuple(k.shown for k in self.shown)
        trial_terms = trial_terms_of(self.hearing.terms, 1, (ME, LIAR), self.dispute)
        return TrialInfo(
            9, trial_terms, self.dispute, state, (children[0], children[1]), (leaves[0], leaves[1])
        )

    def accept(self, side: int, moves: Sequence[TrialMove], now: int = BEGAN + 1) -> TrialState:
        """Let the court accept these moves."""
        for move in moves:
            before = self.trial
            self.trial = apply(self.trial, self.dispute, move, (ME, LIAR)[side], now)
            if isinstance(move, NodesReveal):
                self.shown[side].revealed = move.children
            elif (before.height, before.index) != (self.trial.height, self.trial.index):
                self.shown[0].revealed = self.shown[1].revealed = None
            if isinstance(move, ShowLeaf):
                self.shown[side].shown = move.leaf
        return self.trial

    def liar_plays(self, now: int = BEGAN + 1) -> None:
        rival = self.shown[0]
        self.accept(
            1, moves_of(trials.plan(self.trial, self.dispute, 1, self.setting.sides[1], rival, now)), now
        )

    def source(self, *uris: str) -> Told:
        return Told(self.dispute.records[0], self.setting.sides[0], list(uris))
