"""Time and place of the values of an expression that is a single pass over rows, for every fused executor.

These can be fused: elementwise operators (`where` and `cast` among them), scalar constants, and `sum` or `amax` over
the last dimension with keepdim. All values broadcast to one shape, the domain. Its last dimension is the row; there a
value has the row's length, or 1.

An operator that uses a reduction's result runs in a later phase than the reduction, and a phase goes over the row once.
So a value that a later phase needs is kept for the whole row; every other value lives in a tile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..opset import ITEM_SIZE, OPS, OpError, Shape, ShapeError, Spec, broadcast
from .expression import Expression, live

REDUCTIONS = ("sum", "amax")
ELEMENTWISE = frozenset(op.name for op in OPS if op.id < 40)
ELEMENTARY = ("exp", "log", "erf", "tanh", "sin", "cos", "pow")
COMBINED = {
    ("sub_f32", "exp_f32"): "exp_sub_f32",
    ("cast_f32_bf16", "cast_bf16_f32"): "round_bf16",
    **{(f"{op}_f32", "cast_f32_bf16"): f"{op}_to_bf16" for op in ("add", "sub", "mul")},
    **{(f"{op}_to_bf16", "cast_bf16_f32"): f"{op}_round_bf16" for op in ("add", "sub", "mul")},
}
"""Kernels for two instructions, of which the second is the only reader of the first and reads nothing else: softmax's
exp(a - b), whose differences need not be stored, and arithmetic of f32 whose results are rounded to bf16."""
WIDENING = {"add_f32": "add_bf16_f32", "mul_f32": "mul_bf16_f32"}
"""Kernels for arithmetic of which one operand, here the first, is widened from bf16 for it alone."""


class NotFusibleError(OpError):
    """The expression is not a single pass over rows; its operators can be applied one by one."""


class Place(IntEnum):
    """Location of a value: `enum place` of fused.c."""

    INPUT = 0
    OUTPUT = 1
    TEMPORARY = 2  # a tile, reused after the value's last use
    KEPT = 3  # a whole row
    ITEM = 4  # one item per row


@dataclass
class Value:
    """A value of the expression as the plan sees it. `phase` is the first phase that can use it."""

    spec: Spec
    varies: bool  # along the row
    phase: int
    place: Place
    index: int = -1


@dataclass(frozen=True)
class Geometry:
    """Rows of `n` elements over the dimensions `outer`. `strides[i]`: those of input i over `outer`, in elements."""

    outer: Shape
    n: int
    strides: tuple[tuple[int, ...], ...]
    varies: tuple[bool, ...]
    """True for an input with stride 1 along the row. INVARIANT: any other input has stride 0 there."""


def row_major(shape: Shape) -> Shape:
    """Return the strides of a contiguous array, in elements."""
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def geometry(domain: Shape, shapes: Sequence[Shape], steps: Sequence[Shape], keep_row: bool) -> Geometry:
    """Merge the dimensions over which every input moves evenly. With `keep_row` the last dimension stays separate.

    `steps[i]` are the strides of input i over the dimensions of its shape, in elements. Raise NotFusibleError.
    """
    strides = []
    for shape, step in zip(shapes, steps, strict=True):
        own = [0 if dim == 1 else stride for dim, stride in zip(shape, step, strict=True)]
        strides.append([*reversed(own), *[0] * (len(domain) - len(shape))])  # innermost first
    merged: list[tuple[int, list[int]]] = []  # (size, stride of each input)
    for d, size in enumerate(reversed(domain)):
        column = [own[d] for own in strides]
        if size == 1 and (d or not keep_row):
            continue
        if merged and not (keep_row and len(merged) == 1):
            inner, below = merged[-1]
            if all(outer == step * inner for outer, step in zip(column, below, strict=True)):
                merged[-1] = inner * size, below
                continue
        merged.append((size, column))
    (n, row), *rest = merged or [(1, [0] * len(shapes))]
    if any(step not in (0, 1) for step in row):
        raise NotFusibleError("an input does not lie along the row", strides=row)
    rest.reverse()
    return Geometry(
        tuple(size for size, _ in rest),
        n,
        tuple(tuple(column[i] for _, column in rest) for i in range(len(shapes))),
        tuple(step != 0 for step in row),
    )


@dataclass
class Instruction:
    """An operator in its phase. `name` includes types: "add_f32", "cast_f32_i64", "where_4" (bytes of an item)."""

    name: str
    result: int
    operands: tuple[int, ...]
    phase: int
    varies: bool
    """Executed for each element of the row, not once per row."""
    reduces: bool = False


class Schedule:
    """The phase of each operation and the place of each value. Raises NotFusibleError.

    `code` is in order. `values` maps numbers in the expression to inputs, results and constants. `constants` are (index
    among the items, bits). `combines`: the executor has the kernels of COMBINED. `strides`: those of each input over
    its dimensions, in elements; None, or an empty list, means contiguous.
    """

    def __init__(self, expression: Expression, combines: bool = False, strides: Sequence[Shape | None] = ()):
        self.expression = expression
        self._nodes = live(expression)
        self._combines = combines
        reduces = any(node.op in REDUCTIONS for _, node in self._nodes)
        shapes = [expression.spec(i)[1] for i in range(len(expression.inputs))]
        try:
            self.domain = broadcast("fusion", *shapes, *(node.spec[1] for _, node in self._nodes), ())
        except ShapeError as error:
            raise NotFusibleError("values do not broadcast to one shape") from error
        if 0 in self.domain or (reduces and self.domain[-1:] in ((), (1,))):
            raise NotFusibleError("nothing to go over", domain=self.domain)
        given = strides or [None] * len(shapes)
        steps = [row_major(s) if own is None else own for s, own in zip(shapes, given, strict=True)]
        self.geometry = geometry(self.domain, shapes, steps, keep_row=reduces)
        self.constants: list[tuple[int, int]] = []
        self.values = {
            i: Value(spec, self.geometry.varies[i], 0, Place.INPUT, i)
            for i, spec in enumerate(expression.inputs)
        }
        self.code: list[Instruction] = []
        self._readers = Counter([*expression.outputs, *(i for _, node in self._nodes for i in node.inputs)])
        for number, node in self._nodes:
            self._add(number, node)
        self._place_outputs()
        self._place_rest()
        self.shareable = self._shareable()

    def _add(self, number: int, node: Any) -> None:
        operands = [self.values[i] for i in node.inputs]
        if node.op == "full" and node.spec[1] == ():
            self.values[number] = Value(node.spec, False, 0, Place.ITEM, len(self.constants))
            self.constants.append((len(self.constants), dict(node.attrs)["bits"]))
            return
        phase = max((operand.phase for operand in operands), default=0)
        varies = any(operand.varies for operand in operands)
        dtypes = [operand.spec[0].name.lower() for operand in operands]
        if node.op in REDUCTIONS:
            (shape,), attrs = [operand.spec[1] for operand in operands], dict(node.attrs)
            if attrs != {"dims": (len(shape) - 1,), "keepdim": 1} or not varies:
                raise NotFusibleError(f"{node.op}: not over the row with keepdim", shape=shape, **attrs)
            self.code.append(Instruction(f"{node.op}_{dtypes[0]}", number, node.inputs, phase, True, True))
            self.values[number] = Value(node.spec, False, phase + 1, Place.ITEM)
            return
        if node.op not in ELEMENTWISE:
            raise NotFusibleError(f"{node.op} is not elementwise")
        if node.op == "where":
            name = f"where_{ITEM_SIZE[node.spec[0]]}"
        else:
            name = f"{node.op}_{dtypes[0]}" + (f"_{node.spec[0].name.lower()}" if node.op == "cast" else "")
        inputs = node.inputs
        if self._combines:
            name, inputs = self._combined(name, inputs, phase)
        self.code.append(Instruction(name, number, inputs, phase, varies))
        self.values[number] = Value(node.spec, varies, phase, Place.TEMPORARY if varies else Place.ITEM)

    def _combined(self, name: str, inputs: tuple[int, ...], phase: int) -> tuple[str, tuple[int, ...]]:
        """Return the kernel of an instruction and of one whose only reader it is, which is dropped; or its own."""
        for at in inputs:
            before = next((done for done in reversed(self.code) if done.result == at), None)
            if before is None or before.phase != phase or self._readers[at] != 1:
                continue
            if len(inputs) == 1 and (before.name, name) in COMBINED:
                made, operands = COMBINED[before.name, name], before.operands
            elif before.name == "cast_bf16_f32" and name in WIDENING:
                made, operands = WIDENING[name], (*before.operands, *(i for i in inputs if i != at))
            else:
                continue
            self.code.remove(before)
            del self.values[at]
            return made, operands
        return name, inputs

    def _place_outputs(self) -> None:
        row = self.domain if self.geometry.n == math.prod(self.domain[-1:]) else None
        for index, number in enumerate(dict.fromkeys(self.expression.outputs)):
            value = self.values[number]
            whole = value.spec[1] == self.domain
            item_a_row = row is not None and value.spec[1] == (*self.domain[:-1], 1) and not value.varies
            if value.place == Place.INPUT or any(number == n for n, node in self._nodes if node.op == "full"):
                raise NotFusibleError("an output is an input or a constant")
            if not (whole and (value.varies or self.geometry.n == 1)) and not item_a_row:
                raise NotFusibleError("an output has another shape", shape=value.spec[1], domain=self.domain)
            value.place, value.index = Place.OUTPUT, index

    def _place_rest(self) -> None:
        """Place items, rows that a later phase needs, and tiles, which are reused after their last reader."""
        last: dict[int, int] = {}
        order = sorted(range(len(self.code)), key=lambda i: (self.code[i].phase, self.code[i].varies))
        self.code = [self.code[i] for i in order]
        for at, instruction in enumerate(self.code):
            for operand in instruction.operands:
                last[operand] = at
                value = self.values[operand]
                if value.place == Place.TEMPORARY and instruction.phase > value.phase:
                    value.place = Place.KEPT
        self.kept, self.items, self.tiles = 0, len(self.constants), 0
        free: list[int] = []
        for at, instruction in enumerate(self.code):
            value = self.values[instruction.result]
            if value.place == Place.ITEM:
                value.index, self.items = self.items, self.items + 1
            elif value.place == Place.KEPT:
                value.index, self.kept = self.kept, self.kept + 1
            elif value.place == Place.TEMPORARY:
                if not free:
                    free.append(self.tiles)
                    self.tiles += 1
                value.index = free.pop()
            # INVARIANT: a kernel never writes a tile that it reads, so operands are freed after the result is placed.
            done = {i for i in (*instruction.operands, instruction.result) if last.get(i, at) == at}
            free += [self.values[i].index for i in done if self.values[i].place == Place.TEMPORARY]

    def reads_again(self, at: int) -> bool:
        """Return whether an instruction reads operands after it has begun to write.

        SAFETY: a kernel of an elementary function does: a hard case's operand, when its neighbours are written.
        """
        return self.code[at].name.startswith(ELEMENTARY)

    def first_read_after(self, written: int) -> int:
        """Return the first instruction that reads after instruction `written` has begun to write."""
        return written + (not self.reads_again(written))

    def _shareable(self) -> set[tuple[int, int]]:
        """Return the (input, output) pairs of one spec whose input is not read after the output is written."""
        pairs = set()
        for o, target in enumerate(dict.fromkeys(self.expression.outputs)):
            if not self.values[target].varies and math.prod(self.domain) != 1:
                continue  # one item for many elements
            written = next(at for at, done in enumerate(self.code) if done.result == target)
            later = {
                number for done in self.code[self.first_read_after(written) :] for number in done.operands
            }
            spec = self.expression.spec(target)
            pairs |= {
                (i, o) for i, other in enumerate(self.expression.inputs) if other == spec and i not in later
            }
        return pairs
