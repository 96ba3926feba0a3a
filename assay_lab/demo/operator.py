"""The disputed operator in words: its name and operands, and the first element in which the two sides differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from referee_py.commit.tensor import Array
from referee_py.execute import Backend, NodeValues, Run
from referee_py.program import Operand, Structure
from trainer_node.local.bundle import Bundle

from ..faults import HONEST, Fault, Target, values_of
from .roles import Role


def explainer(bundle: Bundle, liar: Role | None, backend: Callable[[], Backend]) -> Callable[[int, int], str]:
    """Return a function that describes a node of a step. It executes the node honestly and with the lie of ``liar``.

    ``backend`` gives the backend for this, apart from all parties; it is called when two claims are known to differ.
    """

    def explain(step: int, node: int) -> str:
        structure = bundle.program.nodes[node]
        words = f"{structure.name} of {', '.join(map(_operand, structure.inputs)) or 'nothing'}"
        words += f" -> {', '.join(map(str, structure.outputs))}"
        if liar is None or liar.lie.fault is Fault.SKIP_STEPS:
            return words
        both = (_values(bundle, part, step, node, backend()) for part in (None, liar))
        return f"{words}{_difference(structure, *both)}"

    return explain


def _values(bundle: Bundle, liar: Role | None, step: int, node: int, backend: Backend) -> NodeValues:
    lie = HONEST if liar is None else liar.lie
    target = Target(bundle.program, bundle.constants, bundle.initial, backend, lie.step, lie.node)
    run = Run.of(bundle, backend)
    # NOTE: the first step that differs is the lie's own, so the state before it is honest.
    before = run.advance(run.initial(), step - 1)
    return values_of(lie.fault, target, before, node)


def _difference(structure: Structure, honest: NodeValues, lie: NodeValues) -> str:
    for what, rights, wrongs in (
        ("input", honest.inputs, lie.inputs),
        ("output", honest.outputs, lie.outputs),
    ):
        for number, (right, wrong) in enumerate(zip(rights, wrongs, strict=True)):
            if right.shape != wrong.shape or right.tobytes() != wrong.tobytes():
                return f"; {what} {number} differs first at {_element(right, wrong)}"
    return f"; the values are the same, but a record names another operator than {structure.name}, or another log"


def _element(right: Array, wrong: Array) -> str:
    if right.shape != wrong.shape:
        return f"its shape: {list(right.shape)}, not {list(wrong.shape)}"
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[right.itemsize]
    first = int(np.argmax(right.reshape(-1).view(bits) != wrong.reshape(-1).view(bits)))
    index = [int(i) for i in np.unravel_index(first, right.shape)]
    return f"element {index}: {right.flat[first]} is right, {wrong.flat[first]} is claimed"


def _operand(operand: Operand) -> str:
    name = operand.kind.name.lower()
    return {"node": f"node {operand.index}", "step": "the step number"}.get(name, f"{name} {operand.index}")
