"""Programs for people: lines, statistics, differences."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from repops.opset import BOOL, F32, I64

from referee_py.program import Kind, Operand, Program, SlotSource, TensorDescriptor
from referee_py.program.describe import Names, attributes, line, lines, value_of
from referee_py.program.describe_diff import Difference, Differences, differences
from referee_py.program.describe_stats import node_flops, stats

from . import tiny

PROGRAM = tiny.program()
LABELS: dict[str, Any] = {
    "nodes": [f"part {k // 5}: op {k}" for k in range(15)],
    "slots": ["weight", "velocity"],
    "constants": ["order", "x", "y"],
    "metrics": {"loss": [6, 0], "beyond": [15, 0], "odd": "x", "negative": [-1, 0], "floats": [1.0, 0]},
}
NAMES = Names.of(LABELS, PROGRAM)


# ---------------------------------------------------------------------------------------------------------- lines


def listed(found: Differences) -> tuple[Difference, ...]:
    structure = () if found.structure is None else (found.structure,)
    return (*found.counts, *found.scalars, *structure, *found.slots, *found.constants, *found.initial)


def test_a_node_reads_as_operator_types_operands_values_and_label() -> None:
    found = line(PROGRAM, 5, NAMES)
    assert (found.op, found.outputs, found.inputs, found.label) == (
        "mm",
        "f32[4, 1]",
        "%3, weight",
        "part 1: op 5",
    )
    assert line(PROGRAM, 0, NAMES).inputs == "1"
    assert line(PROGRAM, 1, NAMES).inputs == "step, %0"
    assert line(PROGRAM, 2, NAMES).inputs == "order, %1"
    assert line(PROGRAM, 7, NAMES).inputs == "%3 dims=[1,0]"
    assert line(PROGRAM, 9, NAMES).inputs == "0.5"
    assert line(PROGRAM, 5, Names()).inputs == "%3, slot:0"


def test_nodes_are_chosen_by_operator_and_by_label() -> None:
    assert [found.node for found in lines(PROGRAM, NAMES, op="mm")] == [5, 8]
    assert [found.node for found in lines(PROGRAM, NAMES, label="PART 2")] == [10, 11, 12, 13, 14]
    assert [found.node for found in lines(PROGRAM, NAMES, op="mul", label="part 2")] == [10, 13]
    assert len(list(lines(PROGRAM, NAMES))) == 15


@pytest.mark.parametrize(
    ("bits", "dtype", "text"),
    [
        (0x3DCCCCCD, F32, "0.1"),
        (0x80000000, F32, "-0.0"),
        (0x7F800000, F32, "inf"),
        (1, F32, "1e-45"),
        ((1 << 64) - 3, I64, "-3"),
        (7, I64, "7"),
        (1, BOOL, "true"),
    ],
)
def test_values_are_the_shortest_text_that_means_them(bits: int, dtype: Any, text: str) -> None:
    assert value_of(bits, dtype) == text


def test_labels_that_do_not_fit_are_left_out() -> None:
    assert dict(NAMES.metrics) == {"loss": (6, 0)}
    odd = Names.of({"nodes": ["one"], "slots": "ab", "constants": [1, 2, 3], "metrics": []}, PROGRAM)
    assert (odd.nodes, odd.slots, odd.constants, dict(odd.metrics)) == ((), (), ("1", "2", "3"), {})


# ----------------------------------------------------------------------------------------------------- statistics


def test_statistics_of_a_program_that_can_be_counted_by_hand() -> None:
    found = stats(PROGRAM, largest=2)
    assert found.nodes == 15
    assert found.nodes_by_operator["take"] == 3
    # x [4, 3] times weight [3, 1], and x^T [3, 4] times error [4, 1]
    assert found.flops_by_operator["mm"] == 2 * 4 * 3 + 2 * 3 * 4
    # t - 1, the error of 4 examples, the weight of 3
    assert found.flops_by_operator["sub"] == 1 + 4 + 3
    assert found.flops_by_operator["add"] == 3
    assert "take" not in found.flops_by_operator
    assert (found.state_elements, found.state_bytes) == (6, 24)
    assert found.constant_bytes == 12 * 4 * 8 + 16 * 3 * 4 + 16 * 4
    assert [node for _, node, _ in found.largest] == [3, 7], "the batch [4, 3] and its transpose"
    assert found.intermediate_bytes == sum(t.nbytes for node in PROGRAM.nodes for t in node.outputs)
    assert sum(found.flops_by_operator.values()) == found.flops


def test_a_convolution_and_its_gradients_cost_the_same() -> None:
    x, w = np.zeros((2, 4, 9, 8), np.float32), np.zeros((6, 2, 3, 2), np.float32)
    write = tiny.Writer([x, w], [x])
    window = {"stride": (2, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 2}
    image, weight = Operand(Kind.CONSTANT, 0), Operand(Kind.CONSTANT, 1)
    y = write("conv2d", image, weight, **window)
    write("conv2d_input_grad", y, weight, **window, input_hw=(9, 8))
    write("conv2d_weight_grad", y, image, **window, kernel_hw=(3, 2))
    pooled = write("max_pool2d", image, kernel=(3, 2), stride=(1, 1), padding=(0, 0), dilation=(1, 1))
    write("sum", pooled, dims=(0, 1), keepdim=0)
    described = tuple(map(TensorDescriptor.of, (x, w)))
    program = Program(tuple(write.nodes), (SlotSource(1, 0),), described, described[:1])
    outputs = math.prod(program.nodes[0].outputs[0].shape)
    expected = 2 * outputs * 2 * 3 * 2  # two channels a group, 3 x 2 taps, a product and a sum each
    assert [node_flops(program, node) for node in program.nodes[:3]] == [expected] * 3
    places = math.prod(program.nodes[3].outputs[0].shape)
    assert [node_flops(program, node) for node in program.nodes[3:]] == [places * 6, places]


# ---------------------------------------------------------------------------------------------------- differences


def replaced(node: int, **attrs: Any) -> Program:
    old = PROGRAM.nodes[node]
    new = type(old).make(old.name, old.inputs, old.outputs, **{**old.attrs, **attrs})
    return dataclasses.replace(PROGRAM, nodes=(*PROGRAM.nodes[:node], new, *PROGRAM.nodes[node + 1 :]))


def test_a_program_does_not_differ_from_itself() -> None:
    found = differences(PROGRAM, tiny.program(), NAMES, NAMES)
    assert listed(found) == ()
    assert found.same_structure


def test_a_hyperparameter_is_a_scalar_that_differs() -> None:
    found = differences(PROGRAM, replaced(12, bits=tiny.f32_bits(0.1)), NAMES, NAMES)
    assert [(d.what, d.first, d.second) for d in listed(found)] == [
        ("node 12 (part 2: op 12)", "0.05", "0.1")
    ]
    assert found.same_structure


def test_the_first_different_node_is_named_and_the_rest_is_not_compared() -> None:
    other = replaced(7, dims=(0, 1))
    found = differences(PROGRAM, other, NAMES, NAMES)
    assert found.structure is not None
    assert found.structure.what == "node 7 (part 1: op 7)"
    assert (found.structure.first, found.structure.second) == (
        "permute f32[3, 4] %3 dims=[1,0]",
        "permute f32[3, 4] %3 dims=[0,1]",
    )
    assert not found.same_structure


def test_a_program_that_goes_on_differs_where_the_other_ends() -> None:
    longer = dataclasses.replace(PROGRAM, nodes=(*PROGRAM.nodes, PROGRAM.nodes[0]))
    found = differences(PROGRAM, longer, NAMES, Names())
    assert [d.what for d in listed(found)] == ["number of nodes", "node 15"]
    assert found.structure is not None
    assert found.structure.first == "no such node"


def test_tensors_and_slots_that_differ_are_named() -> None:
    other = dataclasses.replace(
        PROGRAM,
        slots=(SlotSource(11, 0), PROGRAM.slots[1]),
        constants=(
            PROGRAM.constants[0],
            PROGRAM.constants[1],
            TensorDescriptor.of(np.ones((16, 1), np.float32)),
        ),
        initial=(TensorDescriptor.of(np.ones((3, 1), np.float32)), PROGRAM.initial[1]),
    )
    found = differences(PROGRAM, other, NAMES, NAMES)
    assert [d.what for d in listed(found)] == ["slot 0 (weight)", "constant 2 (y)", "initial slot 0 (weight)"]
    assert (found.slots[0].first, found.slots[0].second) == ("%14.0", "%11.0")
    assert PROGRAM.constants[2].hash.hex() in found.constants[0].first


def with_seed(place: int) -> tuple[Program, Names]:
    """Return the program with a constant more, and its names."""
    seed = TensorDescriptor.of(np.ones((), np.int64))
    constants, names = list(PROGRAM.constants), list(NAMES.constants)
    constants.insert(place, seed)
    names.insert(place, "seed")
    program = dataclasses.replace(PROGRAM, constants=tuple(constants))
    return program, Names.of({**LABELS, "constants": names}, program)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_constant_more_is_named_and_no_other_differs(place: int) -> None:
    other, names = with_seed(place)
    text = f"i64[] {other.constants[place].hash.hex()}"
    for labels in (names, Names()):
        added = differences(PROGRAM, other, NAMES, labels).constants
        assert [(d.first, d.second, d.places) for d in added] == [("none", text, (None, place))]
    gone = differences(other, PROGRAM, names, NAMES).constants
    assert [(d.what, d.first, d.second) for d in gone] == [(f"constant {place} (seed)", text, "none")]


def test_tensors_are_paired_by_their_names() -> None:
    turned = dataclasses.replace(PROGRAM, constants=PROGRAM.constants[::-1])
    names = Names.of({**LABELS, "constants": ["y", "x", "order"]}, turned)
    assert differences(PROGRAM, turned, NAMES, names).constants == ()
    assert [d.places for d in differences(PROGRAM, turned, NAMES, Names()).constants] == [(0, 0), (2, 2)]


def test_a_node_that_differs_has_the_names_of_both() -> None:
    other = Names.of({**LABELS, "nodes": [f"layer {k}" for k in range(15)]}, PROGRAM)
    found = differences(PROGRAM, replaced(7, dims=(0, 1)), NAMES, other)
    assert found.structure is not None
    assert found.structure.what == "node 7 (part 1: op 7; in the second layer 7)"


def test_a_full_of_another_shape_is_another_structure() -> None:
    other = replaced(12)
    wide = tiny.Writer([], [])
    wide("full", shape=(1,), dtype=F32, bits=0)
    other = dataclasses.replace(other, nodes=(*other.nodes[:12], wide.nodes[0], *other.nodes[13:]))
    found = differences(PROGRAM, other, NAMES, NAMES)
    assert found.scalars == ()
    assert found.structure is not None


def test_attributes_leave_out_what_the_type_says() -> None:
    shown = [attributes(node) for node in PROGRAM.nodes if node.name in ("permute", "take", "full")]
    assert shown == ["1", "", "", "", "dims=[1,0]", "0.5", "0.05"]
