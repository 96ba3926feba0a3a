"""What a sampler checks next, when it turns to the whole run of a job, and what a draw is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import Unavailable
from referee_py.execute import RunClaim
from tests.trainer_node.audit.runs import opened, publish
from trainer_node.audit.interval import Auditor, computes
from trainer_node.packages import Work
from trainer_node.refuted import Refuted
from trainer_node.sampling.challenger import Samples
from trainer_node.sampling.runner import Plan, SampleRunner

NOTHING: Any = None


class Runner(SampleRunner):
    """Checks published runs in place of what claimants serve; a root that is not among them is not served."""

    runs: dict[bytes, Auditor]
    plan = Plan((1, 2, 3, 4))

    def _auditor(self, _: Any, group: Any) -> Auditor:
        if group.root not in self.runs:
            raise Unavailable("nobody serves the run tree")
        return self.runs[group.root]


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner(
        *(NOTHING, NOTHING, NOTHING),
        max_memory=1,
        exact_slowdown=1.0,
        max_logs=1,
        evaluator=NOTHING,
        plan_of=lambda *_: made.plan,
        share_of=lambda _: 1.0,
    )
    made.runs = {}
    yield made
    made.close()


@pytest.fixture
def lying(tmp_path: Path) -> Auditor:
    """Four intervals of three steps; the third is wrong."""
    run = opened(publish(tmp_path / "run", 12, 3, lie=8), tmp_path / "cache")
    return Auditor(run, 1 << 26, computes(run.terms.mode))


def job_of(*roots: bytes, dead: bytes = b"") -> Any:
    groups = [
        SimpleNamespace(index=k, root=root, refutes=None, dead=root == dead) for k, root in enumerate(roots)
    ]
    by_root = {group.root: group for group in groups}
    return SimpleNamespace(id=1, groups=groups, group_of_root=by_root.get)


def test_a_refutation_is_never_taken_for_the_claim_of_a_whole_run(runner: Runner) -> None:
    """One interval is not served and another one is wrong, or is still being checked: the part goes first."""
    work = runner._works[1] = Work(NOTHING, 0)
    assert not runner.withheld(1)
    runner._withheld.add(1)
    assert runner.withheld(1)
    work.claim = Future[RunClaim]()
    assert not runner.withheld(1), "a part is being checked"
    work.claim.set_result(Refuted(bytes(32), bytes(32), ()))
    assert not runner.withheld(1), "a part is wrong"
    runner._whole.add(1)
    assert runner.withheld(1), "the whole run is computed"


def test_a_root_that_nobody_serves_hides_no_other(runner: Runner, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    found = runner._sample(Work(job_of(b"withheld", root), 0))
    assert found is not None
    assert (found.against, found.index) == (root, 2)
    with pytest.raises(Unavailable):
        runner._sample(Work(job_of(b"withheld"), 0))


def test_what_has_died_of_another_dispute_gives_way_to_other_roots(runner: Runner, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    found = runner._sample(Work(job_of(root), 0))
    assert found is not None
    assert not runner._moot(job_of(root), found)
    dead = job_of(root, dead=root)
    assert runner._moot(dead, found)
    assert not list(runner._todo(dead))
    again = runner._sample(Work(job_of(root), 0))
    assert again == found, "the same interval, where the root is claimed again"


def test_a_budget_ends_within_an_interval(
    runner: Runner, lying: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client chooses how long an interval is."""
    steps: list[int] = []
    replay = lying.replay

    def noted(interval: int, on_step: Callable[[int], None]) -> bytes:
        return replay(interval, lambda step: on_step(steps.append(step) or step))  # type: ignore[func-returns-value]

    monkeypatch.setattr(lying, "replay", noted)
    runner.runs = {lying.published.root: lying}
    runner.plan = Plan((3, 4), cpu_s=1e-9)
    assert runner._sample(Work(job_of(lying.published.root), 0)) is None
    assert steps == [7]
    assert not any(runner._todo(job_of(lying.published.root)))


def test_a_draw_is_of_the_claim_and_not_of_a_refutation_with_its_root() -> None:
    """Who refutes with a root and claims it later must not know the block that decides what is checked."""
    root = bytes(32)
    events = [
        SimpleNamespace(name="Claimed", block=block, args={"group": group, "root": root})
        for block, group in ((10, 1), (20, 2))
    ]
    snapshot = SimpleNamespace(job_events=lambda _: events, block=SimpleNamespace(number=30))
    block = lambda number: SimpleNamespace(hash=number)  # noqa: E731
    client = SimpleNamespace(snapshot=lambda: snapshot, block=block)
    samples = Samples(SimpleNamespace(client=client, settings=NOTHING))  # type: ignore[arg-type]
    group: Any = SimpleNamespace(index=2, root=root)
    assert samples._block_after(job_of(root), group) == 21
