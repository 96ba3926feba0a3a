"""`assay audit --job`: anybody checks the run that a job claims, from the chain and its claimants' servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_lab.faults import Fault
from tests.conftest import Anvil, Assay
from trainer_node.local.bundle import Bundle

from .arena import Arena


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.WRONG_OP_OUTPUT])
def test_a_job_is_audited_from_the_chain(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, assay: Assay, fault: Fault
) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[fault], challenger=None, verifiers=0, threshold=0) as arena:
        where = ["--rpc-url", anvil.url, "--deployment", tmp_path / "deployment.json"]
        command = ["audit", "--job", arena.job_id, *where, "--intervals", "all"]
        code, _, errors = assay(*command)
        assert (code, "none yet" in errors) == (2, True), errors
        while not (job := arena.client.snapshot().job(arena.job_id)).claims:
            arena.turn()
        root = job.groups[0].root.hex()
        code, output, errors = assay(*command)
        assert (code, root in output) == (int(fault is not Fault.NONE), True), errors
        assert output.startswith(f"job {arena.job_id}  root {root}\n"), "its name, once"
        assert (": DIFFERS" in output) is (fault is not Fault.NONE)
        assert (tmp_path / f"audit-job-{arena.job_id}" / "findings.jsonl").exists()
        code, _, errors = assay(*command, "--root", "ab" * 32, "--out", "other")
        assert (code, f"choose one of its roots with --root: {root}" in errors) == (2, True), errors
    code, _, errors = assay("audit", "run", "--job", 1)
    assert (code, "name a published run, or a job" in errors) == (2, True), errors
