"""A node's job runner, made from its settings and what else the node holds, and closed at the end."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator

from referee_py.rounding.thresholds import fixed

from ..compute.job_runner import JobRunner
from ..compute.run_execution import Equipment
from ..rounded.calibration import Calibration
from ..run.devices import evaluator_of
from ..run.modes import backend_of
from ..run.replay import Replay
from ..workers.launch import check_torch
from ..workers.team import TeamRule
from .service import Daemon


@contextlib.contextmanager
def open_runner(
    node: Daemon,
    *,
    follows: bool = False,
    replay: type[Replay] = Replay,
    kind: Callable[[Equipment], JobRunner] = JobRunner,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[JobRunner]:
    """Open the job runner of a node; close it at the end. ``follows``: use the trainer's rounding logs, not our own;
    ``clock``: the seconds of its budgets and delays."""
    settings = node.settings
    team = None
    # NOTE: a run whose class has an executor of its own computes with that.
    if settings.workers > 1 and replay._executor is Replay._executor:
        check_torch()
        team = TeamRule(
            settings.workers,
            settings.worker_threads,
            settings.device,
            settings.evaluator,
            settings.calibration,
            settings.worker_timeout_s,
            settings.worker_checks,
        )
    backend_of(settings.device)  # refuses a device that this machine lacks before any job is looked at
    equipment = Equipment(
        node.fetcher,
        node.database,
        functools.partial(backend_of, settings.device),
        # NOTE: no worker has more of a program than one process would.
        max_memory=settings.limits.memory_bytes // settings.workers,
        exact_slowdown=settings.limits.exact_slowdown,
        max_logs=settings.limits.log_bytes,
        follows=follows,
        alike=settings.device == "cpu",
        evaluator=lambda: evaluator_of(settings.evaluator, settings.device),
        thresholds=fixed if settings.calibration is None else Calibration.read(settings.calibration).tau,
        replay=replay,
        team=team,
        board=node.board,
        metrics=node.metrics,
        problems=node.problems,
        keeper=node.keeper,
        clock=clock,
    )
    runner = kind(equipment)
    node.keeper.works_at, node.keeper.gave_states = runner.works_at, runner.gave_states
    try:
        yield runner
    finally:
        runner.close()
