"""Each claimed root has its own budget, and what has not been replayed has not passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from referee_py.errors import InvalidInput
from trainer_node.audit.interval import Auditor
from trainer_node.roles.sampling.checks import Plan

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
