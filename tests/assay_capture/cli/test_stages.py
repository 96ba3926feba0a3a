"""What a build says while it goes on, and when it is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_capture.capture.stages import EAGER, ELSEWHERE, LOWER, PROGRAM, SHARES, TENSORS, TRACE, WRITE
from assay_capture.cli.stages import Stages
from tests.assay_capture.capture.test_guard import build, nn, recipe


def stop_at(stage: str, folder: Path) -> None:
    with Stages(folder) as tell:
        tell(stage)
        raise KeyboardInterrupt


def test_a_build_tells_its_stages_in_order() -> None:
    told: list[str] = []
    build(recipe(nn.Tanh()), tell=told.append)
    assert told == [TRACE, LOWER, TENSORS, EAGER, PROGRAM, ELSEWHERE]
    assert [*told, WRITE] == list(SHARES)
    assert sum(SHARES.values()) == pytest.approx(1.0)


def test_a_stopped_build_says_that_nothing_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        stop_at(TRACE, tmp_path)
    assert capsys.readouterr().err == "stopped while tracing the step: nothing was written\n"


def test_one_that_was_writing_names_the_folder_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        stop_at(WRITE, tmp_path / "job")
    said = capsys.readouterr().err
    assert f"{tmp_path / 'job'} has a part of the job" in said
    assert "the same command writes over it" in said


def test_time_left_follows_from_the_shares_that_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("assay_capture.cli.stages.time.monotonic", lambda: clock[0])
    with Stages(tmp_path) as tell:
        tell(TRACE)
        clock[0] += 2
        tell(LOWER)
        assert capsys.readouterr().err == "", "a quick build says nothing"
        clock[0] += 10
        tell(TENSORS)
    assert capsys.readouterr().err == f"{TENSORS}  18 s left\n"
