"""What `assay program run` tells while it runs, to a person, a log and TensorBoard."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.conftest import Assay

from .growing import growing, start, stop_at

LINE = re.compile(r"step (\d+) of (\d+)  loss (\S+)  (?:\S+) steps/s  .* left")


def _lines(errors: str) -> list[int]:
    return [int(found[1]) for found in LINE.finditer(errors)]


def test_a_log_has_the_first_step_the_last_and_some_between(assay: Assay, tmp_path: Path) -> None:
    job = growing(50, (10, 1)).write(tmp_path / "job")
    code, output, errors = assay("program", "run", job, "--every", 1000)
    assert (code, _lines(errors)) == (0, [1, 50]), errors
    assert re.search(r"loss +4\n", output)
    code, _, errors = assay("program", "run", job, "--every", 0)
    assert _lines(errors) == list(range(1, 51))


def test_without_a_folder_a_stopped_run_says_that_nothing_is_kept(tmp_path: Path) -> None:
    job = growing(1_000_000, (1000, 1)).write(tmp_path / "job")
    process = start(job, "--every", 0)
    assert process.stderr is not None
    process.stderr.readline()
    _, errors = stop_at(process, tmp_path / "none", 0, signal.SIGINT)
    assert process.returncode == 130
    assert "with --out RUN a run can continue" in errors.splitlines()[-1]


@pytest.mark.parametrize("out", [True, False])
def test_a_number_that_is_not_finite_is_said_once(assay: Assay, tmp_path: Path, out: bool) -> None:
    job, folder = growing(200, (50, 1), factor=2).write(tmp_path / "job"), tmp_path / "run"
    options = ("--out", folder) if out else ()
    code, output, errors = assay("program", "run", job, *options)
    assert (code, "run root" in output) == (0, True), "the result of a program is what it is"
    assert errors.count("warning: loss is inf in step 126") == errors.count("loss is") == 1
    assert errors.count("the loss diverges") == 1
    if out:
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["loss"] for row in rows[124:127]] == [2.0**127, "Infinity", "Infinity"]


def test_stop_on_nan_keeps_the_state(assay: Assay, tmp_path: Path) -> None:
    job, out = growing(200, (50, 1), factor=2).write(tmp_path / "job"), tmp_path / "run"
    code, _, errors = assay("program", "run", job, "--out", out, "--stop-on-nan")
    assert code == 3
    last = errors.splitlines()[-1]
    assert "stopped after step 126 of 200, because loss is inf in step 126" in last
    assert f"--out {out} --stop-on-nan --resume" in last
    code, output, errors = assay("program", "run", job, "--out", out, "--resume")
    assert (code, "run root" in output, _lines(errors)[0]) == (0, True, 127)


def test_tensorboard_reads_the_metrics(assay: Assay, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    job, out = growing(30, (10, 1), factor=2).write(tmp_path / "job"), tmp_path / "run"
    for more in ((), ("--resume",)):
        code, _, errors = assay(
            "program", "run", job, "--out", out, "--tensorboard", "--steps", 30 if more else 13, *more
        )
        assert code == 0, errors
    found = EventAccumulator(str(out / "tensorboard")).Reload().Scalars("loss")
    assert [(event.step, event.value) for event in found] == [(k, 4.0 * 2**k) for k in range(1, 31)]


def test_without_tensorboard_the_remedy_is_named(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = growing(3, (1,)).write(tmp_path / "job")
    for name in ("tensorboard.compat.proto", "tensorboard.compat"):
        monkeypatch.setitem(sys.modules, name, None)
    code, _, errors = assay("program", "run", job, "--out", tmp_path / "run", "--tensorboard")
    assert (code, "pip install 'assay-referee[tensorboard]'" in errors) == (2, True), errors
    code, _, errors = assay("program", "run", job, "--tensorboard")
    assert (code, "--tensorboard needs the folder of a run" in errors) == (2, True)
