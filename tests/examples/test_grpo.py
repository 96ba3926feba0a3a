"""Reinforcement learning under one root: it learns, each round follows from the receipts, and each lie is named."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eth_account import Account
from safetensors.numpy import load_file, save_file

from assay_capture.datasets import Dataset
from assay_serve.receipt import Lists, Signed
from examples import grpo
from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle

ROUNDS = 2
LINE = re.compile(
    r"round (\d+)  reward ([\d.]+)  loss (\S+) -> (\S+)  (\d+) of (\d+) log-probabilities differ"
)


def told_of(text: str) -> list[tuple[float, float, float, int]]:
    """Return of each round the reward, the first loss and the last, and how many log-probabilities differ."""
    return [(float(r), float(first), float(last), int(n)) for _, r, first, last, n, _ in LINE.findall(text)]


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rl")
    grpo.train(out, ROUNDS)
    return out


@pytest.fixture
def changed(rounds: Path, tmp_path: Path) -> Path:
    """A copy of the rounds, for a test to change."""
    return shutil.copytree(rounds, tmp_path / "rl")


def signed_again(file: Path, fields: dict[str, Any], **lists: tuple[int, ...]) -> None:
    """Sign a receipt with other content by another key: as a trainer could who has the answers he wants."""
    one = Signed.from_bytes(file.read_bytes())
    kept = {name: getattr(one.lists, name) for name in ("prompt", "tokens", "logprobs", "steps")}
    told = {**one.receipt.model_dump(), **fields}
    file.write_bytes(Signed.by(Account.create(), told, Lists(**{**kept, **lists})).to_bytes())


def first_wrong(out: Path) -> str:
    with pytest.raises(grpo.Wrong) as caught:
        grpo.check(out)
    return str(caught.value)


def test_rounds_are_what_follows_from_the_first_model_and_the_receipts(
    rounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = grpo.check(rounds)
    assert found.rows == ROUNDS
    told = told_of(capsys.readouterr().out)
    assert len(told) == ROUNDS
    for _, first, last, apart in told:
        assert apart == 0, "the update begins with the bits of the receipts"
        assert last < first
    jobs = [Bundle.read(rounds / f"job-{k}") for k in range(ROUNDS)]
    assert [grpo.row([job.terms.hash()]).tolist()[0] for job in jobs] == found.tensors["program"].tolist()


def test_a_token_that_was_not_drawn_is_named(changed: Path) -> None:
    """A trainer writes the answer that has the highest reward."""
    file = changed / "answers-0" / "03.json"
    tokens = Signed.from_bytes(file.read_bytes()).lists.tokens
    signed_again(file, {}, tokens=(tokens[0], 0, *tokens[2:]) if tokens[1] else (tokens[0], 1, *tokens[2:]))
    assert first_wrong(changed).startswith("round 0, answer 3: DIFFERS, token 2")


def test_an_answer_with_a_seed_that_somebody_chose_is_named(changed: Path) -> None:
    signed_again(changed / "answers-0" / "07.json", {"seed": 8})
    assert first_wrong(changed) == "round 0, answer 7: not drawn with the seed and the numbers of its place"


def test_a_receipt_left_out_is_named(changed: Path) -> None:
    (changed / "answers-0" / "63.json").unlink()
    assert first_wrong(changed) == "round 0: 63 answers; it has 64"


def test_a_model_that_the_run_does_not_end_with_is_named(changed: Path) -> None:
    file = changed / "model-1" / "model.safetensors"
    weights = load_file(file)
    name = "transformer.h.0.mlp.c_fc.weight"
    weights[name].view(np.uint32)[0, 0] ^= 1
    save_file(weights, file, metadata={"format": "pt"})
    assert first_wrong(changed) == f"model-1: {name} is not what the run of round 0 ends with"


@pytest.mark.parametrize("name", ["answers", "program", "run"])
def test_a_root_over_something_else_is_named(changed: Path, name: str) -> None:
    stated = Dataset.read(changed / "rounds")
    tensors: dict[str, Array] = {key: array.copy() for key, array in stated.tensors.items()}
    tensors[name][0, 0] ^= 1
    Dataset(tensors).write(changed / "rounds")
    assert first_wrong(changed) == f"round 0: the root has another one for {name}"


def test_advantages_are_of_the_group() -> None:
    assert grpo.advantages([0.5, 0.5, 0.5]) == [0.0, 0.0, 0.0]
    low, high = grpo.advantages([0.0, 1.0])
    assert low == -high
    assert high == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
def test_rewards_go_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is drawn from fixed seeds, so another reward is another computation."""
    grpo.train(tmp_path, 8)
    told = told_of(capsys.readouterr().out)
    rewards = [reward for reward, *_ in told]
    assert sum(rewards[-2:]) > 2 * sum(rewards[:2])
    assert all(apart == 0 and last < first for _, first, last, apart in told)
