"""A model of the library, trained by others: the client gets a folder that the library loads, with what is known."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from assay_capture.capture import Adam, Recipe, build
from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.chain.codec.claims import with_events
from trainer_node.cli import main
from trainer_node.cli.result import _certified
from trainer_node.client.job_certificate import certificate_of
from trainer_node.local.bundle import Bundle

from .arena import Arena
from .test_disputes import honest_root


def tiny() -> Bundle:
    torch.manual_seed(0)
    config = hf.GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2, use_cache=False)
    ids = np.random.default_rng(0).integers(0, 16, (16, 8))
    data = {"input_ids": ids, "labels": ids}
    return build(
        Recipe("story", hf.GPT2LMHeadModel(config).train(), None, Adam(1e-2), data, 20, 4, strides=(10, 5, 1))
    )


def test_the_client_gets_a_model_and_its_card(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle = tiny()
    bundle.write(tmp_path / "job")
    with Arena(anvil, tmp_path / "arena", bundle, trainers=[Fault.NONE, Fault.STALE_WEIGHTS]) as arena:
        outcome = arena.play()
        arena.client.deployment.save(tmp_path / "deployment.json")
        monkeypatch.chdir(tmp_path)
        command = ["assay", "job", "result", str(arena.job_id), "--hf", "out", "--optimizer-state"]
        where = ["--rpc-url", anvil.url, "--deployment", "deployment.json"]
        assert run(monkeypatch, [*command, *where]) == 2
        assert "--hf needs the job's --bundle" in capfd.readouterr().err
        assert run(monkeypatch, [*command, "--bundle", "job", *where]) == 0, capfd.readouterr().err
        snapshot = arena.client.snapshot()
        job = snapshot.job(arena.job_id)
        certified = certificate_of(snapshot, arena.client.deployment, job, bundle)
        hidden = _certified(snapshot, arena.client.deployment, with_events(job, ()), bundle)
    loaded, info = hf.AutoModelForCausalLM.from_pretrained("out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert loaded.config.n_embd == 8
    assert (tmp_path / "out" / "optimizer.safetensors").is_file()
    card = (tmp_path / "out" / "README.md").read_text()
    for known in (
        bundle.terms.hash().hex(),
        honest_root(bundle).hex(),
        f"| job | {arena.job_id} |",
        "| chain id | 31337 |",
        arena.address("trainer-0"),
        "Other roots that were claimed: 1. Matches about this job: 1.",
        "Whether anybody replayed the whole run",
    ):
        assert known in card
    assert arena.address("trainer-1") not in card, "its claim has lost"
    (name, transaction), said = certified.evidence[0], certified.sentence()
    again = f"`assay job certificate {arena.job_id}` makes it again."
    assert f"## The certificate\n\n{said[0].upper()}{said[1:]} {again}" in card
    assert f"It rests on {name} {transaction}, and lists {len(certified.not_proven)} things" in card
    assert hidden.startswith("None could be made when this was written (RpcCorrupt)")
    assert outcome.job.accepted_root == honest_root(bundle)


def run(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> int:
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)
