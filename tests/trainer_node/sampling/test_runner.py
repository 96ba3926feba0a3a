"""When a sampler turns to the whole run of a job."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from referee_py.execute import RunClaim
from trainer_node.job_runner import Work
from trainer_node.refuted import Refuted
from trainer_node.sampling.runner import SampleRunner


def test_a_refutation_is_never_taken_for_the_claim_of_a_whole_run() -> None:
    """One interval is not served and another one is wrong, or is still being checked: the part goes first."""
    nothing: Any = None
    runner = SampleRunner(
        *(nothing, nothing, nothing),
        max_memory=1,
        exact_slowdown=1.0,
        max_logs=1,
        evaluator=nothing,
        plan_of=lambda *_: None,
        share_of=lambda _: 1.0,
    )
    try:
        work = runner._works[1] = Work(nothing, 0)
        assert not runner.withheld(1)
        runner._withheld.add(1)
        assert runner.withheld(1)
        work.claim = Future[RunClaim]()
        assert not runner.withheld(1), "a part is being checked"
        work.claim.set_result(Refuted(bytes(32), bytes(32), ()))
        assert not runner.withheld(1), "a part is wrong"
        runner._whole.add(1)
        assert runner.withheld(1), "the whole run is computed"
    finally:
        runner.close()
