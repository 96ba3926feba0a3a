"""The demonstration on other chains than the usual one: before Osaka, and on another client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assay_lab.faults import fits
from assay_lab.names import Fault
from referee_py.program.modes import USUAL

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
FAULTS = [
    pytest.param(fault, () if fits(fault, USUAL) else ("--mode", "rounded-f64"), id=fault) for fault in Fault
]
"""Every fault of the demonstration; those of rounding logs in a mode that has some."""


def demonstrated(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "trainer_node.cli", "demo", "--folder", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    return done.stdout


@pytest.mark.parametrize("court", [(), ("--court-only",)])
def test_a_dispute_ends_justly_without_clz(court: tuple[str, ...], tmp_path: Path) -> None:
    told = demonstrated(tmp_path, "--chain", "anvil-prague", *court)
    assert "anvil-prague runs at" in told
    assert "the liar has lost its stake" in told


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("fault", "mode"), FAULTS)
def test_every_lie_loses_on_another_client(fault: Fault, mode: tuple[str, ...], tmp_path: Path) -> None:
    told = demonstrated(tmp_path, "--chain", "hardhat", "--fault", fault, *mode)
    assert "hardhat runs at" in told
    assert "the accepted root" in told
