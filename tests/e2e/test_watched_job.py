"""`assay job watch` on a real chain: a client sees the runs of its trainers, and the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.cli import main
from trainer_node.client.watched_job import Earlier, standing
from trainer_node.local.bundle import Bundle

from .arena import Arena


def test_a_client_watches_a_job_to_its_end(
    anvil: Anvil,
    tmp_path: Path,
    bundle: Bundle,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = bundle.write(tmp_path / "job")
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE], challenger=None) as arena:
        arena.play()
        chain = ["--rpc-url", anvil.url, "--deployment", str(tmp_path / "deployment.json")]
        command = ["assay", "job", "watch", str(arena.job_id), *chain]
        lines = []
        for options in (["--bundle", str(folder)], ["--bundle", str(folder), "--json"], []):
            capfd.readouterr()
            monkeypatch.setattr(sys, "argv", [*command, *options])
            with pytest.raises(SystemExit) as caught:
                main()
            assert not caught.value.code
            lines.append(capfd.readouterr().out)
    assert "accepted" in lines[0]
    assert "step 40 of 40  loss " in lines[0]
    row = json.loads(lines[1])
    assert (row["phase"], row["runs"][0]["step"], row["runs"][0]["kept"]) == ("accepted", 40, 20)
    assert set(row["runs"][0]["numbers"]) == {"loss"}
    assert "step 40 of 40  node " in lines[2], "without a bundle a number is called after its node"


def test_a_trainer_is_found_by_what_it_named_in_a_job_before(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Before it claims. It has computed this run already, and tells that."""
    earlier = Earlier()
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE], challenger=None) as arena:
        while not (job := arena.client.snapshot().job(arena.job_id)).trainers:
            arena.turn()
        assert Earlier().of(arena.client.snapshot(), job) == [], "it has claimed nothing yet"
        arena.play()
        arena.post_again()
        assert arena.job_id == 2
        told = None
        while told is None:
            arena.turn()
            snapshot = arena.client.snapshot()
            job = snapshot.job(arena.job_id)
            assert not job.claims, "the phase of training is over"
            for uri in earlier.of(snapshot, job):
                told = standing(job, uri).report
    assert (told.job, told.steps) == (2, 40)
