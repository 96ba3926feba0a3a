"""A program of training computes the log-probabilities that the service gives, bit for bit, from the same weights.

Rows of both may have other lengths, and stand beside other rows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import repops
import torch

from assay_capture.capture import SGD, Recipe, build
from assay_serve.engine import Machine
from assay_serve.steps import writing
from referee_py.commit.tensor import Array
from referee_py.execute import Run, StepTrace
from referee_py.execute.values import State
from trainer_node.local.bundle import Bundle

from ..assay_capture.inference import test_decode
from ..assay_capture.inference.test_decode import LENGTH, MODELS, VOCABULARY

STEPS = 3


def served(module: torch.nn.Module, prompts: list[list[int]], places: int) -> tuple[Array, Array]:
    """Write answers to the end; return the tokens and the log-probabilities of all tokens in each place but the
    first."""
    machine = Machine(writing(module, len(prompts), places, VOCABULARY))
    for row, prompt in enumerate(prompts):
        machine.fill(row, tuple(prompt), {"temperature": 1.0, "seed": row})
    told = []
    while machine.slots["place"][0] < places - 1:
        machine.run()
        told.append(machine.slots["logprobs"].copy())
    return machine.slots["tokens"].copy(), np.stack(told, 1)


def objective(output: Any, targets: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    logprobs = torch.log_softmax(output.logits[:, :-1], -1)
    return -logprobs.gather(2, targets.unsqueeze(2)).mean(), {"logprobs": logprobs}


def bundle_of(module: torch.nn.Module, tokens: Array, steps: int = 1) -> Bundle:
    rows = len(tokens)
    return build(
        Recipe(
            name="training",
            module=module,
            loss=objective,
            optimizer=SGD(0.05),
            data={"tokens": tokens, "targets": tokens[:, 1:].copy()},
            steps=steps,
            batch_size=rows,
            initial="module",
            order=np.tile(np.arange(rows), (steps, 1)),
            strides=(1,),
        ),
        check=False,
    )


def trained(bundle: Bundle) -> Iterator[tuple[Array, dict[str, Array]]]:
    """Yield the log-probabilities of each step, and the weights after it. All steps are committed."""
    run = Run.of(bundle, repops.backend("cpu"), metrics=bundle.metrics)
    told: list[tuple[Array, dict[str, Array]]] = []

    def after(state: State, _: StepTrace | None) -> None:
        named = zip(bundle.labels["slots"], state.arrays, strict=True)
        weights = {name.removeprefix("param."): array.copy() for name, array in named}
        told.append((np.array(run.latest["logprobs"]), weights))

    run.commit_interval(run.initial(), bundle.terms.steps, 1, snapshots=[], on_step=after)
    yield from told


def model(name: str) -> torch.nn.Module:
    """Return a model without dropout in the mode of training."""
    module: torch.nn.Module = MODELS[name]()
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    return module.train()


def same_bits(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("qwen3", "gpt-neox"))]
)
def test_each_step_of_a_training_has_the_log_probabilities_of_the_service(name: str) -> None:
    """Also after steps: what the service then says of the same tokens is what the next step computes."""
    module = model(name)
    tokens, first = served(copy.deepcopy(module), [[3], [4, 5], [6, 7, 8]], LENGTH)
    weights: dict[str, Array] = {}
    told = []
    for logprobs, after in trained(bundle_of(copy.deepcopy(module), tokens, STEPS)):
        with torch.no_grad():
            for key, parameter in module.named_parameters():
                parameter.copy_(torch.from_numpy(weights.get(key, parameter.numpy())))
        # NOTE: the whole row as a prompt, so that the service scores these tokens, and draws none.
        _, wanted = served(copy.deepcopy(module), tokens.tolist(), LENGTH)
        assert same_bits(logprobs, wanted)
        told.append(logprobs)
        weights = after
    assert same_bits(told[0], first), "the answers' own"
    assert len({one.tobytes() for one in told}) == STEPS, "steps change them"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_rows_of_another_length_have_the_same_bits(name: str) -> None:
    module = model(name)
    tokens, wanted = served(copy.deepcopy(module), [[3], [4, 5]], LENGTH)
    for length in (2, 9):
        ((logprobs, _),) = trained(bundle_of(copy.deepcopy(module), tokens[1:, :length].copy()))
        assert same_bits(logprobs, wanted[1:, : length - 1])


def test_so_have_rows_of_more_keys_than_one_chunk_of_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contraction adds up chunks of 512 terms: the cache has two, a row of training one or two."""
    places = 600
    monkeypatch.setattr(test_decode, "LENGTH", places)
    module = model("llama")
    tokens, wanted = served(copy.deepcopy(module), [[3]], places)
    for length in (520, 512):
        ((logprobs, _),) = trained(bundle_of(copy.deepcopy(module), tokens[:, :length].copy()))
        assert same_bits(logprobs, wanted[:, : length - 1])


def test_dropout_makes_them_others() -> None:
    module = model("gpt2")
    tokens, wanted = served(copy.deepcopy(module), [[3], [4, 5]], LENGTH)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.1
    ((logprobs, _),) = trained(bundle_of(module, tokens))
    assert not same_bits(logprobs, wanted)
