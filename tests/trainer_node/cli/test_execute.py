"""A program file has one result: in any process, on any instruction set, with any number of threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import repops
from repops.library import BEST_ISA
from safetensors.numpy import load_file

from referee_py.execute import Interpreter, Run
from trainer_node.bundle import Bundle

pytest.importorskip("torch", reason="capture needs the extra [capture]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolutional network with batch norm and Adam, captured once."""
    from trainer_node.capture import build, load_recipe

    return build(load_recipe("digits-cnn", steps=12)).write(tmp_path_factory.mktemp("program") / "cnn")


def _run(folder: Path, *options: str, **environment: str) -> str:
    command = [sys.executable, "-m", "trainer_node.cli", "program", "run", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _root(text: str) -> str:
    found = re.search(r"run root +([0-9a-f]{64})", text)
    assert found, text
    return found[1]


@pytest.mark.slow
def test_every_machine_finds_the_same_root(folder: Path) -> None:
    roots = {
        _root(_run(folder, "--threads", threads, REPOPS_ISA=isa))
        for isa, threads in (("portable", "1"), ("avx2", "2"), ("avx512", "1"), ("avx512", "3"))
        if isa != "avx512" or BEST_ISA == 2
    }
    bundle = Bundle.read(folder)
    terms, backend = bundle.terms, repops.backend("cpu")
    tensors = bundle.program, bundle.constants
    slow = Interpreter(*tensors, backend)
    run = Run(*tensors, bundle.initial, terms.steps, terms.strides, backend, executor=slow)
    assert roots == {run.commit_run().root.hex()}


def test_some_steps_and_their_state(folder: Path, tmp_path: Path) -> None:
    text = _run(folder, "--steps", "5", "--save", str(tmp_path / "state.safetensors"))
    assert "run root" not in text
    assert re.search(r"loss +\d", text)
    bundle = Bundle.read(folder)
    run = Run(
        bundle.program, bundle.constants, bundle.initial, 12, bundle.terms.strides, repops.backend("cpu")
    )
    saved = load_file(tmp_path / "state.safetensors")
    for name, array in zip(bundle.labels["slots"], run.advance(run.initial(), 5).arrays, strict=True):
        np.testing.assert_array_equal(saved[name], array)


@pytest.mark.slow
def test_more_steps_than_there_are(folder: Path) -> None:
    command = [sys.executable, "-m", "trainer_node.cli", "program", "run", str(folder), "--steps", "13"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode
    assert "13 steps of a program that has 12" in done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["repops-f32", "rounded-f64"])
def test_without_a_gpu_the_remedy_is_named(folder: Path, mode: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    command = [sys.executable, "-m", "trainer_node.cli", "program", "run", str(folder), "--device", "cuda"]
    command += ["--mode", mode]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode
    assert 'set device = "cpu"' in done.stderr + done.stdout
