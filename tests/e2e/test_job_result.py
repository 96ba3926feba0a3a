"""`assay job result`: with the job's number alone, the checked model and one line about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from assay_lab.faults import Fault
from tests.conftest import Anvil, Assay
from trainer_node.local.bundle import Bundle

from .arena import Arena
from .test_disputes import honest_root


def test_a_number_is_enough_for_the_checked_model(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, assay: Assay, capfd: pytest.CaptureFixture[str]
) -> None:
    root, count = honest_root(bundle).hex(), len(bundle.program.slots)
    with Arena(anvil, tmp_path / "arena", bundle, trainers=[Fault.NONE, Fault.STALE_WEIGHTS]) as arena:
        arena.client.deployment.save(tmp_path / "deployment.json")
        job = arena.job_id
        command = "job", "result", job, "--rpc-url", anvil.url, "--deployment", "deployment.json"
        capfd.readouterr()  # what parties have logged
        code, output, errors = assay(*command)
        assert (code, output) == (2, "")
        assert f"it is training; `assay job watch {job}` ends when it does" in errors
        arena.play()

        capfd.readouterr()
        code, output, errors = assay(*command)
        assert (code, output.count("\n")) == (0, 1), errors
        file = f"job-{job}-{root[:16]}.safetensors"
        assert output.startswith(
            f"{file}  {count} tensors, proven by the accepted root {root} of job {job}; "
        )
        assert output.endswith("accounts behind it: 1, other roots: 1, matches: 1\n")
        with safe_open(tmp_path / file, "np") as saved:
            assert saved.metadata()["root"] == root
            assert set(saved.keys()) == {f"slot.{number}" for number in range(count)}

        code, output, errors = assay(*command, "[x].safetensors", "--json")
        assert (code, output.count("\n")) == (0, 1), errors
        told = json.loads(output)
        assert told["accepted_root"] == root
        assert told["program"] == bundle.terms.hash().hex()
        assert told["claimed_by"] == [arena.address("trainer-0")]
        assert (told["matches"], told["written"], told["files"]) == (1, ["[x].safetensors"], [])
        assert told["tensors"]["slot.0"] == str(bundle.program.initial[0].type)
        again = load_file(tmp_path / "[x].safetensors")
        assert all(
            array.tobytes() == again[name].tobytes() for name, array in load_file(tmp_path / file).items()
        )
        assert any("Other roots that were claimed: 1." in sentence for sentence in told["checked"])
        assert any("Whether anybody replayed" in sentence for sentence in told["unknown"])
        assert "[x].safetensors  " in assay(*command, "[x].safetensors")[1]
