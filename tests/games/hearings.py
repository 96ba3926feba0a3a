"""All hearings in which an honest verifier may vote, against strangers who are both spokesmen and all other verifiers.

Strangers serve the inputs at any second or never, vote for any record, appeal or do not, give trials away, stand by a
wrong verdict. A trial that the honest verifier plays it wins: it is right. What it decides is the daemon's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from eth_account import Account

from referee_py.attestation import Verdict, sign
from referee_py.commit import Record
from referee_py.jobs import Rules
from referee_py.panel.solver import plan
from referee_py.panel.state import (
    Appeal,
    Attest,
    Escalate,
    HearingPhase,
    HearingTerms,
    Move,
    Proceed,
    Stand,
    Submission,
    hearing_id,
    trial_players,
)
from referee_py.walk.dispute import Dispute, dispute_hash
from referee_py.walk.refusals import Refusal
from tests.model.panel import Panel
from tests.model.registry import Registry
from tests.referee_py.trial.parties import Setting
from trainer_node.chain import HearingInfo, JobView
from trainer_node.chain.outbox import Value
from trainer_node.play.verdicts import Act, Judged, Signed, decide
from trainer_node.roles.acceptance import signature
from trainer_node.run.trial_cost import TrialCost
from trainer_node.settings.sections import Policy
from trainer_node.stake.admission import Means
from trainer_node.stake.judge import first

from .board import COARSE, PANEL, REFEREE, STAKE, Board, Left
from .runs import CHAIN, JOBS, who

KEYS = tuple(bytes([k]) * 32 for k in (1, 2, 3))
VERIFIERS = tuple(str(Account.from_key(key).address) for key in KEYS)
ME = VERIFIERS[0]
PLAYERS = who(50), who(51)
BOND, PERIOD = 1 << 20, 2
SETTINGS: Any = SimpleNamespace(
    policy=Policy(), allow_probable_bounds=False, limits=SimpleNamespace(max_period_s=1000), latency_s=0.0
)
NOTHING_SIGNED = Signed((), 0, 0, Means(0.0, 0.0, 1))


@cache
def dispute() -> Dispute:
    """Return a dispute about a matrix product; record 0 is right."""
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 4))]
    setting = Setting.of("mm", inputs, {}, 0.7, 0, 5)
    assert setting is not None
    return setting.dispute


def third() -> Record:
    """Return a record that is neither side's."""
    return replace(dispute().records[1], outputs=(b"third".rjust(32),))


@cache
def vote(key: bytes, terms: HearingTerms, record: bytes) -> Attest:
    at = terms.submission
    verdict = Verdict(terms.hearing_id, at.step, at.node, record)
    return Attest(at, record, sign(verdict, CHAIN, PANEL, Account.from_key(key)))


@dataclass
class Bench:
    """A hearing before the panel. ``judged``: what the honest verifier has found."""

    panel: Panel
    terms: HearingTerms
    now: int = 100
    judged: Judged | None = None

    def copied(self) -> Bench:
        twin = copy(self)
        panel = twin.panel = copy(self.panel)
        panel.registry = deepcopy(panel.registry)
        panel.hearings = {k: copy(hearing) for k, hearing in panel.hearings.items()}
        panel.trials, panel.credits = dict(panel.trials), dict(panel.credits)
        return twin

    @property
    def info(self) -> HearingInfo:
        state = self.panel.hearings[self.terms.hearing_id].state
        return HearingInfo(state, self.terms, {}, Value(STAKE, STAKE))

    def play(self, move: Move, sender: str) -> None:
        self.panel.play(
            self.terms.hearing_id, move, sender, STAKE if isinstance(move, Appeal) else 0, self.now
        )

    def decided(self, losers: int) -> None:
        self.panel.trial_decided(self.terms.hearing_id, losers, False, self.now)


def opened(threshold: int) -> Bench:
    """Open a hearing in which so many votes make a verdict."""
    rules = Rules(threshold, PERIOD, PERIOD, PERIOD)
    records = dispute().records
    at = Submission(
        1, JOBS, 1, 5, 3, PLAYERS, (records[0].hash(), records[1].hash()), dispute_hash(dispute())
    )
    number = hearing_id(REFEREE, 1)
    terms = HearingTerms(number, at, dispute(), rules, STAKE, VERIFIERS, CHAIN, PANEL)
    registry = Registry(BOND, 10)
    for verifier in VERIFIERS:
        registry.register(PANEL, verifier, BOND)
    panel = Panel(PANEL, registry, lambda *_: None)
    bench = Bench(panel, terms)
    panel.hear(panel.opening(terms, bench.now))
    return bench


@cache
def job() -> JobView:
    view = Board(COARSE, 1, Left(0)).view
    return replace(view, rules=Rules(1, PERIOD, PERIOD, PERIOD), verifiers=VERIFIERS)


@dataclass
class Hearings:
    """Plays all hearings. ``right``: the record that is right: either side's, or neither's."""

    threshold: int
    right: Record
    keeps: bool = True
    """The verifier keeps what its vote rests on."""
    seen: dict[object, int] = field(default_factory=dict)
    """The games from each state."""
    losses: list[tuple[str, ...]] = field(default_factory=list)
    voted: int = 0
    stood: int = 0
    """Number of states in which it votes, and stands by its verdict."""
    games: int = 0
    _path: list[str] = field(default_factory=list)

    def run(self) -> Hearings:
        self.games = self._go(opened(self.threshold))
        return self

    def _go(self, bench: Bench) -> int:
        state = bench.info.state
        if ME not in bench.panel.registry.verifiers:
            self.losses.append(tuple(self._path))
            return 1
        if state.phase is HearingPhase.DONE:
            assert bench.panel.registry.held.get((ME, PANEL), 0) == 0
            return 1
        key = (
            *(
                replace(state, until=max(state.until - bench.now, 0), voters=(), votes=()),
                bench.judged is None,
            ),
            (tuple(sorted(state.votes)), tuple(sorted(state.voters))),
            tuple(verifier in bench.panel.registry.verifiers for verifier in VERIFIERS),
        )
        if key not in self.seen:
            self.seen[key] = sum(self._after(bench, name, act) for name, act in self._all(bench))
        return self.seen[key]

    def _after(self, bench: Bench, name: str, act: Callable[[Bench], None]) -> int:
        after = bench.copied()
        try:
            act(after)
        except Refusal:
            return 0
        self._path.append(name)
        games = self._go(after)
        self._path.pop()
        return games

    # --- acts -----------------------------------------------------------------------------------------------------

    def _all(self, bench: Bench) -> Iterator[tuple[str, Callable[[Bench], None]]]:
        due = self._due(bench)
        yield from ([due] if due else [])
        yield from self._strangers(bench)
        if bench.judged is None:
            # NOTE: after a vote the judgement can be made again from what is kept, whatever is served.
            may = not bench.info.voted(ME) or self.keeps
            if may:
                yield "the inputs are there", self._judges
        running = not bench.info.state.in_trial and bench.now < bench.info.state.until
        if running and due is None and not self._must_judge(bench):
            yield "a second", self._passes

    def _must_judge(self, bench: Bench) -> bool:
        return self.keeps and bench.judged is None and bench.info.voted(ME)

    def _judges(self, bench: Bench) -> None:
        bench.judged = Judged(self.right, TrialCost(3, "mm", 4, 0.0))

    def _passes(self, bench: Bench) -> None:
        bench.now += 1
        if bench.info.voted(ME):
            bench.judged = None  # it may restart at any time

    def _due(self, bench: Bench) -> tuple[str, Callable[[Bench], None]] | None:
        info = bench.info
        reasons = signature(job(), bench.judged, NOTHING_SIGNED, SETTINGS)
        decision = decide(info, ME, bench.judged, bench.now, lambda: first(reasons))
        match decision.act:
            case Act.VOTE:
                assert bench.judged is not None
                move: Move | None = vote(KEYS[0], bench.terms, bench.judged.record.hash())
                self.voted += 1
            case Act.STAND | Act.KEEP_GOING:
                right = bench.judged.record if bench.judged is not None else None
                move = plan(info.state, bench.terms, ME, right, bench.now)
                self.stood += decision.act is Act.STAND
            case _:
                return None
        assert move is not None
        return decision.act, partial(_plays, move, ME)

    def _strangers(self, bench: Bench) -> Iterator[tuple[str, Callable[[Bench], None]]]:
        state, terms = bench.info.state, bench.terms
        records = (*dispute().records, third())
        match state.phase:
            case HearingPhase.VOTING:
                for key, verifier in zip(KEYS[1:], VERIFIERS[1:], strict=True):
                    for k, record in enumerate(records):
                        yield f"vote for {k}", partial(_plays, vote(key, terms, record.hash()), verifier)
                yield "escalate", partial(_plays, Escalate(terms.submission, terms.dispute), PLAYERS[0])
            case HearingPhase.RULED:
                for side, player in enumerate(PLAYERS):
                    yield f"{side} appeals", partial(_plays, Appeal(terms.submission, terms.dispute), player)
                yield "proceed", partial(_plays, Proceed(terms.submission), PLAYERS[0])
            case HearingPhase.DEFENCE:
                for verifier in VERIFIERS[1:]:
                    for k, record in enumerate(records):
                        stands = Stand(terms.submission, terms.dispute, record)
                        yield f"a stranger stands by {k}", partial(_plays, stands, verifier)
                yield "proceed", partial(_plays, Proceed(terms.submission), PLAYERS[0])
            case HearingPhase.TRIAL | HearingPhase.STAND:
                players = trial_players(state, terms)
                mine = players.index(ME) if ME in players else None
                for losers in (1, 2, 3) if mine is None else (1 << (1 - mine),):
                    yield f"{losers} lose the trial", partial(_decides, losers)


def _plays(move: Move, sender: str, bench: Bench) -> None:
    bench.play(move, sender)


def _decides(losers: int, bench: Bench) -> None:
    bench.decided(losers)
