"""Models of a size on real processes: one root for any number of workers and threads, compiled and node by node, in
every mode, and after a kill. The language model has 3.4 million parameters and dropout."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import repops

from assay_capture.capture import Recipe, build
from benchmarks.workers import recipe as gpt
from referee_py.execute import Interpreter, Run
from referee_py.params import MODE_SUMMARIES
from referee_py.program.modes import mode_named
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.local.bundle import Bundle
from trainer_node.run.modes import backend_here

from .jobs import job
from .processes import workers_of
from .test_processes import WAIT_S, root_in, start, wait_for_steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
STEPS, PARTS = 4, 8
MODELS = ("mlp", "gpt", "resnet", "lora")


@cache
def bundle_of(name: str) -> Bundle:
    if name != "gpt":
        return job(name, parts=PARTS)
    large = gpt()
    assert isinstance(large, Recipe)
    assert sum(p.numel() for p in large.module.parameters()) >= 3_000_000
    return build(replace(large, micro_batches=PARTS, steps=STEPS, strides=(2, 1), order=None), check=False)


@cache
def root_alone(name: str, mode: str, threads: int = 2) -> str:
    """Return the root of one process."""
    bundle = bundle_of(name).with_mode(mode_named(mode).byte)
    logs = MemoryLogs() if bundle.terms.arithmetic.follows_logs else None
    before = repops.get_num_threads()
    repops.set_num_threads(threads)
    try:
        run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch", logs))
        return run.commit_run().root.hex()
    finally:
        repops.set_num_threads(before)


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(request.param).write(tmp_path_factory.mktemp("jobs") / request.param)


def root_of(folder: Path, *options: object) -> str:
    return root_in(start(folder, *options).communicate(timeout=4 * WAIT_S)[0])


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8])
def test_any_number_of_workers_and_threads(folder: Path, workers: int) -> None:
    for threads in (1, 2):
        found = root_of(folder, "--workers", workers, "--threads", threads)
        assert found == root_alone(folder.name, "repops-f32")


@pytest.mark.parametrize("name", MODELS)
def test_one_process_has_it_with_any_threads_and_node_by_node(name: str) -> None:
    bundle = bundle_of(name)
    backend = backend_here(bundle.terms.mode, "cpu", "torch")
    by_node = Run.of(bundle, backend, executor=Interpreter(bundle.program, bundle.constants, backend))
    roots = {by_node.commit_run().root.hex(), *map(partial(root_alone, name, "repops-f32"), (1, 2))}
    assert len(roots) == 1


@pytest.mark.parametrize("mode", [mode for mode in MODE_SUMMARIES if mode != "repops-f32"])
def test_every_mode(folder: Path, mode: str) -> None:
    assert root_of(folder, "--workers", 3, "--mode", mode) == root_alone(folder.name, mode)


def test_a_kill_and_another_number_of_workers(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(folder, "--workers", 4, "--out", run, "--keep-every", 0)
    wait_for_steps(process, run, 2)
    os.kill(workers_of(process.pid)[2], signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    found = root_of(folder, "--workers", 8, "--out", run, "--resume")
    assert found == root_alone(folder.name, "repops-f32")
