"""Facts about a value before the program runs: the whole value, its range, or the numbers that occur in it.

Operators are total: an index that does not exist gives zeros, and a target that is not a class gives a loss of 0, where
PyTorch raises. So capture checks everything that can be known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import repops
from repops.opset import BOOL, I64

from referee_py.commit.tensor import Array
from referee_py.program import Kind

from ..builder import Builder, DraftNode, Ref

_MAX_ELEMENTS = 1 << 24  # of a value that is computed here
_COMPARISONS = {"eq": np.equal, "lt": np.less, "gt": np.greater}
_MOVED = ("reshape", "permute", "expand", "slice")
Bounds = tuple[int, int]


class Knowledge:
    """Facts about the values of one builder, each found once."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._values: dict[Ref, Array | None] = {}
        self._bounds: dict[Ref, Bounds | None] = {}

    def value(self, ref: Ref) -> Array | None:
        """Return the whole value, or None if it depends on a tensor or the step."""
        if ref not in self._values:
            self._values[ref] = self._evaluate(ref)
        return self._values[ref]

    def _evaluate(self, ref: Ref) -> Array | None:
        node = self._builder.node(ref)
        if node is None or not node.fixed or any(type_.count > _MAX_ELEMENTS for type_ in node.outputs):
            return None
        inputs = [value for i in node.inputs if (value := self.value(i)) is not None]
        if len(inputs) != len(node.inputs):
            return None
        return repops.backend("cpu").execute(node.name, inputs, node.attrs)[ref.output]

    def bounds(self, ref: Ref) -> Bounds | None:
        """Return bounds (least, greatest) of an i64 or bool value, or None if none are known."""
        if ref not in self._bounds:
            self._bounds[ref] = self._find_bounds(ref)
        return self._bounds[ref]

    def _find_bounds(self, ref: Ref) -> Bounds | None:
        if ref.dtype == BOOL:
            return 0, 1
        if ref.dtype != I64:
            return None
        leaves = self.leaves(ref)
        if leaves is not None:
            numbers = [array for array in leaves if array.size]
            ends = [(int(array.min()), int(array.max())) for array in numbers]
            return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None
        node = self._builder.node(ref)
        return None if node is None else self._of_node(node)

    def _of_node(self, node: DraftNode) -> Bounds | None:
        if node.name in (*_MOVED, "take", "cast"):
            return self.bounds(node.inputs[0])
        if node.name == "argmax":
            return 0, node.inputs[0].shape[node.attrs["dim"]] - 1
        if node.name == "where" and (clamped := self._clamped(node)) is not None:
            return clamped
        parts = node.inputs[1:] if node.name == "where" else node.inputs
        if node.name not in ("cat", "where", "add", "sub", "mul"):
            return None
        found = [self.bounds(part) for part in parts]
        if any(b is None for b in found):
            return None
        ranges = [b for b in found if b is not None]
        if node.name in ("cat", "where"):
            return min(low for low, _ in ranges), max(high for _, high in ranges)
        (a, b), (c, d) = ranges
        corners = {
            "add": (a + c, b + d),
            "sub": (a - d, b - c),
            "mul": (a * c, a * d, b * c, b * d),
        }[node.name]
        low, high = min(corners), max(corners)
        return (low, high) if low >= -(1 << 63) and high < 1 << 63 else None

    def _clamped(self, node: DraftNode) -> Bounds | None:
        """Return the bounds of where(x < limit, limit, x), or with >, for a limit known now."""
        condition, limit, x = node.inputs
        compared = self._builder.made_by(condition, "lt", "gt")
        known, bounds = self.value(limit), self.bounds(x)
        if (
            compared is None
            or compared.inputs != (x, limit)
            or known is None
            or known.size != 1
            or bounds is None
        ):
            return None
        end = int(known.item())
        if compared.name == "lt":
            return max(bounds[0], end), max(bounds[1], end)
        return min(bounds[0], end), min(bounds[1], end)

    def leaves(self, ref: Ref) -> list[Array] | None:
        """Return arrays that hold every number of an i64 value that only moves numbers about, else None."""
        if (value := self.value(ref)) is not None:
            return [value]
        if ref.kind == Kind.CONSTANT:
            source = self._builder.source(ref)
            return [source.read()] if source.read else None
        node = self._builder.node(ref)
        if node is None:
            return None
        if node.name == "where":
            return self._replaced(node)
        if node.name not in (*_MOVED, "take", "cat"):
            return None
        return self._together(node.inputs if node.name == "cat" else node.inputs[:1])

    def _together(self, parts: Sequence[Ref]) -> list[Array] | None:
        found = [self.leaves(part) for part in parts]
        if any(arrays is None for arrays in found):
            return None
        return [array for arrays in found if arrays is not None for array in arrays]

    def _replaced(self, node: DraftNode) -> list[Array] | None:
        """Return the numbers of where(x == number, other, x), or with < or >: those of x for which that is false, and
        those of the other."""
        condition, other, x = node.inputs
        compared = self._builder.made_by(condition, *_COMPARISONS)
        number = self.value(compared.inputs[1]) if compared and compared.inputs[0] == x else None
        kept, new = self.leaves(x), self.leaves(other)
        if compared is None or kept is None or new is None or number is None or number.size != 1:
            return self._together(node.inputs[1:])
        holds = _COMPARISONS[compared.name]
        return [*(array[~holds(array, number.item())] for array in kept), *new]
