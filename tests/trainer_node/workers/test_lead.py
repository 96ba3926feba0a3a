"""A run with any number of workers is the run of one process: roots, states, metrics and rounding logs."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from referee_py.errors import InvalidInput
from referee_py.execute import Run
from referee_py.params import MODE_SUMMARIES
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.errors import WorkerLost
from trainer_node.local.local_run import scalars
from trainer_node.run.modes import backend_here
from trainer_node.workers.commands import LOG_SIZE, MAX_LOG_BYTES, receive_log
from trainer_node.workers.lead import worker_of

from .jobs import JOBS, MICRO_BATCHES, STEPS, job
from .simulated import Network, Queues
from .team import backend_of, team


class Outcome(NamedTuple):
    checkpoints: tuple[bytes, ...]
    state: list[bytes]
    metrics: list[dict[str, float]]
    logs: list[bytes]


def run_of(name: str, mode: str, workers: int, parts: int = MICRO_BATCHES) -> Outcome:
    """Return what a run gives; ``workers`` 0 stands for one process without any of this."""
    bundle = job(name, mode, parts)
    logs = MemoryLogs() if bundle.terms.arithmetic.follows_logs else None
    backend = backend_here(bundle.terms.mode, "cpu", "torch", logs)
    seen: list[dict[str, float]] = []
    if workers:
        with team(bundle, workers, logs) as lead:
            run = Run.of(bundle, backend, executor=lead)
            return _outcome(run, logs, lambda: seen.append(scalars(lead.latest)), seen)
    run = Run.of(bundle, backend, metrics=bundle.metrics)
    return _outcome(run, logs, lambda: seen.append(scalars(run.latest)), seen)


def _outcome(run: Run, logs: MemoryLogs | None, note, seen: list) -> Outcome:
    interval = run.commit_interval(run.initial(), STEPS, 2, snapshots=[STEPS], on_step=lambda *_: note())
    written = logs.roots(run.terms.node_count) if logs is not None else []
    return Outcome(interval.checkpoints, interval.snapshots[STEPS].slot_hashes(), seen, written)


alone = cache(lambda name, mode, parts=MICRO_BATCHES: run_of(name, mode, 0, parts))


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", JOBS)
def test_one_run_with_any_number_of_workers(name: str, workers: int) -> None:
    assert run_of(name, "repops-f32", workers) == alone(name, "repops-f32")


@pytest.mark.parametrize("workers", [8, *(pytest.param(k, marks=pytest.mark.slow) for k in (3, 5))])
@pytest.mark.parametrize("name", ["mlp", "gpt", "resnet", "lora"])
def test_eight_parts(name: str, workers: int) -> None:
    assert run_of(name, "repops-f32", workers, 8) == alone(name, "repops-f32", 8)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("mode", [mode for mode in MODE_SUMMARIES if mode != "repops-f32"])
def test_every_mode(mode: str, workers: int) -> None:
    assert run_of("mlp", mode, workers) == alone("mlp", mode)
    assert run_of("bf16", mode, workers) == alone("bf16", mode)


@pytest.mark.parametrize("of", [("mlp", "exact"), ("bf16", "repops-f32")], ids=["mode", "program"])
def test_a_worker_with_another_job_says_so_at_once(of: tuple[str, str]) -> None:
    network = Network(2)
    mine, other = job("mlp", "repops-f32"), job(*of)
    worker_of(mine, mine.metrics, Queues(network, 0), backend_of(mine))
    with pytest.raises(InvalidInput, match="give all workers the same bundle and mode"):
        worker_of(other, other.metrics, Queues(network, 1), backend_of(other))


@pytest.mark.parametrize("size", [-1, MAX_LOG_BYTES + 1, 2**63 - 1])
def test_a_log_of_an_impossible_size_is_the_fault_of_its_worker(size: int) -> None:
    network = Network(2)
    Queues(network, 1).send(0, np.array([size], np.int64).view(np.uint8), LOG_SIZE).wait()
    with pytest.raises(WorkerLost, match=f"says that its logs have {size} bytes"):
        receive_log(Queues(network, 0), 1, 3)
