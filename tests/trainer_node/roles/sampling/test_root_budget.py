"""Each claimed root has its own budget, and what has not been replayed has not passed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from referee_py.errors import InvalidInput
from referee_py.pauses import asked
from tests.trainer_node.slow import Hand
from trainer_node.audit.interval import Auditor
from trainer_node.compute import breaks
from trainer_node.compute.breaks import Breaks
from trainer_node.roles.sampling import interval_runner
from trainer_node.roles.sampling.checks import Plan
from trainer_node.run.replay import Interrupted
from trainer_node.run.step_times import StepTimes, Taken

from .test_runner import HOUR, Runner, Wanted, auditor_of, job_of, lying, runner, wanted  # noqa: F401


@pytest.mark.parametrize("others", [1, 3])
def test_who_claims_another_root_first_spends_nothing_of_the_budget_for_a_lie(
    runner: Runner,  # noqa: F811
    wanted: Wanted,  # noqa: F811
    tmp_path: Path,
    others: int,
) -> None:
    """The other roots may be right, so that their stakes come back."""
    alone = auditor_of(tmp_path / "alone", lie=11)
    runner.runs = {alone.published.root: alone}
    assert runner.checked(job_of(alone.published.root))
    _, fetched = runner.spent(1)
    runner.forget(1)
    wanted.drawn = Plan((1, 2, 3, 4), max_bytes=int(1.5 * fetched))
    lie = auditor_of(tmp_path / "lie", lie=11)
    allies = [auditor_of(tmp_path / f"ally {k}", lie=2 * k) for k in range(others)]
    runner.runs = {run.published.root: run for run in (*allies, lie)}
    roots = [ally.published.root for ally in allies]
    runner.checked(job_of(*roots))
    assert runner.spent(1)[1] > 0
    assert lie.published.root in {one.against for one in runner.checked(job_of(*roots, lie.published.root))}


@pytest.mark.parametrize("budget", [{"cpu_s": 1e-9}, {"max_bytes": 1}], ids=["processors", "bytes"])
def test_what_the_budget_leaves_unchecked_has_not_passed(
    runner: Runner,  # noqa: F811
    wanted: Wanted,  # noqa: F811
    tmp_path: Path,
    budget: dict[str, Any],
) -> None:
    """It is as if it was not served, so the whole run is computed where this node would do that. It is said once."""
    lie, honest = auditor_of(tmp_path / "lie", lie=11), auditor_of(tmp_path / "honest")
    root, other = lie.published.root, honest.published.root
    runner.runs, wanted.drawn = {root: lie, other: honest}, Plan((1, 2, 4), **budget)
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert runner.checked(job_of(root)) == []
    assert [(log["left"] > 0) for log in logs if log["event"] == "sample.budget_spent"] == [True]
    checks = runner._checks[1]
    assert (runner.left(job_of(root)), checks.passed) == (False, set())
    assert runner.withheld(job_of(root))
    wanted.whole_s = HOUR
    assert runner.wants_whole(job_of(root), 0)
    wanted.drawn = Plan((1, 2, 4))
    assert runner.checked(job_of(root, other)) == []
    assert checks.passed == {other}


def test_an_interval_that_cannot_be_replayed_has_not_passed(
    runner: Runner,  # noqa: F811
    lying: Auditor,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever makes up data at which this node stumbles gets no other verdict than who serves none."""
    replay, root = lying.replay, lying.published.root

    def stumbles(interval: int, on_step: Callable[[int], None]) -> bytes:
        if interval == 3:
            raise InvalidInput("odd data")
        return replay(interval, on_step)

    monkeypatch.setattr(lying, "replay", stumbles)
    runner.runs = {root: lying}
    assert runner.checked(job_of(root)) == []
    assert not runner.left(job_of(root))
    assert (runner._checks[1].passed, runner.withheld(job_of(root))) == (set(), True)


@pytest.mark.parametrize("ends", ["node", "budget"])
def test_a_step_that_lasts_ends_with_the_node_or_the_budget(
    runner: Runner,  # noqa: F811
    wanted: Wanted,  # noqa: F811
    lying: Auditor,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    ends: str,
) -> None:
    """A client chooses the data, and with it what a step takes."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    parts = 0

    def lasting(_interval: int, _on_step: Callable[[int], None]) -> bytes:
        nonlocal parts
        operator_ends = asked()
        assert operator_ends is not None
        while parts < 1000:
            parts += 1
            if parts == 10 and ends == "node":
                runner._stop.set()
            operator_ends()
        raise AssertionError("nothing has ended it")

    monkeypatch.setattr(lying, "replay", lasting)
    runner.runs = {lying.published.root: lying}
    wanted.drawn = Plan((3, 4), cpu_s=1e-9 if ends == "budget" else math.inf)
    with contextlib.suppress(Interrupted):
        assert runner.checked(job_of(lying.published.root)) == []
    assert parts == (10 if ends == "node" else 2), "the first call says that a step begins"


def timed(auditor: Auditor, clock: Hand, *operators_s: float) -> None:
    """Let each step of a run have operators that take so long, and none of the time that it really takes."""
    replay = auditor.replay

    def slowly(interval: int, on_step: Callable[[int], None]) -> bytes:
        def after(step: int) -> None:
            ends = asked()
            assert ends is not None
            for seconds in operators_s:
                clock.on(seconds)
                ends()
            on_step(step)

        return replay(interval, after)

    auditor.replay = slowly  # type: ignore[assignment,method-assign]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    made = Hand()
    monkeypatch.setattr(interval_runner, "StepTimes", lambda: StepTimes(made, made))
    monkeypatch.setattr(interval_runner, "Breaks", lambda times, act: Breaks(times, act, made))
    return made


def test_what_the_steps_of_a_root_take_says_nothing_of_another(
    runner: Runner,  # noqa: F811
    tmp_path: Path,
    clock: Hand,
) -> None:
    """The attack: a claimant's states are subnormal numbers, and the sampler leaves every lie of the job."""
    lie, ally = auditor_of(tmp_path / "lie", lie=8), auditor_of(tmp_path / "ally", lie=2)
    timed(lie, clock, 2.0)
    timed(ally, clock, 2.0 * 148)
    runner.runs = {one.published.root: one for one in (lie, ally)}
    roots = lie.published.root, ally.published.root
    found = {one.against: one for one in runner.checked(job_of(*roots))}
    assert found.keys() == set(roots)
    took = [runner.took(1, found[root]) for root in roots]
    assert [max(one.step_s, one.commit_s) for one in took] == [2.0, 296.0]
    assert runner._step_book.of(runner._works[1].key) == Taken()
    assert runner.took(2, found[roots[0]]) == Taken()


def test_the_first_operator_of_an_interval_counts(
    runner: Runner,  # noqa: F811
    tmp_path: Path,
    clock: Hand,
) -> None:
    """The attack: a client makes that one slow, and each interval is a replay of its own."""
    lie = auditor_of(tmp_path / "lie", lie=2)
    timed(lie, clock, 1480.0, 0.01)
    runner.runs = {lie.published.root: lie}
    (found,) = runner.checked(job_of(lie.published.root))
    assert runner.took(1, found).step_s == pytest.approx(1480.01)


def test_slow_states_after_a_lie_say_nothing_of_its_match(
    runner: Runner,  # noqa: F811
    wanted: Wanted,  # noqa: F811
    tmp_path: Path,
    clock: Hand,
) -> None:
    """The attack: what a liar's run goes on with after its lie are subnormal numbers, so that later intervals are slow;
    and the sampler left the lie that it had found."""
    lie = auditor_of(tmp_path / "lie", lie=8)  # interval 3 is wrong, 4 continues from its end
    replay = lie.replay

    def slowly(interval: int, on_step: Callable[[int], None] = lambda _: None) -> bytes:
        def after(step: int) -> None:
            clock.on(2.0 * (148 if interval == 4 else 1))
            (asked() or (lambda: None))()
            on_step(step)

        return replay(interval, after)

    lie.replay = slowly  # type: ignore[method-assign]
    runner.runs = {lie.published.root: lie}
    wanted.drawn = Plan((4, 3))
    (found,) = runner.checked(job_of(lie.published.root))
    assert found.index == 2
    assert runner.took(1, found).commit_s == 2.0
    assert list(runner._checks[1].roots[lie.published.root].took) == [3], "what matches is forgotten"
