"""`assay calibrate`: its output for people, and the file that a trainer's setting names."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from referee_py.rounding.primitives import FIXED_TAU
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle
from trainer_node.rounded.calibration import Calibration

pytest.importorskip("torch", reason="capture needs the extra [capture]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from assay_capture.capture import build, load_recipe

    return build(load_recipe("digits-cnn", steps=200)).write(tmp_path_factory.mktemp("program") / "cnn")


@pytest.mark.parametrize("bits", [32, 26])
def test_a_bundle(bits: int, folder: Path, assay: Assay, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    options = ["--steps", 2, "--evaluators", "torch,numpy,direct", "--bits", bits, "--out", file]
    code, output, errors = assay("calibrate", folder, *options)
    assert code == 0, errors
    found = Calibration.read(file)
    assert (found.bits, found.steps, found.evaluators) == (bits, 2, ["torch", "numpy", "direct"])
    assert found.program == Bundle.read(folder).with_mode(0x80 | bits - 26).terms.hash().hex()
    named = {item.operator for item in found.thresholds}
    assert {"mm", "sum", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"} <= named
    assert ("exp" in named) == (bits < 32)
    assert all(item.tau >= FIXED_TAU for item in found.thresholds)
    for item in found.thresholds:
        rows = re.findall(rf"^{item.operator} +{item.terms:,} .*$", output, re.MULTILINE)
        assert len(rows) == 2, "once among divergences, once among thresholds"
        assert rows[0].split()[2] == f"{item.elements:,}"
    assert f"2 of 200 steps, {bits} bits, torch, numpy, direct" in output


def test_a_recipe_needs_no_bundle_and_no_file(assay: Assay, tmp_path: Path) -> None:
    code, output, errors = assay("calibrate", "logistic", "--steps", 1, "--evaluators", "numpy,halves")
    assert code == 0, errors
    assert "1 of " in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("evaluators", "why"),
    [
        ("torch", "name two or more, each once"),
        ("numpy,numpy", "name two or more, each once"),
        ("torch,abacus", "'abacus'"),
        ("", "name two or more"),
    ],
)
def test_evaluators_that_cannot_be_compared(evaluators: str, why: str, assay: Assay, folder: Path) -> None:
    code, _, errors = assay("calibrate", folder, "--evaluators", evaluators)
    assert code == 2
    assert why in errors


def test_without_a_gpu_the_remedy_is_named(assay: Assay, folder: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    code, _, errors = assay("calibrate", folder, "--evaluators", "torch,cuda")
    assert code == 2
    assert "no CUDA device" in errors


def test_what_is_no_program(assay: Assay) -> None:
    code, _, errors = assay("calibrate", "no-such-thing")
    assert code == 2
    assert "no recipe 'no-such-thing'" in errors


def _hear_interrupts() -> None:
    """Restore SIGINT. NOTE: a background job of a shell ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _drain(pipe: int) -> None:
    """Read until the other end is closed."""
    with contextlib.suppress(OSError):
        while os.read(pipe, 4096):
            pass


@pytest.mark.slow
def test_interrupted_it_keeps_what_it_has_seen(folder: Path, tmp_path: Path) -> None:
    """Ctrl-C between two steps, once the bar shows that one of them is done."""
    file = tmp_path / "found.json"
    command = [sys.executable, "-m", "trainer_node.cli", "calibrate", str(folder), "--steps", "200"]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "120"}
    pipe, terminal = os.openpty()
    with subprocess.Popen(
        [*command, "--out", str(file)],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment,
        preexec_fn=_hear_interrupts,
    ) as process:
        os.close(terminal)
        seen = b""
        while not re.search(rb"\b[1-9]\d*/200", seen):
            assert select.select([pipe], [], [], 120)[0], seen
            seen += os.read(pipe, 4096)
        process.send_signal(signal.SIGINT)
        # NOTE: an unread bar would fill the terminal's buffer, and the process would wait for room in it.
        reader = threading.Thread(target=_drain, args=(pipe,), daemon=True)
        reader.start()
        output = process.communicate(timeout=120)[0].decode()
    reader.join()
    os.close(pipe)
    assert process.returncode == 0, output
    found = Calibration.read(file)
    assert 1 <= found.steps < 200
    assert f"{found.steps} of 200 steps" in output
