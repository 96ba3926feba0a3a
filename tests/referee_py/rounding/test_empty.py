"""Operators without an element are not evaluated, so no shape of their operands can keep a party from a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from referee_py.execute import FastExecutor, Interpreter, State
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, validate
from referee_py.rounding import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.truth import truth
from tests.referee_py.trial.parties import structure_of
from trainer_node.rounded.evaluators import evaluator_of

WIDE = {"stride": (1 << 21, 1 << 19), "padding": (1 << 21,) * 2, "dilation": (3, 7), "groups": 1}
PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("bits", [26, 32])
@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("bmm", [(1023, 1 << 29, 0), (1023, 0, 0)], {}),
        ("mm", [(1 << 39, 0), (0, 0)], {}),
        ("conv2d_weight_grad", [(1, 0, 1, 2), (1, 1, 5, 5)], {**WIDE, "kernel_hw": (1 << 20, 1 << 19)}),
        (
            "conv2d_input_grad",
            [(1, 1, 2, 2), (1, 0, 1 << 15, 1 << 15)],
            {**PLAIN, "input_hw": ((1 << 15) + 1,) * 2},
        ),
        ("pow", [(1 << 20, 1 << 19, 0), (1, 1, 1)], {}),
        ("sum", [(0, 1 << 30)], {"dims": (1,), "keepdim": 1}),
    ],
)
def test_an_operator_without_elements_takes_no_time_and_no_memory(
    name: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], bits: int
) -> None:
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    bare = structure_of(name, arrays, attrs)
    operands = tuple(Operand(Kind.CONSTANT, k) for k in range(len(arrays)))
    node = Structure(bare.op, operands, bare.outputs, bare.attributes)
    kept = np.zeros(bare.outputs[0].shape, np.float32)
    program = Program(
        (node,),
        (SlotSource(0, 0),),
        tuple(map(TensorDescriptor.of, arrays)),
        (TensorDescriptor.of(kept),),
    )
    validate(program.skeleton)
    for evaluator in ("numpy", "torch"):
        for executor in (Interpreter, FastExecutor):
            backend = Rounded(Rounding(bits), MemoryLogs(), evaluator_of(evaluator))
            found = executor(program, arrays, backend)
            state = State.of(0, [kept])
            for commit in (False, True):
                state, _ = found.step(state, commit)
                assert state.arrays[0].shape == kept.shape
    assert [result.shape for result in truth(name, arrays, attrs, None, Rounding(bits))] == [kept.shape]
