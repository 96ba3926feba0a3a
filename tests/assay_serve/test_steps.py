"""The programs of an answer compute the same bits, however rows stand beside each other and a prompt is read.

They are those of the model alone: greedy answers are what `transformers` writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repops
import torch
from repops.host import cpu
from repops.host.library import isa_code

from assay_capture.capture import Built, CaptureError
from assay_serve.engine import Machine
from assay_serve.steps import empty, reading, writing
from referee_py.commit import tensor_hash
from referee_py.execute import Interpreter, State
from referee_py.program import validate

from ..assay_capture.inference.test_decode import LENGTH, MODELS, VOCABULARY, greedy

Made = tuple[Any, Callable[..., Machine], Callable[..., Machine]]
PROMPT = (3, 7, 9, 11, 2)
WARM = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 5}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def made(request: pytest.FixtureRequest) -> Made:
    """Return a model, and functions that give its machines: each is captured once, since that takes a second."""
    module: Any = MODELS[request.param]()
    return (
        module,
        functools.cache(lambda rows, places=LENGTH: Machine(writing(module, rows, places, VOCABULARY))),
        functools.cache(
            lambda chunk, places=LENGTH, rows=1: Machine(reading(module, chunk, places, VOCABULARY, rows))
        ),
    )


def row(machine: Machine, at: int = 0) -> dict[str, bytes]:
    """Return the hashes of the slots of a row."""
    return {name: tensor_hash(slot[at]) for name, slot in machine.slots.items()}


def answer(machine: Machine, at: int = 0) -> list[dict[str, bytes]]:
    """Write until the last place; return the row after each step."""
    found = []
    while machine.slots["place"][at] < LENGTH - 1:
        machine.run()
        found.append(row(machine, at))
    return found


def test_greedy_answers_are_those_of_transformers(made: Made) -> None:
    module, writes, _ = made
    machine = writes(1)
    machine.fill(0, PROMPT, {"temperature": 0.0})
    answer(machine)
    assert machine.slots["tokens"][0].tolist() == greedy(module, list(PROMPT))
    with torch.no_grad():
        scores = module(torch.tensor([machine.slots["tokens"][0, :-1].tolist()])).logits[0, -1]
    wanted = torch.log_softmax(scores, 0).numpy()
    np.testing.assert_allclose(machine.slots["logprobs"][0], wanted, rtol=1e-4, atol=1e-4)


def test_a_row_is_the_same_alone_and_in_each_place_of_a_batch(made: Made) -> None:
    _, writes, _ = made
    one, three = writes(1), writes(3)
    one.fill(0, PROMPT, WARM)
    alone = answer(one)
    for place in range(3):
        for other in range(3):
            three.fill(other, (1 + other,) * (2 + other), {"temperature": 2.0, "seed": other})
            three.slots["key.0"][other] = np.float32(1e30)  # garbage of others, and infinities from it
        three.fill(place, PROMPT, WARM)
        assert answer(three, place) == alone


@pytest.mark.parametrize("places", [len(PROMPT) + 1, LENGTH - 1])
def test_a_row_of_fewer_places_is_that_of_all_while_one_is_hidden(made: Made, places: int) -> None:
    """It goes to the larger machine and back, where another row has left its own keys and values."""
    _, writes, _ = made
    one, short, long = writes(1), writes(3, places), writes(3)
    one.fill(0, PROMPT, WARM)
    alone = answer(one)
    for machine in (short, long):
        for slot in machine.slots.values():
            slot[...] = 1
    one.fill(0, PROMPT, WARM)
    before, at = one, 0
    for place, wanted in enumerate(alone):
        machine = short if place != 1 and place + 1 < places else long
        if machine is not before:
            before.copy(at, machine, 2)
        machine.run()
        before, at = machine, 2
        machine.copy(2, one, 0)
        assert row(one) == wanted


@pytest.mark.parametrize("chunk", [1, 3, 32])
def test_a_prompt_read_in_chunks_of_any_size_is_the_one_read_token_by_token(made: Made, chunk: int) -> None:
    _, writes, reads = made
    one, reader = writes(1), reads(chunk)
    one.fill(0, PROMPT, WARM)
    alone = answer(one)
    reader.fill(0, PROMPT, WARM)
    while reader.slots["place"][0] < len(PROMPT) - 1:
        reader.run()
    reader.copy(0, one, 0)
    assert answer(one) == alone[len(PROMPT) - 1 :]


@pytest.mark.parametrize("places", [len(PROMPT) + 1, LENGTH])
def test_prompts_read_side_by_side_are_those_read_alone(made: Made, places: int) -> None:
    """Also one that ends before the others, and one of a single token, which needs no reading."""
    _, writes, reads = made
    one, several = writes(1), reads(2, places, 3)
    prompts = [PROMPT, PROMPT[1:3], (4,)]
    for at, prompt in enumerate(prompts):
        several.fill(at, prompt, WARM | {"seed": at})
    while several.slots["place"].tolist() != [len(prompt) - 1 for prompt in prompts]:
        several.run()
    for at, prompt in enumerate(prompts):
        one.fill(0, prompt, WARM | {"seed": at})
        alone = answer(one)
        several.copy(at, one, 0)
        assert answer(one) == alone[len(prompt) - 1 :]


@pytest.mark.parametrize(("isa", "threads"), [("portable", 3), ("avx2", 1)])
def test_threads_and_instruction_sets_change_nothing(
    made: Made, isa: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writes, _ = made
    one = writes(1)
    one.fill(0, PROMPT, WARM)
    alone = answer(one)
    monkeypatch.setattr(cpu, "_threads", threads)
    monkeypatch.setattr(cpu, "_isa", isa_code(isa))
    again = writes(1)
    again.fill(0, PROMPT, WARM)
    assert answer(again) == alone


def test_a_step_is_a_committed_step_of_a_program(made: Made) -> None:
    """Promise: a token is judged like any element; the interpreter, node by node, gives the compiled step's state."""
    built: Built = writing(made[0], 1, LENGTH, VOCABULARY)
    validate(built.program.skeleton)
    machine = Machine(built)
    machine.fill(0, PROMPT, WARM)
    state = State.of(0, [machine.slots[name].copy() for name in built.labels.slots])
    interpreter = Interpreter(built.program, built.constants, repops.backend("cpu"))
    for _ in range(len(PROMPT) + 1):
        machine.run()
        state, trace = interpreter.step(state, commit=True)
        assert trace is not None
        assert len(trace.records) == len(built.program.nodes)
        assert state.slot_hashes() == [tensor_hash(slot) for slot in machine.slots.values()]


def test_a_model_without_a_cache_is_refused_with_a_remedy() -> None:
    with pytest.raises(CaptureError, match="no config with layers and heads"):
        empty(torch.nn.Linear(2, 2), 1, 4, 5)
