"""The operators of a group one by one, for use when its kernel is in doubt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from repops.fuse.phases import REDUCTIONS
from repops.host import cpu
from repops.opset import ITEM_SIZE, Dtype, Shape, Spec

from ..commit.tensor import Array
from .graph import GraphNode

Execute = Callable[[int, str, Sequence[Array], dict[str, Any]], list[Array]]
"""Computes the outputs of a node from its number, operator, inputs and attributes."""


class Of(Enum):
    """Source of an operand."""

    INPUT = "input"  # an input of the group, by its place
    VALUE = "value"  # a value that an operator of the group makes, by its number
    SCALAR = "scalar"  # the result of a `full`, by its number


class Operand(NamedTuple):
    of: Of
    number: int


@dataclass(frozen=True)
class Operator:
    """A node of a group. With `items` it takes and gives one element per row. `size` is the bytes of an element."""

    node: GraphNode
    operands: tuple[Operand, ...]
    items: bool
    size: int


@dataclass(frozen=True)
class Unfused:
    """A group over a domain, whose last dimension is the row.

    `inputs` are dtypes, and strides over the domain; `outputs` are the values to be stored, with the program's specs.
    `scalars` has the nodes behind operands of that kind.
    INVARIANT: an operator has the elements that it has in the program, in the same order, perhaps in another shape. So
    positions in a log are the program's.
    """

    domain: Shape
    inputs: tuple[tuple[Dtype, Shape], ...]
    outputs: Mapping[int, Spec]
    operators: tuple[Operator, ...]
    scalars: Mapping[int, GraphNode]

    def run(self, execute: Execute, inputs: Sequence[Array], outputs: Mapping[int, Array]) -> None:
        """Execute the operators on inputs that have the domain's shape."""
        values: dict[int, Array] = {}
        for each, done in zip(self.operators, self._released, strict=True):
            space = self._space(each)
            operands = [_spread(self._array(o, inputs, values), space) for o in each.operands]
            attrs = each.node.attrs
            if each.node.op in REDUCTIONS:
                attrs = {"dims": (len(self.domain) - 1,), "keepdim": 1}
            (result,) = execute(each.node.place, each.node.op, operands, attrs)
            (value,) = each.node.outputs
            values[value] = result
            if value in outputs:
                np.copyto(outputs[value], result.reshape(outputs[value].shape))
            for number in done:
                del values[number]

    @cached_property
    def nbytes(self) -> int:
        """Maximum bytes of all values and copies of operands at any time."""
        made = {each.node.outputs[0]: each for each in self.operators}
        live = most = 0
        for each, done in zip(self.operators, self._released, strict=True):
            space = self._space(each)
            copied = [
                o for o in each.operands if o.of is not Of.VALUE or self._shape(made[o.number]) != space
            ]
            live += self._bytes(each)
            most = max(most, live + sum(math.prod(space) * self._size(o, made) for o in copied))
            live -= sum(self._bytes(made[value]) for value in done)
        return most

    def _size(self, operand: Operand, made: Mapping[int, Operator]) -> int:
        """Return the bytes of an element."""
        if operand.of is Of.INPUT:
            return ITEM_SIZE[self.inputs[operand.number][0]]
        if operand.of is Of.VALUE:
            return made[operand.number].size
        return ITEM_SIZE[Dtype(self.scalars[operand.number].attrs["dtype"])]

    def _bytes(self, operator: Operator) -> int:
        return math.prod(self._shape(operator)) * operator.size

    @cached_property
    def _released(self) -> list[list[int]]:
        """The values that no later operator needs, for each operator."""
        last = {value: at for at, each in enumerate(self.operators) for value in each.node.outputs}
        for at, each in enumerate(self.operators):
            last |= {operand.number: at for operand in each.operands if operand.of is Of.VALUE}
        found: list[list[int]] = [[] for _ in self.operators]
        for value, at in last.items():
            found[at].append(value)
        return found

    def _space(self, operator: Operator) -> Shape:
        """Return the shape of the operands."""
        return (*self.domain[:-1], 1) if operator.items else self.domain

    def _shape(self, operator: Operator) -> Shape:
        """Return the shape of the result."""
        return (*self.domain[:-1], 1) if operator.node.op in REDUCTIONS else self._space(operator)

    def _array(self, operand: Operand, inputs: Sequence[Array], values: Mapping[int, Array]) -> Array:
        if operand.of is Of.INPUT:
            return inputs[operand.number]
        if operand.of is Of.VALUE:
            return values[operand.number]
        scalar = self.scalars[operand.number]
        return cpu.execute(scalar.op, [], {**scalar.attrs, "shape": ()})[0]


def _spread(array: Array, shape: Shape) -> Array:
    """Spread an operand to this shape. Items are one element per row, since all elements of a row are equal."""
    if array.ndim == len(shape) and shape[-1:] == (1,) != array.shape[-1:]:
        array = array[..., :1]
    if array.shape == shape and array.flags.c_contiguous:
        return array
    return np.broadcast_to(array, shape).copy()
