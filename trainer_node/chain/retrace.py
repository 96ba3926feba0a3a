"""Replays a match from its transactions with the Python rules, with its hearing and its trials.

The contracts and the rules must decide the same; anybody with an RPC endpoint can check it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hexbytes import HexBytes

from referee_py import trial as court
from referee_py.element import NO_ENTRY
from referee_py.game import rules as game
from referee_py.game.state import MatchState, Move, Phase, Submit
from referee_py.panel import rules as panel
from referee_py.panel.state import HearingState, HearingTerms, Submission, hearing_id, trial_terms_of
from referee_py.panel.state import Move as HearingMove
from referee_py.trial import Stage, TrialState
from referee_py.walk.dispute import Dispute, dispute_hash

from .codec.base import calls_in
from .codec.hearing import hearing_move, hearing_terms
from .codec.job import JobView
from .codec.match import MatchInfo, match_move
from .codec.trial import trial_move
from .rpc import guarded
from .snapshot import Snapshot


@dataclass(frozen=True)
class MatchTrace:
    """A match, its hearing if there is one, and the hearing's trials in order."""

    match: MatchState
    hearing: HearingState | None
    trials: tuple[TrialState, ...]


def recorded(snapshot: Snapshot, job: JobView, match_id: int) -> MatchTrace:
    """Return the trace according to the contracts. Raises RpcUnavailable or RpcCorrupt."""
    match, hearing = snapshot.match(job, match_id), snapshot.hearing(job, match_id)
    if hearing is None:
        return MatchTrace(match.state, None, ())
    numbers = range(1, hearing.state.trials + 1)
    trials = (snapshot.trial(hearing, number).state for number in numbers)
    return MatchTrace(match.state, hearing.state, tuple(map(_lasting, trials)))


def retrace(snapshot: Snapshot, job: JobView, match_id: int) -> MatchTrace:
    """Return the trace that the Python rules give for the match's moves, senders and instants.

    Raises IllegalMove if they refuse a move that a contract has accepted, RpcUnavailable or RpcCorrupt.
    NOTE: a move that another contract has sent is in no transaction's input, so its match cannot be retraced.
    """
    *_, (_, last) = retraced(snapshot, job, match_id)
    return last


def retraced(snapshot: Snapshot, job: JobView, match_id: int) -> Iterator[tuple[bytes, MatchTrace]]:
    """Yield each transaction of a match, from its opening on, with the trace after it. Raises as `retrace`."""
    match = snapshot.match(job, match_id)
    opened = next(event for event in snapshot.events(match_id) if event.name == "Opened")
    state = game.opened(match.terms, snapshot.instant(opened.block))
    again = _Retracer(snapshot, job, match, state)
    yield opened.tx_hash, again.course
    for tx_hash in transactions_of(snapshot, job, match_id):
        again.play(tx_hash)
        yield tx_hash, again.course


def transactions_of(snapshot: Snapshot, job: JobView, match_id: int) -> list[bytes]:
    """Return the transactions of a match after its opening, of its hearing and of its trials, in order."""
    events = [event for event in snapshot.events(match_id) if event.name != "Opened"]
    hearing = snapshot.hearing(job, match_id)
    if hearing is not None:
        events = events + snapshot.hearing_events(hearing.id)
        for number in range(1, hearing.state.trials + 1):
            events += snapshot.trial_events(hearing.trial(number))
    ordered = sorted(events, key=lambda event: (event.block, event.index))
    return list(dict.fromkeys(event.tx_hash for event in ordered))


def _lasting(trial: TrialState) -> TrialState:
    """Return a trial's state; once the trial is done, without the fields that the contract no longer keeps."""
    if trial.stage is not Stage.DONE:
        return trial
    trial = replace(trial, posted=0, height=0, index=0, nodes=(b"", b""), tick=0)
    if trial.steps:
        return trial
    return replace(trial, element=0, values=(0, 0), entry=NO_ENTRY, state_bytes=0, agreed=b"")


class _Retracer:
    """Applies the moves of one match to the Python rules."""

    def __init__(self, snapshot: Snapshot, job: JobView, match: MatchInfo, state: MatchState) -> None:
        self._snapshot = snapshot
        self._job = job
        self._match = match
        self._state = state
        self._terms: HearingTerms | None = None
        self._hearing: HearingState | None = None
        self._trials: dict[int, tuple[Dispute, TrialState]] = {}

    @property
    def course(self) -> MatchTrace:
        return MatchTrace(
            self._state, self._hearing, tuple(_lasting(state) for _, state in self._trials.values())
        )

    def play(self, tx_hash: bytes) -> None:
        """Apply the moves in one transaction. NOTE: a transaction that opened the match may hold no move of it."""
        contracts = self._snapshot.contracts
        with guarded("eth_getTransactionByHash"):
            sent: Any = self._snapshot.web3.eth.get_transaction(HexBytes(tx_hash))
            to, data = str(sent["to"]).lower(), bytes(sent["input"])
            sender, value = str(sent["from"]), int(sent["value"])
            ours = contracts.referee, contracts.panel, contracts.court
            called = next((contract for contract in ours if str(contract.address).lower() == to), None)
            calls = list(calls_in(called, data)) if called is not None else []
        now = self._snapshot.instant(sent["blockNumber"])
        for name, arguments in calls:
            first = next(iter(arguments), None)
            if called is contracts.referee and first == self._match.id:
                if move := match_move(name, arguments):
                    self._in_match(move, sender, now)
            elif called is contracts.panel and self._terms is not None and first == self._terms.hearing_id:
                # NOTE: the bond of an appeal follows the price of gas.
                base_fee = self._snapshot.base_fee(sent["blockNumber"])
                self._terms = replace(self._terms, stake=self._job.stake_at(base_fee))
                self._in_hearing(hearing_move(name, arguments), sender, value, now)
            elif called is contracts.court and (found := trial_move(name, arguments)):
                self._in_trial(*found, sender, now)

    def _in_match(self, move: Move, sender: str, now: int) -> None:
        self._state = game.apply(self._state, self._match.terms, move, sender, now)
        if self._state.phase is Phase.HEARING and isinstance(move, Submit):
            self._terms = self._hearing_terms(move)
            self._follow(panel.heard(self._terms, now), now)

    def _in_hearing(self, move: HearingMove, sender: str, value: int, now: int) -> None:
        assert self._hearing is not None
        assert self._terms is not None
        self._follow(panel.apply(self._hearing, self._terms, move, sender, value, now), now)

    def _in_trial(self, number: int, move: court.Move, sender: str, now: int) -> None:
        if number not in self._trials:
            return
        dispute, state = self._trials[number]
        state = court.apply(state, dispute, move, sender, now)
        self._trials[number] = dispute, state
        if state.stage is Stage.DONE:
            assert self._hearing is not None
            late = isinstance(move, court.Timeout)
            self._follow(panel.trial_decided(self._hearing, state.losers, late, now), now)

    def _follow(self, outcome: panel.Outcome, now: int) -> None:
        """Apply the effects of a hearing to its trials and to the match."""
        assert self._terms is not None
        self._hearing, effects = outcome
        clock = (self._terms.rules.clock, self._terms.rules.clock)
        for effect in effects:
            if isinstance(effect, panel.OpenTrial):
                number = trial_terms_of(self._terms, effect.number, effect.players, effect.dispute).trial()
                trial = court.open_trial(effect.dispute, effect.players, clock, now)
                self._trials[number] = effect.dispute, trial
            if isinstance(effect, panel.DecideMatch):
                self._state = game.hearing_decided(self._state, effect.losers, effect.reason)

    def _hearing_terms(self, move: Submit) -> HearingTerms:
        """Return the hearing terms that the referee has passed to the panel."""
        state, match, job, exhibit = self._state, self._match, self._job, move.exhibit
        deployment = self._snapshot.contracts.deployment
        records = exhibit.record0, exhibit.record1
        dispute = Dispute(records, exhibit.structure, job.program.mode)
        at = (match.id, deployment.jobs, job.id, state.end, state.index, match.terms.players, state.node)
        number = hearing_id(deployment.referee, match.id)
        submission = Submission(*at, dispute_hash(dispute))
        return hearing_terms(number, submission, dispute, job, deployment.chain_id, deployment.panel)
