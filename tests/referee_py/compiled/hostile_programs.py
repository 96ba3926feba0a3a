"""Programs that nobody would train, but anybody may post: each has about `size` nodes of one trouble for a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from repops.opset import F32, Shape, Spec, lookup

from referee_py.commit.tensor import Array
from referee_py.program import (
    Kind,
    Operand,
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
)

Value = tuple[Operand, Spec]


class Hostile:
    """Appends nodes. `update` sets the new value of a slot; every other slot is halved."""

    def __init__(self, *shapes: Shape) -> None:
        draw = np.random.default_rng(1)
        self.initial: list[Array] = [
            draw.standard_normal(shape, np.float32).reshape(shape) for shape in shapes
        ]
        self.constants: list[Array] = []
        self.nodes: list[Structure] = []
        self._updates: dict[int, Value] = {}

    def slot(self, index: int) -> Value:
        return Operand(Kind.SLOT, index), (F32, self.initial[index].shape)

    def add(self, name: str, *inputs: Value, **attrs: Any) -> Value:
        specs = lookup(name).infer([spec for _, spec in inputs], attrs)
        types = [TensorType(*spec) for spec in specs]
        self.nodes.append(Structure.make(name, [operand for operand, _ in inputs], types, **attrs))
        return Operand(Kind.NODE, len(self.nodes) - 1), specs[0]

    def full(self, value: float, shape: Shape = ()) -> Value:
        return self.add("full", shape=shape, dtype=F32, bits=int(np.float32(value).view(np.uint32)))

    def update(self, slot: int, value: Value) -> None:
        self._updates[slot] = value

    @property
    def program(self) -> Program:
        for slot in range(len(self.initial)):
            if slot not in self._updates:
                self._updates[slot] = self.add("mul", self.slot(slot), self.full(0.5))
        sources = [self._updates[slot][0] for slot in range(len(self.initial))]
        constants, initial = (tuple(map(TensorDescriptor.of, t)) for t in (self.constants, self.initial))
        slots = tuple(SlotSource(source.index, source.output) for source in sources)
        return Program(tuple(self.nodes), slots, constants, initial)


def view_chain(size: int) -> Hostile:
    """Read a value through thousands of views, at each of them."""
    made = Hostile((4, 6), (24,))
    x, total = made.slot(0), made.slot(1)
    while len(made.nodes) < size:
        x = made.add("reshape", x, shape=(24,) if len(x[1][1]) == 2 else (4, 6))
        if len(x[1][1]) == 1:
            total = made.add("add", total, x)
    made.update(1, total)
    return made


def permuted_chain(size: int) -> Hostile:
    """Chain views of views, none of which can be simplified to a short one, then read the last."""
    made = Hostile((2, 3, 4), (24,))
    x = made.slot(0)
    while len(made.nodes) < size:
        x = made.add("permute", x, dims=(2, 0, 1))
        x = made.add("reshape", made.add("reshape", x, shape=(24,)), shape=(2, 3, 4))
    made.update(1, made.add("reshape", x, shape=(24,)))
    return made


def many_factors(size: int) -> Hostile:
    """Permute views of rank 8, repeat and permute them again: more factors than a kernel has dimensions."""
    made = Hostile((2,) * 8, (4096,), (4096,))
    x = made.slot(0)
    for _ in range(3):
        x = made.add("permute", x, dims=(7, 6, 5, 4, 3, 2, 1, 0))
        x = made.add("reshape", x, shape=(*x[1][1][:-2], x[1][1][-2] * x[1][1][-1]))
        x = made.add("expand", x, shape=(2, *x[1][1]))
        x = made.add("permute", x, dims=(1, 0, *range(2, 8)))
    for _ in range(2):
        x = made.add("reshape", x, shape=(*x[1][1][:-2], x[1][1][-2] * x[1][1][-1]))
        x = made.add("expand", x, shape=(2, *x[1][1]))
    flat = made.add("reshape", x, shape=(8192,))
    made.update(1, made.add("slice", flat, dim=0, start=1, stop=4097, step=1))
    total = made.add("neg", made.slot(2))
    while len(made.nodes) < size:
        total = made.add("add", total, made.add("slice", flat, dim=0, start=0, stop=4096, step=1))
    made.update(2, total)
    return made


def seams(size: int) -> Hostile:
    """Make groups that run over ever finer splits of the same elements."""
    made = Hostile((4,) * 6, (2, *(4,) * 5, 2))
    a, b = made.slot(0), made.slot(1)
    while len(made.nodes) < size:
        moved = made.add("permute", made.add("exp", b), dims=(6, 5, 4, 3, 2, 1, 0))
        a = made.add("mul", made.add("neg", a), made.add("reshape", moved, shape=(4,) * 6))
        b = made.add("sub", made.add("reshape", made.add("neg", a), shape=b[1][1]), b)
    made.update(0, a)
    made.update(1, b)
    return made


def joining(size: int) -> Hostile:
    """Make groups that grow, and wait for one more operator with each node."""
    made = Hostile((3,))
    total = made.slot(0)
    while len(made.nodes) < size:
        read = total if len(made.nodes) % 97 == 0 else made.slot(0)
        total = made.add("add", total, made.add("take", read, made.add("arange", n=3)))
    made.update(0, total)
    return made


def siblings(size: int) -> Hostile:
    """Make a value that thousands of groups read, none of which can join another."""
    made = Hostile((4, 4))
    x = made.slot(0)
    y = x
    while len(made.nodes) < size:
        y = made.add("add", x, made.add("mm", y, x))
    made.update(0, y)
    return made


def fan_out(size: int) -> Hostile:
    """Make a value that every node reads."""
    made = Hostile((5,), (5,))
    x, last = made.add("exp", made.slot(0)), made.slot(1)
    while len(made.nodes) < size:
        last = made.add("add", x, made.add("mul", x, last))
        made.add("tanh", x)
    made.update(1, last)
    return made


def updates(size: int) -> Hostile:
    """Make thousands of slots, all of them read after the operator that would overwrite them."""
    count = max(size // 3, 1)
    made = Hostile(*[(3,)] * count)
    index = made.add("arange", n=3)
    before = made.slot(0)
    for slot in range(count):
        read = made.add("take", made.slot(slot), index)
        before = made.add("add", before, read)
        made.update(slot, made.add("mul", made.slot((slot + 1) % count), made.slot(slot)))
    return made


def all_alive(size: int) -> Hostile:
    """Make values of many sizes that all live until the end."""
    made = Hostile((32,))
    held = []
    while len(made.nodes) < size // 2:
        n = 1 + len(made.nodes) * 7 % 32
        index = made.add("arange", n=n)
        held.append(made.add("take", made.slot(0), index))
    while len(held) > 1:
        held = [made.add("cat", *held[k : k + 200], dim=0) for k in range(0, len(held), 200)]
    made.add("sum", held[0], dims=(0,), keepdim=0)
    return made


def twins(size: int) -> Hostile:
    """Make groups in which two results are equal: none of them can be one kernel."""
    made = Hostile((8,), (8,))
    x, y = made.slot(0), made.slot(1)
    index = made.add("arange", n=8)
    while len(made.nodes) < size:
        a, b = made.add("exp", x), made.add("exp", x)
        x, y = made.add("take", a, index), made.add("take", b, index)
    made.update(0, x)
    made.update(1, y)
    return made


def kept(size: int) -> Hostile:
    """Make tables that are equal in every step, and used once."""
    made = Hostile((1,))
    total = made.slot(0)
    # The row is read from the state, so the table is kept, not the result.
    row = made.add("argmax", made.slot(0), dim=0, keepdim=1)
    while len(made.nodes) < size:
        table = made.add("arange", n=(1 << 17) - len(made.nodes))
        total = made.add("add", total, made.add("cast", made.add("take", table, row), dtype=F32))
    made.update(0, total)
    return made


def repeated(size: int) -> Hostile:
    """Make cheap chains that their readers may recompute, read across groups."""
    made = Hostile((6, 5), (5, 6), (6, 5))
    x, total = made.slot(0), made.slot(2)
    while len(made.nodes) < size:
        for _ in range(10):
            x = made.add("add", x, made.full(1.0))
        turned = made.add("permute", x, dims=(1, 0))
        for _ in range(6):
            total = made.add("add", total, made.add("neg", x))
        x = made.add("permute", made.add("mul", turned, made.slot(1)), dims=(1, 0))
    made.update(2, total)
    made.update(0, x)
    return made


def both_ways(size: int) -> Hostile:
    """Make groups that merge after others have come to wait for one of the two."""
    made = Hostile((4, 4), (4, 4), (4, 4))
    while len(made.nodes) < size:
        early = made.add("exp", made.slot(0))
        waits = made.add("mm", early, early)
        first = made.add("exp", made.slot(2))
        late = made.add("tanh", made.add("mm", first, first))
        merged = made.add("add", early, late)
        # NOTE: this cannot join the group of `first`: `waits` needs the unit of `merged`, which needs that group.
        made.update(1, made.add("add", first, waits))
        made.update(0, merged)
    return made


def heavy(columns: int, groups: int) -> Hostile:
    """Make large results of one value, each needed only briefly, though one kernel could make all of them.

    NOTE: no factor is that by which the slot itself is updated: nodes that are alike are not fused.
    """
    made = Hostile((columns,), (1,))
    total = made.slot(1)
    for k in range(groups):
        large = made.add("exp", made.add("mul", made.slot(0), made.full(1.0 / (k + 3))))
        place = made.add("argmax", large, dim=0, keepdim=1)
        total = made.add("add", total, made.add("cast", place, dtype=F32))
    made.update(1, total)
    return made


KINDS: dict[str, Callable[[int], Hostile]] = {
    kind.__name__: kind
    for kind in (
        view_chain,
        permuted_chain,
        many_factors,
        seams,
        joining,
        siblings,
        fan_out,
        updates,
        all_alive,
        twins,
        kept,
        repeated,
        both_ways,
    )
}
