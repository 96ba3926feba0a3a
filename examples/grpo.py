"""Reinforcement learning (GRPO) whose answers and updates stand under one root.

    model ── assay_serve ──> answers with receipts ── reward ──> advantages ─┐
      ^                                                                      v
      └──────────────────── weights after its steps <── run <── program of the update

A tiny GPT-2 learns to say the last letter of its prompt again. `python -m examples.grpo OUT` trains and keeps all that
is needed to check it; `python -m examples.grpo OUT --check` computes everything again from the receipts. What the root
proves: docs/serve.md, section 7.
"""

from __future__ import annotations

import argparse
import copy
import math
import queue
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from eth_account import Account
from eth_account.signers.local import LocalAccount
from tokenizers import Tokenizer, models

from assay_capture.capture import Adam, Recipe, build
from assay_capture.datasets import Dataset
from assay_serve.answer import Answer, Parameters, Piece
from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model
from assay_serve.receipt import Signed, bits_of, value_of
from assay_serve.replay import Replayer, Verdict
from assay_serve.store import receipt_of
from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle
from trainer_node.local.local_run import LocalRun

LETTERS = "abcdefgh"
PROMPTS = ("a", "b", "ca", "db", "ef", "fe", "abc", "bad")
GROUP, LENGTH, PLACES = 8, 6, 12
"""Answers to each prompt in a round; tokens of an answer; places of the model."""
STEPS, CLIP, RATE = 4, 0.2, 3e-3
"""Steps of an update; how far a step may move a probability, as a ratio; learning rate."""


def reward(prompt: Sequence[int], answer: Sequence[int]) -> float:
    """Return the share of the answer's tokens that are the last one of the prompt."""
    return sum(token == prompt[-1] for token in answer) / len(answer)


def base(folder: Path) -> None:
    """Write a model that has learned nothing: two layers, 26 thousand parameters."""
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=len(LETTERS), n_positions=PLACES, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    hf.GPT2LMHeadModel(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({letter: k for k, letter in enumerate(LETTERS)}))
    hf.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)


# ----------------------------------------------------------------------------------------------------- answers


def asked(number: int) -> Iterator[tuple[tuple[int, ...], Parameters]]:
    """Yield prompt and parameters of each answer of a round. NOTE: the round decides the seeds, so that nobody can
    draw until an answer pleases."""
    for k in range(len(PROMPTS) * GROUP):
        prompt = tuple(map(LETTERS.index, PROMPTS[k // GROUP]))
        # NOTE: a receipt's log-probabilities are the model's own: those of the draw at temperature 1 alone.
        yield prompt, Parameters(temperature=1.0, top_k=0, top_p=1.0, seed=(number << 32) + k)


def answers(model: Model, number: int, account: LocalAccount) -> list[Signed]:
    """Let the engine of `assay serve` answer all prompts of a round, and sign receipts."""
    told: queue.SimpleQueue[Piece] = queue.SimpleQueue()
    made = [
        Answer(model, prompt, parameters, LENGTH, (), frozenset(), told.put)
        for prompt, parameters in asked(number)
    ]
    with Engine(model, Capacity(rows=16, waiting=len(made))) as engine:
        engine.submit(made)
        left = len(made)
        while left:
            piece = told.get()
            if piece.failure:
                raise RuntimeError(piece.failure)
            left -= piece.end is not None
    return [receipt_of(model, answer, account, int(time.time())) for answer in made]


def advantages(rewards: Sequence[float]) -> list[float]:
    """Return the rewards of a group, less their mean, in units of their deviation. NOTE: sums are exact, so that each
    machine gives the same bits."""
    mean = math.fsum(rewards) / len(rewards)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in rewards) / len(rewards))
    return [(one - mean) / (spread + 1e-4) for one in rewards]


# ------------------------------------------------------------------------------------------------------ update


def data(signed: Sequence[Signed]) -> dict[str, Array]:
    """Return what an update reads, which follows from the receipts alone. Place t of a row predicts its token t + 1."""
    rows = len(signed)
    tokens = np.zeros((rows, PLACES), np.int64)
    old, ours = (np.zeros((rows, PLACES - 1), np.float32) for _ in range(2))
    for row, lists in enumerate(one.lists for one in signed):
        begin, end = len(lists.prompt), len(lists.prompt) + len(lists.tokens)
        tokens[row, :end] = (*lists.prompt, *lists.tokens)
        old[row, begin - 1 : end - 1] = [value_of(bits) for bits in lists.logprobs]
        ours[row, begin - 1 : end - 1] = 1
    rewards = [reward(one.lists.prompt, one.lists.tokens) for one in signed]
    gains = [gain for k in range(0, rows, GROUP) for gain in advantages(rewards[k : k + GROUP])]
    gain = np.array(gains, np.float32)[:, None]
    return {"tokens": tokens, "targets": tokens[:, 1:].copy(), "old": old, "ours": ours, "gain": gain}


def objective(
    output: Any, targets: torch.Tensor, old: torch.Tensor, ours: torch.Tensor, gain: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The clipped objective, averaged over tokens; and in how many tokens log-probabilities are not the receipts'."""
    logprobs = torch.log_softmax(output.logits[:, :-1], -1).gather(2, targets.unsqueeze(2)).squeeze(2)
    ratio = torch.exp(logprobs - old)
    kept = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
    apart = ((logprobs != old) & (ours > 0)).float().sum()
    return -(kept * ours).sum() / ours.sum(), {"apart": apart, "logprobs": logprobs}


def recipe(module: torch.nn.Module, signed: Sequence[Signed], number: int) -> Recipe:
    """Return the update of a round: some steps over all of its answers."""
    return Recipe(
        name=f"grpo-{number}",
        module=module,
        loss=objective,
        optimizer=Adam(RATE),
        data=data(signed),
        steps=STEPS,
        batch_size=len(signed),
        initial="module",
        order=np.tile(np.arange(len(signed)), (STEPS, 1)),
        strides=(1,),
    )


@dataclass(frozen=True)
class Update:
    """An update that was computed: its program, its run root, the metrics of each step, the weights after it."""

    bundle: Bundle
    run: bytes
    losses: list[float]
    apart: list[float]
    weights: dict[str, Array]


def update(module: torch.nn.Module, signed: Sequence[Signed], number: int) -> Update:
    bundle = build(recipe(module, signed, number), check=False)
    told: list[dict[str, float]] = []
    result = LocalRun(bundle, STEPS).compute(lambda _, metrics: told.append(dict(metrics)), lambda: False)
    assert result.root is not None
    named = zip(bundle.labels["slots"], result.state.arrays, strict=True)
    weights = {name.removeprefix("param."): array for name, array in named if name.startswith("param.")}
    return Update(bundle, result.root, [one["loss"] for one in told], [one["apart"] for one in told], weights)


# ------------------------------------------------------------------------------------------------------ rounds


def row(hashes: Sequence[bytes]) -> Array:
    """Return hashes as i64 [n, 4], a row each."""
    return np.frombuffer(b"".join(hashes), "<i8").reshape(-1, 4)


def rounds_of(told: Sequence[tuple[Sequence[Signed], Update]]) -> Dataset:
    """Return what stands under the one root. Row r of its three tensors is round r: the TENSOR hash of its receipts'
    ids, the program hash of its update, and the run root of that."""
    return Dataset(
        {
            "answers": row(
                [tensor_hash(row([bytes.fromhex(one.receipt.id) for one in signed])) for signed, _ in told]
            ),
            "program": row([made.bundle.terms.hash() for _, made in told]),
            "run": row([made.run for _, made in told]),
        }
    )


def succeed(model: Model, weights: dict[str, Array], folder: Path) -> Model:
    """Write a model with other weights; return it."""
    module: Any = copy.deepcopy(model.module)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name].copy()))
    module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return Model.load(folder)


def train(out: Path, rounds: int) -> Dataset:
    """Train; write models, receipts, programs and the root of all rounds."""
    account = Account.create()
    base(out / "model-0")
    model = Model.load(out / "model-0")
    told = []
    for number in range(rounds):
        signed = answers(model, number, account)
        (out / f"answers-{number}").mkdir()
        for k, one in enumerate(signed):
            (out / f"answers-{number}" / f"{k:02}.json").write_bytes(one.to_bytes())
        made = update(model.module, signed, number)
        made.bundle.write(out / f"job-{number}")
        told.append((signed, made))
        say(number, signed, made)
        model = succeed(model, made.weights, out / f"model-{number + 1}")
    found = rounds_of(told)
    found.write(out / "rounds")
    return found


def say(number: int, signed: Sequence[Signed], made: Update) -> None:
    mean = math.fsum(reward(one.lists.prompt, one.lists.tokens) for one in signed) / len(signed)
    apart = f"{made.apart[0]:.0f} of {len(signed) * LENGTH} log-probabilities differ"
    loss = f"loss {made.losses[0]:+.4f} -> {made.losses[-1]:+.4f}"
    print(f"round {number}  reward {mean:.3f}  {loss}  {apart}", flush=True)


class Wrong(Exception):
    """A part of the rounds that is not what follows from the others."""


def check(out: Path) -> Dataset:
    """Compute all rounds again, from the first model and the receipts. Raises Wrong, which names what is not so."""
    stated = Dataset.read(out / "rounds")
    model = Model.load(out / "model-0")
    told = []
    for number in range(stated.rows):
        files = sorted((out / f"answers-{number}").iterdir())
        signed = [Signed.from_bytes(path.read_bytes()) for path in files]
        check_answers(model, signed, number)
        made = update(model.module, signed, number)
        told.append((signed, made))
        for name, own in rounds_of(told).tensors.items():
            if not np.array_equal(own[number], stated.tensors[name][number]):
                raise Wrong(f"round {number}: the root has another one for {name}")
        say(number, signed, made)
        model = Model.load(out / f"model-{number + 1}")
        for name, parameter in model.module.named_parameters():
            if parameter.detach().numpy().tobytes() != made.weights[name].tobytes():
                raise Wrong(f"model-{number + 1}: {name} is not what the run of round {number} ends with")
    return stated


def check_answers(model: Model, signed: Sequence[Signed], number: int) -> None:
    """Compute each token of a round's answers again. Raises Wrong."""
    wanted = list(asked(number))
    if len(signed) != len(wanted):
        raise Wrong(f"round {number}: {len(signed)} answers; it has {len(wanted)}")
    replayer = Replayer(model)
    for k, (one, (prompt, drawn)) in enumerate(zip(signed, wanted, strict=True)):
        told = one.receipt
        numbers = drawn.seed, *bits_of([drawn.temperature, drawn.top_p]), drawn.top_k
        if (told.seed, told.temperature, told.topP, told.topK) != numbers or len(one.lists.tokens) != LENGTH:
            raise Wrong(f"round {number}, answer {k}: not drawn with the seed and the numbers of its place")
        found = replayer.check(one, range(1, LENGTH + 1), prompt)
        if found.verdict is not Verdict.MATCH:
            raise Wrong(f"round {number}, answer {k}: {found.words()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the rounds")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--check", action="store_true", help="compute the rounds in the folder again")
    given = parser.parse_args()
    hf.utils.logging.disable_progress_bar()
    found = check(given.out) if given.check else train(given.out, given.rounds)
    print(f"root {found.root().hex()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
