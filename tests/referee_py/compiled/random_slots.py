"""Random programs whose slots pass values on: copies of slots, swaps, rings, delay lines, views and casts of slots."""

from __future__ import annotations

import math

import numpy as np
from repops.opset import BF16, F32
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, SlotSource, TensorType

from .random_program import RandomProgram, Value

SHARE = 3
"""One program in this many passes slots on; the others are like any RandomProgram."""


class RandomSlots(RandomProgram):
    """A program whose new slots are mostly other slots, or views of them, from before or after the step. Casts of slots
    to bf16 are widened, and so reach what else there is."""

    def __init__(self, seed: int, size: int) -> None:
        self.moving = seed % SHARE == 0
        self._made: dict[int, SlotSource] = {}
        super().__init__(seed, size)

    def _grow(self) -> None:
        slot = self._slot(int(self.draw.integers(len(self.initial))))
        if slot[1][0] in (F32, BF16) and self.draw.random() < 0.15:
            self.add("cast", self.made("cast", slot, dtype=BF16), dtype=F32)
        else:
            super()._grow()

    def _more_slots(self) -> list[Array]:
        """Return more tensors of the same types, or with the same number of elements."""
        if not self.moving:
            return []
        found = []
        for _ in range(int(self.draw.integers(1, 6))):
            one = self.initial[int(self.draw.integers(len(self.initial)))]
            other = self._tensor(TensorType.of(one).dtype, one.shape)
            found.append(other.reshape(-1) if self.draw.random() < 0.2 else other)
        narrow = self._tensor(F32, self.initial[0].shape).astype(NUMPY_DTYPE[BF16])
        return [*found, *[narrow] * int(self.draw.integers(3))]

    def _update(self, slot: int) -> SlotSource:
        made = self._passed_on(slot) if self.moving and self.draw.random() < 0.8 else None
        if made is None and TensorType.of(self.initial[slot]).dtype == BF16:
            made = self._source(self._narrowed(slot))
        self._made[slot] = made or super()._update(slot)
        return self._made[slot]

    def _passed_on(self, slot: int) -> SlotSource | None:
        types = [TensorType.of(array) for array in self.initial]
        same = [k for k, other in enumerate(types) if other == types[slot]]
        beside = same[(same.index(slot) + 1) % len(same)]  # a ring of all; with two, a swap
        before = same[max(same.index(slot) - 1, 0)]  # a delay line; the first is a copy of itself
        anyone = same[int(self.draw.integers(len(same)))]
        match str(
            self.draw.choice(
                ["ring"] * 3 + ["delay"] * 3 + ["copy", "late", "shared", "view", "turned", "narrowed"]
            )
        ):
            case "ring":
                made = self._reshaped(beside, slot)
            case "delay":
                made = self._reshaped(before, slot)
            case "copy":
                made = self._reshaped(anyone, slot)
            case "late" if anyone in self._made:  # the new value of another slot, by a node of its own
                source = self._made[anyone]
                value = Operand(Kind.NODE, source.node, source.output), (types[slot].dtype, types[slot].shape)
                made = self.add("reshape", value, shape=types[slot].shape)
            case "shared" if anyone in self._made:  # the same node for both
                return self._made[anyone]
            case "view":
                alike = [
                    k
                    for k, t in enumerate(types)
                    if (t.dtype, t.count) == (types[slot].dtype, types[slot].count)
                ]
                made = self._reshaped(alike[int(self.draw.integers(len(alike)))], slot)
            case "turned":
                made = self._turned(anyone)
            case "narrowed" if types[slot].dtype in (F32, BF16):
                made = self._narrowed(slot)
            case _:
                made = self._reshaped(beside, slot)
        return None if made is None else self._source(made)

    def _source(self, value: Value) -> SlotSource:
        return SlotSource(value[0].index, value[0].output)

    def _narrowed(self, slot: int) -> Value:
        """Cast a slot of the same shape to bf16."""
        types = [TensorType.of(array) for array in self.initial]
        alike = [k for k, t in enumerate(types) if t.shape == types[slot].shape and t.dtype in (F32, BF16)]
        made = self.made("cast", self._slot(alike[int(self.draw.integers(len(alike)))]), dtype=BF16)
        return self.made("cast", made, dtype=F32) if types[slot].dtype == F32 else made

    def _slot(self, slot: int) -> Value:
        type_ = TensorType.of(self.initial[slot])
        return Operand(Kind.SLOT, slot), (type_.dtype, type_.shape)

    def _reshaped(self, source: int, slot: int) -> Value | None:
        """Copy a slot; sometimes through another shape."""
        value = self._slot(source)
        if self.draw.random() < 0.3:
            value = self.add("reshape", value, shape=(1, math.prod(value[1][1]))) or value
        return self.add("reshape", value, shape=self.initial[slot].shape)

    def _turned(self, source: int) -> Value | None:
        """Swap the halves of a slot's first dimension, an order that no strided copy gives."""
        value = self._slot(source)
        shape = value[1][1]
        if not shape or shape[0] < 2:
            return self.add("reshape", value, shape=shape)
        middle = int(np.asarray(shape[0] // 2))
        lower = self.add("slice", value, dim=0, start=0, stop=middle, step=1)
        upper = self.add("slice", value, dim=0, start=middle, stop=shape[0], step=1)
        return self.add("cat", upper, lower, dim=0) if lower and upper else None
