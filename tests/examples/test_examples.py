"""The examples: what the program learns is what the script learns, and the library loads the result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts.run_examples import NAMES, STEPS, run_example

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"


def check(name: str, folder: Path, steps: int) -> None:
    outcome = run_example(name, folder, steps)
    print(f"{name}: losses differ by {outcome.difference:.1e} at most")
    assert not outcome.wrong
    assert len(outcome.ours) == len(outcome.theirs) == steps
    np.testing.assert_allclose(outcome.ours, outcome.theirs, rtol=outcome.allowed)
    assert len(set(outcome.theirs)) > steps // 2, "it learns something"


@pytest.mark.parametrize(
    "name", ["lora", *(pytest.param(name, marks=pytest.mark.slow) for name in ("masked_lm", "vit"))]
)
def test_a_few_steps_are_those_of_the_script(name: str, tmp_path: Path) -> None:
    """An adapter, a collator that draws, a plain loop."""
    check(name, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_that_of_the_script(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_by_itself(name: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss") >= STEPS


def test_every_script_is_run_and_told_of() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*NAMES, "common", "grpo", "tour"}
    told = (ROOT / "docs/programs.md").read_text()
    assert [name for name in NAMES if f"`{name}.py`" not in told] == []
