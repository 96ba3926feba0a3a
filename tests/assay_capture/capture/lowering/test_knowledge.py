"""Facts about values before a program runs, and simplifications that change no bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import repops
from repops.opset import BOOL, F32, I64

from assay_capture.capture.builder import Builder, Ref
from assay_capture.capture.draft import Source
from assay_capture.capture.lowering.knowledge import Knowledge
from referee_py.execute import Run

NUMBERS = np.array([[3, -100], [7, 5]])


@pytest.fixture
def b() -> Builder:
    return Builder()


BOUNDS: dict[str, tuple[Callable[[Builder, Ref], Ref], tuple[int, int] | None]] = {
    "a constant": (lambda _, x: x, (-100, 7)),
    "rows of it": (lambda b, x: b.op("take", x, b.step()), (-100, 7)),
    "moved about": (
        lambda b, x: b.op("slice", b.op("permute", x, dims=(1, 0)), dim=0, start=0, stop=1, step=1),
        (-100, 7),
    ),
    "a sum": (lambda b, x: b.op("add", b.op("take", x, b.step()), b.full(10, I64)), (-90, 17)),
    "a difference": (lambda b, x: b.op("sub", b.full(1, I64), b.op("take", x, b.step())), (-6, 101)),
    "a product": (lambda b, x: b.op("mul", b.op("take", x, b.step()), b.full(-2, I64)), (-14, 200)),
    "side by side": (lambda b, x: b.op("cat", x, b.full(50, I64, (1, 2)), dim=0), (-100, 50)),
    "one number replaced": (
        lambda b, x: b.op("where", b.op("eq", x, b.full(-100, I64)), b.full(1, I64), x),
        (1, 7),
    ),
    "one of two": (
        lambda b, x: b.op("where", b.op("gt", x, b.full(3, I64)), b.full(60, I64), x),
        (-100, 60),
    ),
    "counted": (lambda b, _: b.op("arange", n=9), (0, 8)),
    "a truth": (lambda b, x: b.op("cast", b.op("eq", x, x), dtype=I64), (0, 1)),
    "the step": (lambda b, _: b.step(), None),
    "a cast of floats": (lambda b, x: b.op("cast", b.op("cast", x, dtype=F32), dtype=I64), None),
    "a sum that overflows": (lambda b, x: b.op("mul", b.op("take", x, b.step()), b.full(1 << 60, I64)), None),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_range_of_integers(b: Builder, name: str) -> None:
    make, expected = BOUNDS[name]
    assert Knowledge(b).bounds(make(b, b.constant("x", NUMBERS))) == expected


def test_of_a_tensor_without_values_nothing_is_known(b: Builder) -> None:
    known, x = Knowledge(b), b.constant("x", Source(Source.of(NUMBERS).type, None))
    assert known.bounds(x) is None
    assert known.leaves(b.op("take", x, b.step())) is None


def test_a_value_of_no_tensor_is_worked_out_and_others_are_not(b: Builder) -> None:
    known, x = Knowledge(b), b.constant("x", NUMBERS)
    row, column = b.op("arange", n=3), b.op("reshape", b.op("arange", n=3), shape=(3, 1))
    triangle = known.value(b.op("le", row, column))
    assert triangle is not None
    np.testing.assert_array_equal(triangle, np.tril(np.ones((3, 3), bool)))
    assert known.value(b.op("add", x, x)) is None
    assert known.value(b.op("add", b.step(), b.full(1, I64))) is None
    assert known.value(b.full(1.0, F32, (1 << 13, 1 << 13))) is None, "too large to work out"


# --------------------------------------------------------------------------------------------- simplifications


def run(b: Builder, value: Ref) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Return the bits of a value, and the operators of its program."""
    b.metric("value", value)
    built = b.finish().build()
    source = built.labels.metrics["value"]
    step = Run(built.program, built.constants, built.initial, 1, (1,), repops.backend("cpu"))
    found = step.node_values(step.initial(), source.node)[source.node].outputs[source.output]
    return found, [node.name for node in built.program.nodes]


FLOATS = np.array([[1.5, -0.0, np.inf], [np.nan, 1e-40, -2.0]], np.float32)


@dataclass(frozen=True)
class Given:
    """A builder with floats x and integers y; `op` is its own, or one that simplifies nothing."""

    b: Builder
    x: Ref
    y: Ref
    op: Callable[..., Ref]


SIMPLER: dict[str, Callable[[Given], Ref]] = {
    "times one": lambda v: v.op("neg", v.op("mul", v.x, v.b.full(1.0))),
    "one times": lambda v: v.op("neg", v.op("mul", v.b.full(1.0), v.x)),
    "by one": lambda v: v.op("neg", v.op("div", v.x, v.b.full(1.0))),
    "integers plus nothing": lambda v: v.op("neg", v.op("add", v.b.full(0, I64), v.y)),
    "integers less nothing": lambda v: v.op("neg", v.op("sub", v.y, v.b.full(0, I64))),
    "true and": lambda v: v.op("logical_not", v.op("logical_and", v.b.full(1, BOOL), v.op("eq", v.y, v.y))),
    "false or": lambda v: v.op("logical_not", v.op("logical_or", v.op("eq", v.y, v.y), v.b.full(0, BOOL))),
    "scalars": lambda v: v.op(
        "mul", v.x, v.op("div", v.op("sub", v.b.full(0.3), v.b.full(0.1)), v.b.full(7.0))
    ),
    "expanded for a product": lambda v: v.op(
        "mul", v.op("expand", v.b.full(3.0, F32, (2, 1)), shape=(2, 3)), v.x
    ),
    "expanded, divided, added": lambda v: v.op(
        "add",
        v.op("div", v.op("expand", v.op("sum", v.x, dims=(1,), keepdim=1), shape=(2, 3)), v.b.full(3.0)),
        v.x,
    ),
    "two permutations": lambda v: v.op(
        "neg", v.op("permute", v.op("permute", v.x, dims=(1, 0)), dims=(1, 0))
    ),
    "two shapes": lambda v: v.op("neg", v.op("reshape", v.op("reshape", v.x, shape=(6,)), shape=(3, 2))),
    "two expansions": lambda v: v.op("expand", v.op("expand", v.x, shape=(4, 2, 3)), shape=(5, 4, 2, 3)),
}


def needed(b: Builder, value: Ref) -> set[int]:
    """Return the nodes that a value depends on."""
    node = b.node(value)
    return set() if node is None else {value.index}.union(*(needed(b, operand) for operand in node.inputs))


def as_it_is(b: Builder, name: str, *inputs: Ref, **attrs: Any) -> Ref:
    return b.ops(name, *inputs, **attrs)[0]


@pytest.mark.parametrize("name", SIMPLER)
def test_a_simplification_saves_an_operator_and_changes_no_bit(name: str) -> None:
    results = []
    for simplify in (True, False):
        b = Builder()
        x, y = b.constant("x", FLOATS), b.constant("y", NUMBERS)
        op = b.op if simplify else functools.partial(as_it_is, b)
        value = SIMPLER[name](Given(b, x, y, op))
        made = len(needed(b, value))  # before the canonical form simplifies, too
        results.append((run(b, value)[0], made))
    (ours, fewer), (plain, more) = results
    assert ours.tobytes() == plain.tobytes()
    assert fewer < more


def test_floats_plus_zero_are_left_alone(b: Builder) -> None:
    """-0 + 0 is +0."""
    found, names = run(b, b.op("add", b.constant("x", FLOATS), b.full(0.0)))
    assert "add" in names
    assert not np.signbit(found[0, 1])
