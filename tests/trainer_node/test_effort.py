"""A trainer stakes on nothing that it cannot do in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import repops

from referee_py.errors import InvalidProgram, Unavailable
from referee_py.panel.state import Adjudication
from trainer_node.chain import JobPhase
from trainer_node.decide import too_late, too_slow
from trainer_node.effort import MARGIN, Effort, measure

from .desk import TERMS, job, rules, tiny_package


class Clock:
    """Moves on by ``tick`` seconds each time it is read."""

    def __init__(self, tick: float) -> None:
        self.now = 0.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def test_a_step_and_a_committed_step_are_measured() -> None:
    effort = measure(tiny_package(), repops.backend("cpu"), limit_s=60)
    assert 0 < effort.step_s < 10
    assert 0 < effort.commit_s < 10


def test_what_the_first_run_starts_is_not_reckoned() -> None:
    class Starting(Clock):
        def __call__(self) -> float:
            self.tick = 0.2 if self.now < 4 else 0.001
            return super().__call__()

    effort = measure(tiny_package(), repops.backend("cpu"), limit_s=60, clock=Starting(0.2))
    assert effort.commit_s < 0.1, "the first one took three seconds"


def test_a_step_that_takes_too_long_is_left_in_the_middle() -> None:
    with pytest.raises(InvalidProgram, match="node 4 when its time is over"):
        measure(tiny_package(), repops.backend("cpu"), limit_s=5.5, clock=Clock(1.0))


def test_a_trial_ends_when_the_node_stops() -> None:
    """NOTE: that says nothing about the job."""
    with pytest.raises(Unavailable):
        measure(tiny_package(), repops.backend("cpu"), limit_s=60, stop=lambda: True)


def test_training_and_disputes_are_reckoned() -> None:
    terms = replace(TERMS, steps=1000, strides=(100, 10, 1))
    effort = Effort(step_s=1.0, commit_s=3.0)
    assert effort.train_s(terms) == 1000 * 1 + 10 * 2
    # Four replays of up to a hundred steps, twice ten checkpoints, two steps with all their records.
    assert effort.dispute_s(terms) == 4 * 100 + 20 * 2 + 2 * 3
    short = replace(terms, steps=50)
    assert effort.dispute_s(short) == 4 * 50 + 15 * 2 + 2 * 3


def test_a_job_that_cannot_be_trained_in_time_is_left_to_others() -> None:
    training = job(commit_end=1000, challenge_end=9000)
    assert too_late(training, 900 / MARGIN, 100) is None
    assert "training" not in (too_late(training, 900 / MARGIN + 1, 100) or "training")
    claimed = replace(training, phase=JobPhase.CHALLENGE)
    assert too_late(claimed, 900 / MARGIN + 1, 100) is None
    assert too_late(claimed, 8900 / MARGIN + 1, 100) is not None


def test_a_job_whose_clock_is_shorter_than_our_dispute_is_left_to_others() -> None:
    effort = Effort(1.0, 1.0)
    needed = MARGIN * effort.dispute_s(TERMS)
    for adjudication in Adjudication:
        assert too_slow(job(rules=rules(adjudication, int(needed))), effort) is None
        assert "clock" in (too_slow(job(rules=rules(adjudication, int(needed) - 1)), effort) or "")
    hasty = replace(rules(clock=int(needed)), appeal_period=int(needed) - 1)
    assert "appeal period" in (too_slow(job(rules=hasty), effort) or "")
    assert too_slow(job(rules=replace(hasty, adjudication=Adjudication.ON_CHAIN)), effort) is None
