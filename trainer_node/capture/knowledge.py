"""What is known of a value before the program runs: all of it, its range, or the numbers that it is made of.

Operators are total: an index that does not exist gives zeros, a target that is no class a loss of 0, where PyTorch
raises. So whatever can be known is checked at capture.
"""

from __future__ import annotations

import repops
from repops.opset import BOOL, I64

from referee_py.commit.tensor import Array
from referee_py.program import Kind

from .builder import Builder, Node, Ref

_MAX_ELEMENTS = 1 << 24  # of a value that is worked out here
_MOVED = ("reshape", "permute", "expand", "slice")
Bounds = tuple[int, int]


class Knowledge:
    """Answers about values of one builder, each found once."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._values: dict[Ref, Array | None] = {}
        self._ranges: dict[int, Bounds | None] = {}

    def value(self, ref: Ref) -> Array | None:
        """All of it, if it depends on no tensor and no step."""
        if ref not in self._values:
            self._values[ref] = self._evaluate(ref)
        return self._values[ref]

    def _evaluate(self, ref: Ref) -> Array | None:
        node = self._builder.node(ref)
        if node is None or not node.fixed or any(type_.count > _MAX_ELEMENTS for type_ in node.outputs):
            return None
        inputs = [self.value(i) for i in node.inputs]
        if any(value is None for value in inputs):
            return None
        return repops.backend("cpu").execute(node.name, inputs, node.attrs)[ref.output]

    def bounds(self, ref: Ref) -> Bounds | None:
        """The smallest and the largest that an i64 or bool value can have."""
        if ref.dtype == BOOL:
            return 0, 1
        if ref.dtype != I64:
            return None
        if ref.kind == Kind.CONSTANT:
            return self._range(ref)
        node = self._builder.node(ref)
        return None if node is None else self._of_node(ref, node)

    def _range(self, constant: Ref) -> Bounds | None:
        if constant.index not in self._ranges:
            source = self._builder.source(constant)
            array = source.read() if source.read else None
            known = array is not None and array.size
            self._ranges[constant.index] = (int(array.min()), int(array.max())) if known else None
        return self._ranges[constant.index]

    def _of_node(self, ref: Ref, node: Node) -> Bounds | None:
        if (value := self.value(ref)) is not None:
            return (int(value.min()), int(value.max())) if value.size else None
        if node.name in (*_MOVED, "take"):
            return self.bounds(node.inputs[0])
        if node.name == "cast":
            return self.bounds(node.inputs[0])
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

    def leaves(self, ref: Ref) -> list[Array] | None:
        """Arrays that hold every number of an i64 value, if it only moves numbers about."""
        if (value := self.value(ref)) is not None:
            return [value]
        if ref.kind == Kind.CONSTANT:
            source = self._builder.source(ref)
            return [source.read()] if source.read else None
        node = self._builder.node(ref)
        if node is None or node.name not in (*_MOVED, "take", "cat"):
            return None
        found = [self.leaves(part) for part in (node.inputs if node.name == "cat" else node.inputs[:1])]
        if any(arrays is None for arrays in found):
            return None
        return [array for arrays in found if arrays is not None for array in arrays]
