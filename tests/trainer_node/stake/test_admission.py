"""Attack: something cheap is asked in each of many jobs at once. Whatever was admitted is answered in time.

The clock is the test's own. The schedule is the node's (`answer_order`); the adversary asks when and what it likes, and
is told at once of every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from referee_py.jobs import Rules
from referee_py.params import LOG_SECONDS
from trainer_node.chain import JobPhase, JobView
from trainer_node.play.answer_order import Order, Unit
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.stake.admission import (
    Bond,
    Duty,
    Means,
    too_many_stands,
    too_many_trials,
    too_much_at_once,
    trials_s,
)
from trainer_node.stake.deadlines import hopeless, last_moment, too_slow

from ..desk import job, rules

CASES = 1500
MEANS = Means(0.0, 0.0, 2)
ROOT = bytes(32)


def duty(answer_s: float, verdict_period: int, **more: float) -> Duty:
    """Return the duty of a job about which answers may be asked, and with ``more`` other things."""
    none = Duty(0.0, 0.0, answer_s, 0.0, 0.0, 0, 10**9, verdict_period, 0)
    return replace(none, **more)  # type: ignore[arg-type]


def admitted(duties: Mapping[int, Duty]) -> dict[int, Duty]:
    """Return the jobs that a node takes that is offered these, one after the other."""
    held: dict[int, Duty] = {}
    for number, of in duties.items():
        alone = of.answer_s + of.log_s * (1 + of.verdict_period / LOG_SECONDS)
        if too_much_at_once(held, number, of, MEANS) is None and MARGIN * alone <= of.verdict_period:
            held[number] = of
    return held


def by_itself(duties: Mapping[int, Duty]) -> dict[int, Duty]:
    """A weaker test: each job fits alone."""
    return {number: of for number, of in duties.items() if of.answer_s * MARGIN <= of.verdict_period}


def by_shares(duties: Mapping[int, Duty]) -> dict[int, Duty]:
    """A weaker test: the works, each divided by its own period, take no more than the whole thread."""
    held, share = dict[int, Duty](), 0.0
    for number, of in duties.items():
        mine = MARGIN * of.answer_s / of.verdict_period
        if share + mine <= 1:
            held[number], share = of, share + mine
    return held


@dataclass
class Desk:
    """The thread of answers, with a clock of its own. All works take `MARGIN` times what was measured."""

    duties: Mapping[int, Duty]
    now: float = 0.0
    order: Order = field(default_factory=Order)
    open: dict[Unit, float] = field(default_factory=dict)
    asked: int = 0
    late: list[Unit] = field(default_factory=list)
    by_deadline_alone: bool = False

    def request(self, job_id: int, *, logs: bool = False) -> None:
        """Ask for something that is not open, under the rule of the protocol (docs/protocol.md, section 8)."""
        of = self.duties[job_id]
        mine = [unit for unit in self.open if unit.job_id == job_id]
        checkpoints = sum(not unit.of_logs for unit in mine)
        pieces = 1 + sum(unit.of_logs for unit in mine)
        seconds = LOG_SECONDS * pieces if logs else 0
        self.asked += 1
        until = self.now + of.verdict_period * (1 + checkpoints) + seconds
        self.open[Unit(job_id, logs, ROOT, self.asked)] = until
        self._note(job_id)

    def compute(self) -> Unit | None:
        """Compute what is next; return it."""
        if not self.open:
            return None
        waiting = [(until, unit) for unit, until in self.open.items()]
        unit = min(waiting)[1] if self.by_deadline_alone else self.order.first(waiting, self.now)
        assert unit is not None, "something waits, and nothing is computed"
        self.order.begun(unit, self.now)
        of = self.duties[unit.job_id]
        self.now += MARGIN * (of.log_s if unit.of_logs else of.answer_s)
        if self.now > self.open.pop(unit) + 1e-6:
            self.late.append(unit)
        self._note(unit.job_id)
        self.order.done(unit)
        return unit

    def _note(self, job_id: int) -> None:
        waiting = [unit for unit in self.open if unit.job_id == job_id]
        self.order.asked(job_id, waiting, self.now)


def offered(random: Random, *, logs: bool) -> dict[int, Duty]:
    """Return random jobs; some have little work in short periods, and some much in long ones."""
    found = {}
    for number in range(1, random.randint(2, 12) + 1):
        period = random.choice((60, 600, 600, 3600)) * random.randint(1, 4)
        found[number] = duty(
            period * random.choice((0.01, 0.05, 0.1, 0.3, 0.45)),
            period,
            log_s=random.uniform(0.1, 8.0) if logs and random.random() < 0.5 else 0.0,
        )
    return found


def besieged(duties: Mapping[int, Duty], random: Random, *, by_deadline_alone: bool = False) -> list[Unit]:
    """Let an adversary ask of all these jobs; return what came too late.

    It begins with one request in each job, and with several in some. Of each answer it is told at once, and asks again:
    always in jobs of its choice, in others now and then.
    """
    desk = Desk(duties, by_deadline_alone=by_deadline_alone)
    hasty = {number for number in duties if random.random() < 0.5}
    for number in duties:
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            desk.request(number)
        if duties[number].log_s:
            for _ in range(random.choice((1, 20, 100))):
                desk.request(number, logs=True)
    for _ in range(250):
        unit = desk.compute()
        if unit is None:
            break
        if unit.job_id in hasty or random.random() < 0.1:
            desk.request(unit.job_id, logs=unit.of_logs)
        while random.random() < 0.05:
            desk.request(random.choice(list(duties)))
    return desk.late


@pytest.mark.parametrize("logs", [pytest.param(False, marks=pytest.mark.slow), True])
def test_whatever_is_admitted_is_answered_in_time_whoever_asks_when(logs: bool) -> None:
    random, several = Random(7 + logs), 0
    for _ in range(CASES):
        held = admitted(offered(random, logs=logs))
        several += len(held) > 2
        assert not besieged(held, random), held
    assert several > CASES // 5, "the rule lets several jobs in"


@pytest.mark.parametrize("weaker", [pytest.param(by_itself, marks=pytest.mark.slow), by_shares])
def test_a_weaker_rule_is_caught_by_the_same_adversary(
    weaker: Callable[[Mapping[int, Duty]], dict[int, Duty]],
) -> None:
    random = Random(9)
    cases = [weaker(offered(random, logs=False)) for _ in range(CASES)]
    assert sum(bool(besieged(held, random)) for held in cases) > CASES // 50


def test_by_deadlines_alone_who_keeps_asking_keeps_others_waiting() -> None:
    """Four checkpoints of one job come to be due at the same time while another job is asked without a pause."""
    held = admitted({1: duty(10.0, 100), 2: duty(39.0, 100)})
    assert len(held) == 2

    def siege(*, by_deadline_alone: bool) -> list[Unit]:
        desk = Desk(held, by_deadline_alone=by_deadline_alone)
        for _ in range(4):
            desk.request(1)
        done = 0
        while desk.now < 2000:
            unit = desk.compute()
            assert unit is not None
            done += unit.job_id == 1
            desk.request(unit.job_id)
            if done >= 4 and not any(other.job_id == 2 for other in desk.open):
                desk.request(2)
        return desk.late

    assert not siege(by_deadline_alone=False)
    assert siege(by_deadline_alone=True)


@pytest.mark.parametrize(("answer_s", "expected"), [(10.0, "LCCCLCCCL"), (100.0, "LCLLLCLLL")])
def test_a_steps_logs_come_first_once_in_sixty_seconds_and_late_ones_one_after_the_other(
    answer_s: float, expected: str
) -> None:
    desk = Desk({1: duty(0.0, 10**6, log_s=1.0), 2: duty(answer_s, 10**6)})
    for _ in range(20):
        desk.request(1, logs=True)
        desk.request(2)
    done = [desk.compute() for _ in expected]
    assert "".join("L" if unit is not None and unit.of_logs else "C" for unit in done) == expected


def test_one_request_in_each_of_twenty_jobs_expect_as_many_jobs_as_can_be_answered() -> None:
    """Each of them fits by itself. The rule takes as many as fit, and those are in time when all are asked at once."""
    step_s = 15.0
    estimate = CostEstimate(step_s / 4, step_s / 4, NO_TRIAL)
    offers = {number: job(number, rules=replace(rules(threshold=0), clock=10**6)) for number in range(1, 21)}
    assert all(too_slow(of, estimate) is None for of in offers.values())
    held: dict[int, Duty] = {}
    reasons = []
    for number, of in offers.items():
        mine = Duty.of(of, estimate)
        reason = too_much_at_once(held, number, mine, MEANS)
        if reason is None:
            held[number] = mine
        else:
            reasons.append(str(reason))
    assert 1 < len(held) < 20
    assert f"with {len(held) + 1} stakes in {len(held) + 1} jobs at once, answers may take us" in reasons[0]
    assert "the verdict period of job 1 has 1000 s" in reasons[0]
    assert "policy.max_open_jobs" in reasons[0]

    def late_of(jobs: Mapping[int, JobView]) -> list[Unit]:
        duties = {number: Duty.of(of, estimate) for number, of in jobs.items()}
        desk = Desk(duties)
        desk.now = MARGIN * sum(of.match_s for of in duties.values())  # a match of each comes first
        for number in duties:
            desk.open[Unit(number, False, ROOT, 0)] = duties[number].verdict_period
            desk._note(number)
        while desk.compute() is not None:
            pass
        return desk.late

    assert not late_of({number: offers[number] for number in held})
    assert late_of(offers), "all twenty would be late"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"match_s": 30.0, "clock": 100}, "disputes may take us 120 s; the clock of job 1 has 100 s"),
        ({"trial_s": 30.0, "clock": 80}, "disputes may take us 90 s; the clock of job 1 has 80 s"),
        (
            {"match_s": 30.0, "appeal_period": 100},
            "appeals may take us 120 s; the appeal period of job 1 has",
        ),
        ({"answer_s": 30.0, "verdict_period": 100}, "answers may take us 120 s; the verdict period of job 1"),
        (
            {"match_s": 20.0, "answer_s": 10.0, "verdict_period": 100},
            "answers may take us 120 s; the verdict",
        ),
        (
            {"trial_s": 30.0, "answer_s": 15.0, "verdict_period": 100},
            "answers may take us 120 s; the verdict",
        ),
        ({"log_s": 15.0, "answer_s": 10.0, "verdict_period": 120}, "answers may take us 220 s; the verdict"),
    ],
)
def test_a_reason_names_the_value_the_limit_and_what_helps(more: dict[str, float], words: str) -> None:
    of = replace(duty(0.0, 10**9), **more)  # type: ignore[arg-type]
    assert too_much_at_once({}, 1, of, MEANS) is None
    reason = too_much_at_once({1: of}, 2, of, MEANS)
    assert reason is not None
    assert words in str(reason)
    assert "with 2 stakes in 2 jobs at once" in str(reason)
    assert "a faster machine" in str(reason)
    assert "policy.max_open_jobs" in str(reason)


def test_a_job_in_which_nothing_else_is_at_stake_is_never_left_by_this_rule() -> None:
    huge = duty(10.0**9, 1, match_s=10.0**9, clock=1)
    assert too_much_at_once({}, 1, huge, MEANS) is None
    assert too_much_at_once({1: huge}, 1, huge, MEANS) is None, "it is its own stake"
    assert too_much_at_once({}, 1, replace(huge, stakes=2), MEANS) is not None, (
        "two refutations are two matches"
    )


def test_moves_of_all_disputes_are_mined_one_after_the_other() -> None:
    of = replace(duty(0.0, 10**9), moves=10, clock=1000)
    held = dict.fromkeys(range(1, 5), of)
    assert too_much_at_once(held, 5, of, Means(12.0, 12.0, 2)) is not None, "50 moves of 12 s take 600 s"
    assert too_much_at_once(held, 5, of, Means(12.0, 9.0, 2)) is None


def test_trials_on_a_few_lanes_are_done_by_the_time_that_is_reckoned() -> None:
    """Whatever the order in which they come."""
    random = Random(3)
    sums = 0
    for _ in range(CASES):
        trials = [random.choice((1.0, 5.0, 30.0)) * random.random() for _ in range(random.randint(1, 20))]
        count = random.randint(1, 4)
        lanes = [0.0] * count
        for seconds in trials:
            lanes[lanes.index(min(lanes))] += seconds
        assert max(lanes) <= trials_s(trials, count) + 1e-9
        sums += max(lanes) > sum(trials) / count + 1e-9
    assert sums > CASES // 2, "the sum over the lanes is less than it takes"


def test_twenty_verdicts_expect_as_many_signed_as_can_be_tried_at_once() -> None:
    signed: list[Bond] = []
    for _ in range(20):
        one = Bond(100.0, 1000, 1, 0.0, 1000)
        if too_many_trials(signed, one, 10**9, Means(0.0, 0.0, 4)) is None:
            signed.append(one)
    assert len(signed) == 17, "the longest, and sixteen on four lanes, twice: 1,000 s"
    reason = too_many_trials(signed, Bond(100.0, 1000, 1, 0.0, 1000), 10**9, Means(0.0, 0.0, 4))
    assert reason is not None
    assert "18 verdicts" in str(reason)
    assert "1050 s; the shortest clock has 1000 s" in str(reason)
    assert too_many_trials([], Bond(10.0**9, 1, 1, 0.0, 1000), 1, MEANS) is None, (
        "one by itself is judged by itself"
    )


def test_a_hundred_verdicts_expect_as_many_signed_as_can_be_stood_by_at_once() -> None:
    """The attack: spokesmen who are one party let all verdicts be overruled in one block, and the tensors of each are
    read before we stand by it, if the node was started again."""
    signed: list[Bond] = []
    for _ in range(100):
        one = Bond(1.0, 10**6, 1, 14.0, 600)
        if too_many_stands(signed, one, Means(24.0, 12.0, 4)) is None:
            signed.append(one)
    assert len(signed) == 18, "48 s, and 14 s for each, twice: 600 s"
    reason = too_many_stands(signed, one, Means(24.0, 12.0, 4))
    assert "19 verdicts" in str(reason)
    assert "628 s; the shortest appeal period has 600 s" in str(reason)
    assert too_many_stands([], Bond(1.0, 10, 1, 10.0**9, 1), MEANS) is None, (
        "one by itself is judged by itself"
    )


def test_the_gas_of_all_trials_has_to_be_in_the_account() -> None:
    one = Bond(0.0, 1000, 100, 0.0, 1000)
    assert too_many_trials([one, one], one, 300, MEANS) is None
    reason = too_many_trials([one, one], one, 299, MEANS)
    assert reason is not None
    assert "300 wei; the account has 299 wei" in str(reason)
    assert too_many_trials([], one, 100, MEANS) is None
    assert too_many_trials([], one, 99, MEANS) is not None, (
        "nor is a first one signed that we could not defend"
    )


def test_what_is_executed_before_appeals_fits_together() -> None:
    """Appeals of all jobs may be due at once, and each operator takes hours on the processor of a node with a GPU."""
    day, hours = 86_400, 10_000.0
    heavy = replace(CostEstimate(1.0, 1.0, NO_TRIAL), right_s=hours)
    held = dict[int, Duty]()
    for number in range(1, 16):
        duty = Duty.of(job(number, rules=Rules(1, 3 * day, 3 * day, 3 * day), reveal_period=3 * day), heavy)
        if too_much_at_once(held, number, duty, MEANS) is None:
            held[number] = duty
    assert MARGIN * len(held) * hours <= 3 * day
    assert len(held) > 10, "as many as fit"
    alone = Duty.of(job(rules=Rules(0, 3 * day, 3 * day, 3 * day)), heavy)
    assert alone.right_s == 0, "without verifiers nobody appeals"


@pytest.mark.parametrize("reveal_period", [60, 400, 0])
def test_what_is_sent_for_another_job_keeps_nobody_from_a_reveal(reveal_period: int) -> None:
    """The attack: a liar commits to the last slot of a job when our matches all have moves to be sent."""
    means = Means(12.0, 12.0, 2)
    playing = duty(0.0, 10**9, match_s=10_000.0, stakes=5)
    revealing = duty(0.0, 10**9, match_s=500.0, reveal_period=reveal_period)
    reason = too_much_at_once({1: playing}, 2, revealing, means)
    assert (reason is None) == (reveal_period != 60)
    assert reason is None or (reason.name, reason.takes_s) == ("reveal period", MARGIN * 2 * 6 * 12.0)
    reason = too_much_at_once({2: revealing}, 1, playing, means)
    assert (reason is None) == (reveal_period != 60), "nor does the job that comes later"


@pytest.mark.parametrize("phase", list(JobPhase))
def test_a_reveal_counts_as_long_as_it_is_to_come(phase: JobPhase) -> None:
    of = Duty.of(job(phase=phase), CostEstimate(1.0, 1.0, NO_TRIAL))
    assert bool(of.reveal_period) == (phase in (JobPhase.TRAINING, JobPhase.REVEAL))


@pytest.mark.parametrize(("sends_s", "late"), [(0.0, False), (40.0, False), (50.0, True)])
def test_a_slot_is_given_back_before_what_else_is_sent_can_take_the_last_moment(
    sends_s: float, late: bool
) -> None:
    """The attack: many slots end in the same second, and each takes a block to be given back."""
    ours = job(commit_end=1_000)
    found = hopeless(ours, 0.0, 12.0, sends_s, 930)
    assert (found is not None) == last_moment(ours, 12.0, sends_s, 930) == late
