"""Cases that a hostile caller might pass."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from repops.opset import BF16, BY_ID, F32, Dtype, OpError, lookup

from referee_py.element import Case
from referee_py.errors import InvalidEncoding
from referee_py.program import TensorType
from referee_py.program.attributes import decode_attributes, encode_attributes
from referee_py.program.modes import EXACT, REPOPS_F32, TC16, mode_or_unknown

from .chain import Given, Tensor

MANY = 1 << 40


def sound(given: Given) -> Case | None:
    """Return the twin's case, or None if the operator table refuses it."""
    op = BY_ID.get(given.op)
    plain = given.mode in (REPOPS_F32.byte, EXACT.byte, TC16.byte)
    known = plain or mode_or_unknown(given.mode).follows_logs
    if op is None or not known or given.output >= len(given.outputs):
        return None
    try:
        attrs = decode_attributes(op, given.attributes)
        outputs = op.infer([(Dtype(dtype), tuple(dims)) for dtype, dims in given.inputs], attrs)
    except (OpError, InvalidEncoding, ValueError):
        return None  # a ValueError comes from an unknown dtype
    if [(int(dtype), tuple(dims)) for dtype, dims in outputs] != [
        (d, tuple(dims)) for d, dims in given.outputs
    ]:
        return None
    if given.element >= math.prod(given.outputs[given.output][1]):
        return None
    inputs = tuple(TensorType(Dtype(dtype), tuple(dims)) for dtype, dims in given.inputs)
    types = tuple(TensorType(*spec) for spec in outputs)
    return Case(op.name, inputs, types, attrs, given.output, given.element, given.mode)


class Mutations:
    """Changes a sound case, so that it is usually unsound."""

    NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 255, 512, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 39, MANY - 1)
    LARGE = (MANY, 1 << 41, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)

    def __init__(self, seed: str) -> None:
        self.random = np.random.default_rng([*seed.encode()])

    def of(self, given: Given) -> Given:
        for _ in range(1 + int(self.random.integers(0, 3) == 0)):
            kinds = [
                self._tensors,
                self._tensors,
                self._attributes,
                self._attributes,
                self._place,
                self.resized,
            ]
            given = kinds[self.random.integers(0, len(kinds))](given)
        return given

    def _number(self) -> int:
        numbers = self.NUMBERS if self.random.random() < 0.8 else self.LARGE
        return numbers[self.random.integers(0, len(numbers))]

    def _dims(self, dims: Any) -> tuple[int, ...]:
        found = list(dims)
        kind = self.random.integers(0, 5)
        if kind == 0:
            found.insert(int(self.random.integers(0, len(found) + 1)), self._number())
        elif kind == 1 and found:
            del found[self.random.integers(0, len(found))]
        elif kind == 2:
            found = [self._number() for _ in range(self.random.integers(0, 10))]
        elif found:
            found[self.random.integers(0, len(found))] = self._number()
        return tuple(found)

    def _tensors(self, given: Given) -> Given:
        which = "inputs" if given.inputs and self.random.random() < 0.6 else "outputs"
        tensors: list[Tensor] = list(getattr(given, which))
        if not tensors:
            return given
        i = int(self.random.integers(0, len(tensors)))
        dtype, dims = tensors[i]
        kind = self.random.integers(0, 8)
        if kind == 0:
            del tensors[i]
        elif kind == 1:
            tensors.insert(i, tensors[i])
        elif kind == 2:
            tensors[i] = (int(self.random.choice((0, 1, 2, 3, 4, 5, 255))), dims)
        else:
            tensors[i] = (dtype, self._dims(dims))
        changed: dict[str, Any] = {which: tuple(tensors)}
        return replace(given, **changed)

    def resized(self, given: Given) -> Given:
        """Give one dimension of all tensors with its size another size, so that products do not fit a word."""
        sizes = sorted({size for _, dims in (*given.inputs, *given.outputs) for size in dims})
        if not sizes:
            return given
        old, new = sizes[self.random.integers(0, len(sizes))], self._number()
        change: dict[str, Any] = {
            key: tuple(
                (dtype, tuple(new if s == old else s for s in dims)) for dtype, dims in getattr(given, key)
            )
            for key in ("inputs", "outputs")
        }
        return replace(given, **change)

    def convolution(self, name: str) -> Given | None:
        """Return a convolution of large sizes, strides, paddings and dilations, or its gradient; None if unsound."""
        groups, c, f, n, *sizes = (self._size() for _ in range(8))
        dtype = F32 if self.random.integers(0, 3) else BF16
        x, w = (dtype, (n, groups * c, *sizes[:2])), (dtype, (groups * f, c, *sizes[2:]))
        attrs: dict[str, Any] = {
            "stride": (self._size(), self._size()),
            "padding": (self._size() - 1, self._size() - 1),
            "dilation": (self._size(), self._size()),
            "groups": groups,
        }
        try:
            (y,) = lookup("conv2d").infer([x, w], attrs)
        except OpError:
            return None
        inputs, output = [x, w], y
        if name == "conv2d_input_grad":
            inputs, output, attrs["input_hw"] = [y, w], x, tuple(sizes[:2])
        if name == "conv2d_weight_grad":
            inputs, output, attrs["kernel_hw"] = [y, x], w, tuple(sizes[2:])
        op = lookup(name)
        return Given(op.id, tuple(inputs), (output,), encode_attributes(op, attrs))

    def _size(self) -> int:
        sizes = (1, 1, 2, 3, 5, 17, 600, 1 << 20, (1 << 31) - 1)
        return sizes[min(self.random.geometric(0.25) - 1, len(sizes) - 1)]

    def _attributes(self, given: Given) -> Given:
        data = bytearray(given.attributes)
        kind = self.random.integers(0, 5)
        if kind == 0:
            data = data[: self.random.integers(0, len(data) + 1)]
        elif kind == 1:
            data += bytes(int(self.random.integers(1, 10)))
        elif kind == 2 and data:
            data[self.random.integers(0, len(data))] = int(self.random.choice((0, 1, 2, 3, 4, 5, 8, 255)))
        elif len(data) >= 8:
            # An int may begin here: after 0 or more lists and codes.
            start = int(self.random.integers(0, len(data) - 7))
            data[start : start + 8] = self._number().to_bytes(8, "big")
        return replace(given, attributes=bytes(data))

    def _place(self, given: Given) -> Given:
        kind = self.random.integers(0, 4)
        if kind == 0:
            return replace(given, output=int(self.random.choice((0, 1, 2, 255))))
        if kind == 1:
            return replace(given, mode=int(self.random.choice((0, 1, 2, 3, 4, 0x80, 0xFF))))
        if kind == 2:
            return replace(given, op=int(self.random.choice((0, *BY_ID, 18, 83, 256, 65535))))
        return replace(given, element=self._number())
