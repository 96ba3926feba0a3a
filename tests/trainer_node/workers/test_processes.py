"""Runs over real processes: the root of one process, also after one of them was killed and others have gone on."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from referee_py.execute import Run
from trainer_node.local.bundle import Bundle
from trainer_node.run.modes import backend_here

from .jobs import job
from .processes import workers_of

STEPS = 300
WAIT_S = 240.0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The perceptron for so many steps that it can be stopped among them."""
    small = job("mlp")
    terms = type(small.terms).of(small.program, STEPS, (20, 1), small.terms.mode)
    return replace(small, terms=terms).write(tmp_path_factory.mktemp("jobs") / "mlp")


def root_alone(folder: Path) -> str:
    bundle = Bundle.read(folder)
    return Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch")).commit_run().root.hex()


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trainer_node.cli", "program", "run", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def root_in(text: str) -> str:
    found = re.search(r"run root +([0-9a-f]{64})", text)
    assert found is not None, text
    return found[1]


def steps_in(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def wait_for_steps(process: subprocess.Popen[str], run: Path, steps: int) -> None:
    until = time.monotonic() + WAIT_S
    while steps_in(run) < steps and time.monotonic() < until and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[0]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_processes_have_the_root_of_one(bundle: Path, workers: int) -> None:
    said, _ = start(bundle, "--workers", workers).communicate(timeout=WAIT_S)
    assert root_in(said) == root_alone(bundle)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 6))])
def test_a_killed_worker_is_named_and_others_go_on(bundle: Path, tmp_path: Path, seed: int) -> None:
    draw, run = random.Random(seed), tmp_path / "run"
    process = start(bundle, "--workers", 3, "--out", run, "--keep-every", 0)
    wait_for_steps(process, run, draw.randrange(1, STEPS // 3))
    victim = draw.randrange(2)
    os.kill(workers_of(process.pid)[victim + 1], signal.SIGKILL)
    said, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert f"worker {victim + 1} (process" in said
    assert "SIGKILL" in said
    said, _ = start(bundle, "--workers", 2, "--out", run, "--resume").communicate(timeout=WAIT_S)
    assert root_in(said) == root_alone(bundle)


@pytest.mark.slow
def test_a_worker_that_hangs_is_named(bundle: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(bundle, "--workers", 3, "--out", run, "--worker-timeout", 10)
    wait_for_steps(process, run, 3)
    os.kill(workers_of(process.pid)[2], signal.SIGSTOP)
    said, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert "worker 2 gives no sign of life" in said


@pytest.mark.slow
def test_worker_0_is_killed_and_leaves_nobody_behind(bundle: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(bundle, "--workers", 2, "--out", run)
    wait_for_steps(process, run, 3)
    others = workers_of(process.pid).values()
    process.kill()
    process.communicate(timeout=WAIT_S)
    until = time.monotonic() + WAIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in others) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in others)
    said, _ = start(bundle, "--out", run, "--resume").communicate(timeout=WAIT_S)
    assert root_in(said) == root_alone(bundle)


def test_more_workers_than_micro_batches_are_refused(bundle: Path) -> None:
    process = start(bundle, "--workers", 5)
    said, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert "use 1 to 4 workers" in said
