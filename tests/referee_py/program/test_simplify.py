"""The rules of the canonical form one by one: what each rule leaves of a program, and that no bit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from repops.opset import BOOL, F32, I64

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, Program, SlotSource, TensorDescriptor

from . import tiny
from .canonical_programs import BITS, MODES, OFF_GRID, REFERENCE, Written, X, canonical, worked_out

C = np.arange(6, dtype=np.float32).reshape(2, 3)


class Sheet:
    """A program of one slot like X, written node by node."""

    def __init__(self) -> None:
        self.write = tiny.Writer([C], [X])
        self.x = Operand(Kind.SLOT, 0)
        self.c = Operand(Kind.CONSTANT, 0)

    def full(self, value: float, shape: tuple[int, ...] = ()) -> Operand:
        return self.write("full", shape=shape, dtype=F32, bits=tiny.f32_bits(value))

    def i64(self, value: int) -> Operand:
        return self.write("full", shape=(), dtype=I64, bits=value)

    def bool(self, value: int) -> Operand:
        return self.write("full", shape=(), dtype=BOOL, bits=value)

    def written(self, result: Operand, x: Array = X) -> Written:
        """Return the program that updates the slot, which begins as x, with this value."""
        if result.kind != Kind.NODE:
            result = self.write("reshape", result, shape=(2, 3))
        source = SlotSource(result.index, result.output)
        described = (TensorDescriptor.of(C),), (TensorDescriptor.of(x),)
        return Written(Program(tuple(self.write.nodes), (source,), *described), [C], [x])

    def names(self, result: Operand, form: Callable[[Written], Written] = canonical) -> list[str]:
        """Return the operators of the simplified program that gives the slot this value; its bits are the same."""
        written = self.written(result)
        made = form(written)
        assert made.state_after(1) == written.state_after(1)
        return names(made)


def names(written: Written) -> list[str]:
    return [node.name for node in written.program.nodes]


def sheets() -> dict[str, tuple[Sheet, Operand]]:
    made: dict[str, tuple[Sheet, Operand]] = {}

    def add(name: str, result: Any) -> None:
        sheet = Sheet()
        made[name] = (sheet, result(sheet, sheet.write))

    add("times one", lambda s, w: w("mul", s.x, s.full(1)))
    add("one times", lambda s, w: w("mul", s.full(1), s.x))
    add("over one", lambda s, w: w("div", s.x, s.full(1, (2, 3))))
    add("minus zero", lambda s, w: w("sub", s.x, s.full(0.0)))
    add("plus minus zero", lambda s, w: w("add", s.full(-0.0), s.x))
    add("negated twice", lambda s, w: w("neg", w("neg", s.x)))
    add("the larger of one", lambda s, w: w("maximum", s.x, s.x))
    add("either way", lambda s, w: w("where", w("gt", s.x, s.full(1)), s.x, s.x))
    add("always", lambda s, w: w("where", s.bool(1), s.x, s.c))
    add("never", lambda s, w: w("where", s.bool(0), s.c, s.x))
    add("reshaped back", lambda s, w: w("reshape", w("reshape", s.x, shape=(6,)), shape=(2, 3)))
    add("turned back", lambda s, w: w("permute", w("permute", s.x, dims=(1, 0)), dims=(1, 0)))
    add("expanded to itself", lambda s, w: w("expand", s.x, shape=(2, 3)))
    add("sliced whole", lambda s, w: w("slice", s.x, dim=1, start=0, stop=3, step=1))
    add("joined alone", lambda s, w: w("cat", s.x, dim=0))
    add("cast to itself", lambda s, w: w("cast", s.x, dtype=F32))
    add("summed over nothing", lambda s, w: w("sum", s.x, dims=(), keepdim=0))
    add(
        "summed over ones",
        lambda s, w: w("sum", w("reshape", s.x, shape=(1, 2, 3)), dims=(0,), keepdim=0),
    )
    add(
        "a known factor of one",
        lambda s, w: w("mul", s.x, w("div", s.full(3), w("add", s.full(1), s.full(2)))),
    )
    return made


SAME = sheets()


IN_REPOPS_F32_ALONE = frozenset(
    (
        *("times one", "one times", "over one", "minus zero", "plus minus zero"),
        *("summed over nothing", "summed over ones", "a known factor of one"),
    )
)


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing_leaves_a_copy(name: str) -> None:
    sheet, result = SAME[name]
    assert sheet.names(result, worked_out) == ["reshape"]


@pytest.mark.parametrize("name", SAME)
def test_what_rounds_stays(name: str) -> None:
    """So a canonical form has the bits of its program in every mode, for any value of the slot."""
    sheet, result = SAME[name]
    for x in (X, OFF_GRID):
        written = sheet.written(result, x)
        form = canonical(written)
        assert (names(form) == ["reshape"]) == (name not in IN_REPOPS_F32_ALONE)
        for mode in MODES:
            assert form.state_after(1, mode) == written.state_after(1, mode), mode


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", ["times one", "summed over nothing", "summed over ones"])
def test_why_what_rounds_stays(name: str, bits: int) -> None:
    """The attack: two programs that are equal in repops-f32, and differ in rounded-f64."""
    sheet, result = SAME[name]
    written, mode = sheet.written(result, OFF_GRID), f"rounded-f64 at {bits}"
    other = worked_out(written).state_after(1, mode) != written.state_after(1, mode)
    assert other == (bits < 32 or name != "times one"), "at 32 bits x * 1 is x; a sum has no -0 at any"


KNOWN: dict[str, Callable[[Sheet], Operand]] = {
    "div": lambda s: s.write("div", s.full(1), s.full(3)),
    "exp": lambda s: s.write("exp", s.full(1)),
    "cast": lambda s: s.write("cast", s.i64(2**24 - 1), dtype=F32),
}


@pytest.mark.parametrize("bits", [26, 29])
@pytest.mark.parametrize("name", KNOWN)
def test_known_values_are_not_worked_out_where_they_round(name: str, bits: int) -> None:
    sheet, mode = Sheet(), f"rounded-f64 at {bits}"
    written = sheet.written(sheet.write("expand", KNOWN[name](sheet), shape=(2, 3)))
    assert name in names(canonical(written))
    assert canonical(written).state_after(1, mode) == written.state_after(1, mode)
    assert worked_out(written).state_after(1, mode) != written.state_after(1, mode)


def test_known_values_that_do_not_round_are_worked_out() -> None:
    sheet = Sheet()
    low = sheet.write("minimum", sheet.write("neg", sheet.full(0.1)), sheet.full(3))
    count = sheet.write("add", sheet.i64(2**60 + 1), sheet.i64(3))
    known = sheet.write("where", sheet.write("lt", count, sheet.i64(5)), sheet.full(2), low)
    assert sheet.names(sheet.write("mul", sheet.x, known)) == ["full", "mul"]


def test_a_zero_that_could_change_a_sign_stays() -> None:
    sheet = Sheet()
    assert sheet.names(sheet.write("add", sheet.x, sheet.full(0.0))) == ["full", "add"], "-0 + 0 is +0"
    sheet = Sheet()
    assert sheet.names(sheet.write("sub", sheet.x, sheet.full(-0.0))) == ["full", "sub"]
    sheet = Sheet()
    assert sheet.names(sheet.write("mul", sheet.x, sheet.full(0.0))) == ["full", "mul"], "inf times 0 is no 0"


def test_of_a_neutral_operand_that_broadcasts_the_shape_is_left() -> None:
    sheet = Sheet()
    row = sheet.write("slice", sheet.x, dim=0, start=0, stop=1, step=1)
    result = sheet.write("mul", row, sheet.full(1, (2, 3)))
    assert sheet.names(result, worked_out) == ["slice", "expand"]


def test_known_values_are_those_of_the_operators() -> None:
    sheet = Sheet()
    value = sheet.write("exp", sheet.write("div", sheet.full(1), sheet.full(3)))
    sheet.write.nodes.append(sheet.write.nodes[-1])
    result = sheet.write("mul", sheet.x, value)
    described = (TensorDescriptor.of(X),)
    program = Program(tuple(sheet.write.nodes), (SlotSource(result.index, 0),), described, described)
    full, mul = worked_out(Written(program, [X], [X])).program.nodes
    (third,) = REFERENCE.execute("div", [np.array(1, np.float32), np.array(3, np.float32)], {})
    (expected,) = REFERENCE.execute("exp", [third], {})
    assert (full.name, full.attrs["bits"], mul.name) == ("full", int(expected.view(np.uint32)), "mul")


def test_operands_are_not_expanded_where_broadcasting_does_it() -> None:
    sheet = Sheet()
    row = sheet.write("slice", sheet.x, dim=0, start=1, stop=2, step=1)
    wide = sheet.write("expand", row, shape=(2, 3))
    two = sheet.write("full", shape=(2, 3), dtype=F32, bits=tiny.f32_bits(2.0))
    assert sheet.names(sheet.write("mul", sheet.write("add", sheet.x, wide), two)) == [
        "slice",
        "add",
        "full",
        "mul",
    ]


def test_a_reduction_drops_its_dimensions_at_once_unless_somebody_needs_them() -> None:
    sheet = Sheet()
    total = sheet.write("sum", sheet.x, dims=(0,), keepdim=1)
    flat = sheet.write("reshape", total, shape=(3,))
    assert sheet.names(sheet.write("add", sheet.x, flat)) == ["sum", "add"]
    sheet = Sheet()
    total = sheet.write("sum", sheet.x, dims=(0,), keepdim=1)
    flat = sheet.write("reshape", total, shape=(3,))
    both = sheet.write("add", sheet.write("mul", sheet.x, total), sheet.write("exp", flat))
    assert sheet.names(both).count("sum") == 1
