"""A trainer that `torchrun` starts as two processes: its batches, and its losses with one and two workers of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from referee_py.execute import Run
from tests.trainer_node.workers.team import backend_of, team
from trainer_node.local.bundle import Bundle

from . import tiny

PROCESSES = 2
WAIT_S = 600.0


def trained(kind: str, folder: Path) -> list[dict[str, Any]]:
    """Return what each process of a trainer has done; its program is in the folder, too."""
    script = ["-m", "tests.assay_capture.huggingface.under_torchrun", kind, str(folder)]
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}", *script]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(PROCESSES)]


def losses(bundle: Bundle, workers: int) -> list[float]:
    found: list[float] = []
    with team(bundle, workers) as lead:
        run = Run.of(bundle, backend_of(bundle)(None), executor=lead)
        steps = bundle.terms.steps
        run.advance(run.initial(), steps, lambda *_: found.append(float(lead.latest["loss"])))
    return found


@pytest.mark.parametrize("kind", ["causal", pytest.param("own_loss", marks=pytest.mark.slow)])
def test_a_trainer_of_two_processes(kind: str, tmp_path: Path) -> None:
    processes = trained(kind, tmp_path)
    bundle = Bundle.read(tmp_path / "job")
    one, _ = tiny.run(bundle)
    assert losses(bundle, 2) == losses(bundle, 1) == one
    np.testing.assert_allclose(one, processes[0]["losses"], rtol=2e-5)
    assert len(set(one)) == bundle.terms.steps, "it learns something"

    assert processes[0]["parts"] == processes[1]["parts"]
    taken = (process["batches"] for process in processes)
    assert [batch for together in zip(*taken, strict=True) for batch in together] == processes[0]["parts"]
