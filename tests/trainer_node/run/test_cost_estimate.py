"""A trainer stakes only on jobs that it can finish in time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import repops
from repops.host.chains import KINDS, Chain
from repops.random_calls import random_call
from repops.sums import SumMode

from referee_py.element import Case, rule_of
from referee_py.errors import Unavailable
from referee_py.program import Program, SlotSource, TensorDescriptor, TensorType
from referee_py.rounding import Rounding
from tests.referee_py.program.tiny import Writer, constant
from tests.referee_py.trial.parties import structure_of
from trainer_node.chain import JobPhase, JobView
from trainer_node.run.cost_estimate import MARGIN, CostEstimate, StepTooLong, measure
from trainer_node.run.package import Package
from trainer_node.run.trial_cost import (
    FASTEST,
    NO_TRIAL,
    SAMPLE_STEPS,
    Sampler,
    TrialCost,
    longest_chain,
    walking_rate,
)
from trainer_node.stake.deadlines import TooLate, too_late, too_slow
from trainer_node.stake.min_stake import TRIAL_MOVES

from ..desk import TERMS, job, rules, tiny_package


class Clock:
    """A clock that moves on by ``tick`` seconds at each reading."""

    def __init__(self, tick: float) -> None:
        self.now = 0.0
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def test_a_step_and_a_committed_step_are_measured() -> None:
    estimate = measure(tiny_package(), repops.backend("cpu"), limit_s=60, clock=Clock(0.001))
    assert estimate.step_s > 0
    assert estimate.commit_s > 0


def test_what_the_first_run_starts_is_not_reckoned() -> None:
    class Starting(Clock):
        def __call__(self) -> float:
            self.tick = 0.2 if self.now < 4 else 0.001
            return super().__call__()

    estimate = measure(tiny_package(), repops.backend("cpu"), limit_s=60, clock=Starting(0.2))
    assert estimate.commit_s < 0.1, "the first one took three seconds"


def test_a_step_that_takes_too_long_is_left_in_the_middle() -> None:
    with pytest.raises(StepTooLong, match="node 4 when its time is over"):
        measure(tiny_package(), repops.backend("cpu"), limit_s=5.5, clock=Clock(1.0), busy=Clock(1.0))


class Disturbed:
    """A backend on a machine that is taken away once, for ``seconds`` of the clock and none of the processors."""

    name, sums = "disturbed", SumMode.REPOPS_F32

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.used = seconds, 0.0, 0.0
        self.calls = 0

    def clock(self) -> float:
        return self.now

    def busy(self) -> float:
        return self.used

    def execute(self, *operator: Any) -> Any:
        self.calls += 1
        self.now += 0.001 + (self.seconds if self.calls == 2 else 0.0)
        self.used += 0.001
        return repops.backend("cpu").execute(*operator)


@pytest.mark.parametrize("seconds", [6.0, 50.0, 100.0])
def test_one_outlier_decides_nothing(seconds: float) -> None:
    """The fault: one step that was timed at 60 times its cost left a job unchecked."""
    one = Disturbed(seconds)
    found = measure(tiny_package(), one, limit_s=60, clock=one.clock, busy=one.busy)
    assert found.commit_s < 1
    assert found.step_s < 1


def test_a_step_that_computes_for_long_is_measured_once() -> None:
    class Long(Disturbed):
        def execute(self, *operator: Any) -> Any:
            self.now += 1.0
            self.used += 1.0
            return super().execute(*operator)

    one = Long(0.0)
    assert measure(tiny_package(), one, limit_s=60, clock=one.clock, busy=one.busy).step_s > 1
    per_step = len(tiny_package().program.nodes)
    assert one.calls <= 2 * per_step


def test_a_machine_that_has_no_time_for_us_says_nothing_about_the_job() -> None:
    one = Disturbed(1000.0)
    with pytest.raises(Unavailable, match="is only at node 1 after 1000 s"):
        measure(tiny_package(), one, limit_s=60, clock=one.clock, busy=one.busy)


def test_the_lower_of_two_measurements_counts() -> None:
    high = CostEstimate(9.0, 1.0, TrialCost(1, "sum", 5, 3.0))
    low = CostEstimate(2.0, 4.0, TrialCost(2, "mm", 5, 1.0))
    for found in (high.least(low), low.least(high)):
        assert (found.step_s, found.commit_s, found.trial.operator) == (2.0, 1.0, "mm")


def test_a_trial_ends_when_the_node_stops() -> None:
    """NOTE: a stopped measurement says nothing about the job."""
    with pytest.raises(Unavailable):
        measure(tiny_package(), repops.backend("cpu"), limit_s=60, stop=lambda: True)


def test_training_and_disputes_are_reckoned() -> None:
    terms = replace(TERMS, steps=1000, strides=(100, 10, 1))
    estimate = CostEstimate(step_s=1.0, commit_s=3.0, trial=NO_TRIAL)
    assert estimate.train_s(terms) == 1000 * 1 + 10 * 2
    # Four replays of up to a hundred steps, twice ten checkpoints, two steps with all their records.
    assert estimate.dispute_s(terms) == 4 * 100 + 20 * 2 + 2 * 3
    tried = replace(estimate, trial=TrialCost(3, "sum", 1 << 30, 70.0))
    assert tried.dispute_s(terms) == estimate.dispute_s(terms) + 70
    short = replace(terms, steps=50)
    assert estimate.dispute_s(short) == 4 * 50 + 15 * 2 + 2 * 3
    # An interval, and its last step once with all its tensors hashed; a match may meet that step six times.
    assert estimate.answer_s(terms) == 100 + 2 * 3
    assert estimate.answer_s(short) == 50 + 2 * 3
    assert estimate.waits_s(terms) == 6 * 2 * 3


def test_a_job_that_cannot_be_trained_in_time_is_left_to_others() -> None:
    training = job(commit_end=1000, challenge_end=9000)
    assert too_late(training, 900 / MARGIN, 100) is None
    assert too_late(training, 900 / MARGIN + 1, 100) == TooLate(900 + MARGIN, 0, 900)
    claimed = replace(training, phase=JobPhase.CHALLENGE)
    assert too_late(claimed, 900 / MARGIN + 1, 100) is None
    assert too_late(claimed, 8900 / MARGIN + 1, 100) is not None


def test_a_job_whose_clock_is_shorter_than_our_dispute_is_left_to_others() -> None:
    estimate = CostEstimate(1.0, 1.0, NO_TRIAL)
    needed = MARGIN * (estimate.dispute_s(TERMS) + estimate.waits_s(TERMS))
    for threshold in (0, 1):
        assert too_slow(job(rules=rules(int(needed), threshold=threshold)), estimate) is None
        hasty = rules(int(needed) - 1, threshold=threshold)
        assert "clock" in str(too_slow(job(rules=hasty), estimate))
    hasty = replace(rules(clock=int(needed)), appeal_period=int(needed) - 1)
    assert "appeal period" in str(too_slow(job(rules=hasty), estimate))
    assert too_slow(job(rules=replace(hasty, threshold=0)), estimate) is None


L1_S = 62.0
"""Seconds from a move on the main chain until its answer is mined: three confirmations, a block each to see and act."""


@pytest.mark.parametrize(
    ("term", "name", "seconds"),
    [
        ("clock", "clock", None),
        ("verdict_period", "verdict period", None),
        ("appeal_period", "appeal period", None),
        ("reveal_period", "reveal period", MARGIN * 2 * L1_S),
        ("challenge_period", "challenge period", MARGIN * (48 + 3 * L1_S)),
    ],
)
def test_time_for_moves_to_be_seen_and_mined_is_asked_for(
    term: str, name: str, seconds: float | None
) -> None:
    """Even with little to compute, a clock of a minute is too short where a move takes a minute."""
    estimate, moves = CostEstimate(0.1, 0.1, NO_TRIAL), TRIAL_MOVES if term == "clock" else 2
    beside = estimate.answer_s(TERMS) if term == "verdict_period" else estimate.waits_s(TERMS)
    seconds = seconds or MARGIN * (estimate.match_s(TERMS) + beside + moves * L1_S)
    long = replace(rules(10**6), verdict_period=10**6, appeal_period=10**6)
    roomy = job(rules=long, reveal_period=10**6, challenge_period=10**6)

    def limited(period: int) -> JobView:
        changed: dict[str, Any] = {term: period}
        if term in ("reveal_period", "challenge_period"):
            return replace(roomy, **changed)
        return replace(roomy, rules=replace(long, **changed))

    assert too_slow(roomy, estimate, L1_S, 48) is None
    assert too_slow(limited(math.ceil(seconds)), estimate, L1_S, 48) is None
    reason = too_slow(limited(math.ceil(seconds) - 1), estimate, L1_S, 48)
    assert reason is not None
    assert f"its {name} has" in str(reason)
    assert "block_s" in str(reason)


# ---------------------------------------------------------------------- trials


def test_a_trial_that_is_longer_than_the_clock_is_not_staked_on_and_the_reason_says_where() -> None:
    trial = TrialCost(17, "sum", 38_597_376, 900.0)
    estimate = CostEstimate(1.0, 1.0, trial)
    needed = math.ceil(MARGIN * (estimate.dispute_s(TERMS) + estimate.waits_s(TERMS)))
    for threshold in (0, 1):
        assert too_slow(job(rules=rules(needed, threshold=threshold)), estimate) is None
        reason = too_slow(job(rules=rules(needed - 1, threshold=threshold)), estimate) or ""
        for word in ("node 17", "sum", "38,597,376 steps", "1800 s", f"clock has {needed - 1} s"):
            assert word in str(reason)


def test_a_trial_need_not_be_over_in_the_appeal_period() -> None:
    estimate = CostEstimate(1.0, 1.0, TrialCost(17, "sum", 38_597_376, 900.0))
    hasty = replace(
        rules(clock=10_000),
        appeal_period=math.ceil(MARGIN * (estimate.match_s(TERMS) + estimate.waits_s(TERMS))),
    )
    assert too_slow(job(rules=hasty), estimate) is None


@pytest.mark.parametrize("name", KINDS)
def test_the_longest_chain_of_a_node_is_that_of_its_elements(name: str) -> None:
    found = 0
    for number in range(20):
        inputs, attrs = random_call(name, f"longest/{number}", "tiny")
        structure = structure_of(name, inputs, attrs)
        types = [TensorType.of(array) for array in inputs]
        elements = range(min(structure.outputs[0].count, 500))
        cases = [Case(name, tuple(types), structure.outputs, structure.attrs, 0, e) for e in elements]
        longest, lengths = longest_chain(structure, types, 1), [rule_of(case).length(case) for case in cases]
        if lengths and len(lengths) == structure.outputs[0].count:
            found += 1
            assert max(lengths) == longest if name != "max_pool2d" else max(lengths) <= longest
    assert found > 2


class Walked:
    """A package of one long sum and some short operators, in some arithmetic mode."""

    def __init__(self, mode: int = 1, items: int = 3 << 20) -> None:
        x, initial = np.ones(items, np.float32), np.zeros((), np.float32)
        op = Writer([x], [initial])
        total = op("sum", constant(0), dims=(0,), keepdim=0)
        short = op("sum", op("slice", constant(0), dim=0, start=0, stop=9, step=1), dims=(0,), keepdim=0)
        after = op("add", total, short)
        slots, tensors = (SlotSource(after.index, 0),), (TensorDescriptor.of(x), TensorDescriptor.of(initial))
        self.program = Program(tuple(op.nodes), slots, tensors[:1], tensors[1:])
        self.package = Package(replace(TERMS, mode=mode), self.program, (x,), (initial,))
        self.mode, self.items, self.inputs = mode, items, [x]


@pytest.mark.parametrize("mode", [1, Rounding(32).mode])
def test_the_longest_chain_is_walked_on_its_operands_once(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = Walked(mode)
    steps = 0
    advance = Chain.advance

    def counted(chain: Chain, state: bytes, start: int, stop: int) -> bytes:
        nonlocal steps
        steps += stop - start
        return advance(chain, state, start, stop)

    monkeypatch.setattr(Chain, "advance", counted)
    sampler = Sampler(walked.program, mode)
    assert [node for node in range(len(walked.program.nodes)) if sampler.wants(node)] == [0]
    sampler.see(0, walked.inputs)
    assert not sampler.wants(0)
    assert 0 < steps <= walked.items
    cost = sampler.cost()
    assert (cost.node, cost.operator, cost.steps) == (0, "sum", walked.items)
    assert cost.seconds > 0


def test_a_walk_is_measured_for_a_bounded_time() -> None:
    """NOTE: the clock advances one second with each reading."""
    walked = Walked()
    rate = walking_rate(walked.program.nodes[0], walked.inputs, 1, Clock(1.0))
    assert rate == SAMPLE_STEPS, "one slice"


def test_a_first_step_whose_data_are_walked_at_once_does_not_say_how_long_a_trial_takes() -> None:
    """The attack: all positions name other rows in the first step, and this row in later ones."""
    base, src = np.zeros(2, np.float32), np.ones(2 << 20, np.float32)
    positions = np.full(src.size, -1)
    structure = structure_of("scatter_add", [base, positions, src], {})
    moving = Clock(1e-9)  # NOTE: as fast as any machine
    assert walking_rate(structure, [base, positions, src], Rounding(32).mode, moving) == FASTEST


def test_a_program_is_measured_with_its_trials() -> None:
    walked = Walked()
    estimate = measure(walked.package, repops.backend("cpu"), limit_s=60)
    assert (estimate.trial.operator, estimate.trial.steps) == ("sum", walked.items)
