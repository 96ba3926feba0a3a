"""The run of an answer as a program for Jobs: what a challenge of its receipt posts (docs/protocol.md, section 11).

prompt, parameters ──> initial state ─┐
the model's program of one row ───────┼──> program file, program hash
tokens of both, less 1 ──> steps ─────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from referee_py.commit import Tag, Tree, tensor_hash
from referee_py.commit.tensor import Array
from referee_py.program import Program
from referee_py.program.program import TensorDescriptor
from referee_py.program.terms import Terms, suggest_strides
from trainer_node.local.bundle import Bundle

from .answer import Parameters
from .backed import Backed, Backing, written_hash
from .model import Model
from .receipt import Lists, Receipt, Signed, value_of


class AnswerRuns:
    """The runs of answers of one model. NOTE: what all of them have in common is hashed once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._built = model.one
        self._names = list(self._built.labels.slots)
        self._terms = Terms.of(self._built.program, 1, (1,))

    def hashes(self, prompt: Sequence[int], tokens: int, parameters: Parameters) -> tuple[str, str]:
        """Return the program hash and the SHA-256 of the program file of an answer of so many tokens."""
        program = self._program(self._initial(prompt, parameters))
        steps = _steps(prompt, tokens)
        root = Tree(Tag.INITIAL_TREE, [slot.hash for slot in program.initial]).root
        terms = replace(self._terms, steps=steps, strides=suggest_strides(steps), initial_root=root)
        return terms.hash().hex(), program.file_hash().hex()

    def bundle(self, prompt: Sequence[int], tokens: int, parameters: Parameters) -> Bundle:
        """Return the same run, with its tensors."""
        initial = self._initial(prompt, parameters)
        program = self._program(initial)
        steps = _steps(prompt, tokens)
        labels = self._built.labels
        return Bundle(
            f"an answer of {self._model.name}",
            program,
            Terms.of(program, steps, suggest_strides(steps)),
            tuple(self._built.constants),
            tuple(
                initial.get(name, array) for name, array in zip(self._names, self._built.initial, strict=True)
            ),
            {"nodes": labels.nodes, "slots": labels.slots, "constants": labels.constants},
        )

    def _initial(self, prompt: Sequence[int], parameters: Parameters) -> dict[str, Array]:
        """Return the slots that differ from those before any request."""
        before = dict(zip(self._names, self._built.initial, strict=True))
        found = {"tokens": np.zeros_like(before["tokens"])}
        found["tokens"][0, : len(prompt)] = prompt
        for name, value in {"length": len(prompt), **parameters.slots()}.items():
            found[name] = np.full_like(before[name], value)
        return found

    def _program(self, initial: dict[str, Array]) -> Program:
        program = self._built.program
        described = zip(self._names, program.initial, strict=True)
        return replace(
            program,
            initial=tuple(
                TensorDescriptor(one.type, tensor_hash(initial[name])) if name in initial else one
                for name, one in described
            ),
        )


def _steps(prompt: Sequence[int], tokens: int) -> int:
    return len(prompt) + tokens - 1


def steps_of(signed: Signed) -> int:
    """Return the number of steps of the run that a receipt is about."""
    return _steps(signed.lists.prompt, len(signed.lists.tokens))


def parameters_of(receipt: Receipt) -> Parameters:
    """Return the parameters that a receipt says its tokens were drawn with."""
    return Parameters(value_of(receipt.temperature), receipt.topK, value_of(receipt.topP), receipt.seed)


def backed_by(backing: Backing, runs: AnswerRuns, receipt: Receipt, lists: Lists) -> Backed:
    """Return what a server signs for its pledge's contract, of a receipt with these lists."""
    program, file = runs.hashes(lists.prompt, len(lists.tokens), parameters_of(receipt))
    return Backed(
        chain=backing.chain,
        contract=backing.contract,
        owner=backing.owner,
        answer=receipt.id,
        program=program,
        file=file,
        written=written_hash(receipt.places, lists.prompt, lists.tokens).hex(),
        until=receipt.time + backing.seconds,
    )


def bundle_of(runs: AnswerRuns, signed: Signed) -> Bundle:
    """Return the run that a receipt is about."""
    return runs.bundle(signed.lists.prompt, len(signed.lists.tokens), parameters_of(signed.receipt))
