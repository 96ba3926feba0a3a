"""From a claim to a hearing and back: the referee's submission to the panel, and the effect of the panel's decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from referee_py.commit import NO_LOG
from referee_py.game.player_data import ChainLog, LoggedView
from referee_py.game.solver import plan
from referee_py.game.state import Move, Phase, Submit, Timeout
from referee_py.jobs import Rules, commitment
from referee_py.panel.state import HearingPhase, hearing_id
from referee_py.trial.solver import plan as plan_trial
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, JobTerms, Match
from tests.referee_py.trial.parties import Known
from tests.support.planned import moves_of

from .real import RealGraph, random_real_graph
from .synthetic_run import Lie, Run

JOBS, REFEREE, PANEL, CLIENT = ("0x" + digit * 40 for digit in "1234")
TRAINER, CHALLENGER = ("0x" + digit * 40 for digit in "56")
STAKE, SALT = 1000, bytes(32)


@dataclass
class Dispute:
    """A trainer with the true run, and a challenger that has one output of the first node wrong."""

    court_only: bool
    graph: RealGraph
    now: int = 100
    model: ChainModel = field(default_factory=lambda: ChainModel(31337, JOBS, REFEREE, PANEL))

    def __post_init__(self) -> None:
        verifiers = () if self.court_only else ("0x" + "99" * 20,)
        rules = Rules(len(verifiers), 20, 30, 1000)
        terms = JobTerms(self.graph.header, 1, STAKE, 100, 50, 60, rules, verifiers)
        self.runs = Run(self.graph), Run(self.graph, (Lie("output", 1, 0, seed=1),))
        model, true, logs = self.model, self.runs[0], self.graph.logs
        self.job = model.post(terms, CLIENT, 0, self.now)
        hashed = commitment(31337, JOBS, self.job, TRAINER, true.root, true.last, logs, SALT)
        model.join(self.job, TRAINER, STAKE, self.now)
        model.commit(self.job, hashed, TRAINER, self.now)
        model.reveal(self.job, _claim(true), logs, SALT, TRAINER, 0, self.now)
        lie = self.runs[1]
        hashed = commitment(31337, JOBS, self.job, CHALLENGER, lie.root, lie.last, NO_LOG, SALT)
        model.commit_challenge(self.job, hashed, self.now)
        self.now += 1
        model.challenge(self.job, _claim(lie), SALT, CHALLENGER, STAKE, self.now)

    @property
    def match(self) -> Match:
        return self.model.matches[1]

    def moves(self) -> list[Move]:
        """Return the moves of the trainer, to whom all data is served."""
        view = LoggedView(ChainLog(), 1, self.runs[1].serve, self.runs[1].serve_record)
        state, terms = self.match.state, self.match.terms
        return moves_of(plan(state, terms, 0, may_refine=True, own=self.runs[0], opponent=view, now=self.now))

    def play(self, *extra: Move) -> None:
        self.model.play(1, [*self.moves(), *extra], TRAINER, self.now)


def _claim(run: Run) -> Claim:
    return Claim(run.root, run.last, tuple(run.last_path))


def disputed(*, court_only: bool) -> Dispute:
    graph = next(g for k in range(99) if (g := random_real_graph(Random(k))).strides == (1,))
    return Dispute(court_only, graph)


def test_submitted_expect_a_hearing_about_the_disputed_operator() -> None:
    game = disputed(court_only=False)
    assert isinstance(game.moves()[-1], Submit)
    game.play()
    assert game.match.state.phase is Phase.HEARING
    hearing = game.model.panel.hearings[hearing_id(REFEREE, 1)]
    submission = hearing.terms.submission
    assert (submission.match_id, submission.jobs, submission.job_id) == (1, JOBS, game.job)
    assert (submission.step, submission.node) == (1, 0)
    assert submission.players == (TRAINER, CHALLENGER)
    assert submission.records == tuple(run.records[1][0].hash() for run in game.runs)
    assert hearing.terms.dispute.records == tuple(run.records[1][0] for run in game.runs)
    assert hearing.terms.stake == STAKE
    assert (hearing.state.phase, hearing.state.until) == (HearingPhase.VOTING, game.now + 20)


def test_submission_in_a_batch_that_is_refused_expect_no_hearing() -> None:
    game = disputed(court_only=True)
    before = game.match.state
    with pytest.raises(Refusal):
        game.play(Timeout())
    assert game.match.state is before
    assert not game.model.panel.hearings
    assert not game.model.panel.trials


def test_trial_decides_expect_match_and_stakes_distributed() -> None:
    game = disputed(court_only=True)
    game.play()
    panel, operators = game.model.panel, []
    for run in game.runs:
        operator = game.graph.operator(run.records[1][0])
        assert operator is not None
        operators.append(operator)
    number = panel.trial_of(hearing_id(REFEREE, 1))
    assert number is not None
    trial = panel.trials[number]
    while panel.trial_of(hearing_id(REFEREE, 1)):
        for side, player in enumerate((TRAINER, CHALLENGER)):
            known = Known(operators[1 - side].outputs)
            moves = moves_of(plan_trial(trial.state, trial.dispute, side, operators[side], known, game.now))
            panel.plead(number, moves, player, game.now)
    assert (game.match.state.losers, game.match.state.reason) == (0b10, Reason.OPERATOR)
    assert game.model.credits[TRAINER] == STAKE // 2
    assert game.model.jobs[game.job].waiting == 0, "the trainer's group waits again"
