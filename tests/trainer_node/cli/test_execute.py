"""A program file has one result: in any process, on any instruction set, with any number of threads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import repops
from repops.host.library import BEST_ISA
from safetensors.numpy import load_file

from referee_py.execute import Interpreter, Run
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle

from .growing import growing

pytest.importorskip("torch", reason="capture needs the extra [capture]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolutional network with batch norm and Adam, captured once."""
    from assay_capture.capture import build, load_recipe

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
    backend = repops.backend("cpu")
    run = Run.of(bundle, backend, executor=Interpreter(bundle.program, bundle.constants, backend))
    assert roots == {run.commit_run().root.hex()}


def test_some_steps_and_their_state(folder: Path, tmp_path: Path) -> None:
    text = _run(folder, "--steps", "5", "--save", str(tmp_path / "state.safetensors"))
    assert "run root" not in text
    assert re.search(r"loss +\d", text)
    bundle = Bundle.read(folder)
    run = Run.of(bundle, repops.backend("cpu"))
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


@pytest.mark.parametrize(
    "slots", [None, 5, [{}], ["x", "y"]], ids=["none", "a number", "no names", "too many names"]
)
def test_names_of_slots_may_be_anything(assay: Assay, tmp_path: Path, slots: object) -> None:
    path = growing(5, (1,)).write(tmp_path / "job") / "labels.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "slots": slots}))
    code, _, errors = assay("program", "run", "job", "--save", "state.safetensors")
    assert code == (0 if slots == [{}] else 2), errors
    code, _, errors = assay("program", "run", "job", "--evaluate", "job")
    assert len(errors.splitlines()) <= 3, errors


def test_names_of_others_do_not_reach_the_terminal(assay: Assay, tmp_path: Path) -> None:
    job = replace(growing(5, (1,)), name="\x1b[2J")
    replace(job, labels={**job.labels, "metrics": {"\x1bloss": [1, 0]}}).write(tmp_path / "job")
    for options in ((), ("--out", "run"), ("--hf", "model")):
        _, output, errors = assay("program", "run", "job", *options)
        assert "\x1b" not in output + errors
        assert "\ufffd" in output + errors


def test_what_cannot_be_written_is_refused_before_anything_is_computed(assay: Assay, tmp_path: Path) -> None:
    job = growing(5, (1,))
    two = replace(job, extras={"export.json": b'{"format": 1, "file": "model.safetensors", "tensors": {}}'})
    job.write(tmp_path / "plain")
    two.write(tmp_path / "job")
    for command, words in (
        (("plain", "--hf", "model"), "is not a model of transformers"),
        (("job", "--hf", "plain"), "holds files already"),
        (("job", "--optimizer-state"), "add --hf"),
    ):
        code, _, errors = assay("program", "run", *command, "--out", "run")
        assert (code, words in errors) == (2, True), errors
        assert not (tmp_path / "run").exists()


def test_places_that_get_in_each_others_way_are_refused_before_anything_is_computed(
    assay: Assay, tmp_path: Path
) -> None:
    index = b'{"format": 1, "file": "model.safetensors", "tensors": {}}'
    replace(growing(5, (1,)), extras={"export.json": index}).write(tmp_path / "job")
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for options, words in (
        (("--hf", "run"), "run is to hold run, too"),
        (("--hf", "."), "holds files already"),
        (
            ("--hf", "model", "--save", "model/state.safetensors"),
            "model is to hold model/state.safetensors, too",
        ),
        (("--hf", "file/model"), "file is not a folder that can be written to"),
        (("--save", "file/state.safetensors"), "file is not a folder that can be written to"),
        (("--save", "folder"), "folder is a folder; name a file"),
    ):
        code, _, errors = assay("program", "run", "job", "--out", "run", *options)
        assert (code, words in errors) == (2, True), errors
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("found", ["metrics.jsonl", "state.sqlite3", "artifacts"])
def test_a_folder_with_files_of_somebody_else_is_refused(assay: Assay, tmp_path: Path, found: str) -> None:
    """A run cuts its file of metrics, and drops tensors of states that it does not need."""
    growing(5, (1,)).write(tmp_path / "job")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / found).write_text("mine")
    for resume in ((), ("--resume",)):
        code, _, errors = assay("program", "run", "job", "--out", "mine", *resume)
        assert (code, f"was not made by `assay program run` and contains {found}" in errors) == (2, True), (
            errors
        )
    assert (tmp_path / "mine" / found).read_text() == "mine"


def test_a_metric_cannot_pass_for_the_run_root(assay: Assay, tmp_path: Path) -> None:
    job = growing(5, (1,))
    metrics = {"run root": [1, 0], "program hash": [1, 0], "loss": [1, 0]}
    replace(job, labels={**job.labels, "metrics": metrics}).write(tmp_path / "job")
    code, output, errors = assay("program", "run", "job", "--out", "run")
    assert code == 0, errors
    rows = [" ".join(line.split()) for line in output.splitlines()]
    assert f"program hash {job.terms.hash().hex()}" in rows
    assert "metric run root 4" in rows
    assert sum(row.startswith("run root ") for row in rows) == 1
    _, output, _ = assay("program", "run", "job", "--no-root")
    assert "\n  run root" not in output
