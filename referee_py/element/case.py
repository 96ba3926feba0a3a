"""An element of an operator, to be computed or judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from repops.opset import Dtype

from ..errors import InvalidInput
from ..program import TensorType
from ..program.modes import USUAL
from ..rounding import NOT_LOGGED

Read = Callable[[int, int], int]
"""Returns the bits of an element of an input, given (input, row-major position); every NaN is 0x7FC00000, of bf16
0x7FC0."""


@dataclass(frozen=True)
class Entry:
    """A rounding log's entry for an element: a kind (`rounding.entries`), and if that is WRITTEN a binary32."""

    kind: int
    written: int = 0


NO_ENTRY = Entry(NOT_LOGGED)


@dataclass(frozen=True)
class Case:
    """Element `element`, row-major, of output `output` of an operator on inputs of these types, in one mode."""

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    attrs: dict[str, Any]
    output: int
    element: int
    mode: int = USUAL.byte

    def __post_init__(self) -> None:
        """Raise InvalidInput for an output or element that does not exist."""
        if not 0 <= self.output < len(self.outputs):
            raise InvalidInput(f"output {self.output} of {self.name}, which has {len(self.outputs)}")
        count = math.prod(self.outputs[self.output].shape)
        if not 0 <= self.element < count:
            raise InvalidInput(f"element {self.element} of a tensor of {count}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output."""
        return self.outputs[self.output].shape

    @property
    def dtype(self) -> Dtype:
        """Dtype of the output."""
        return self.outputs[self.output].dtype
