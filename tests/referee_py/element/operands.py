"""Calls of operators, with their elements as cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from repops.opset import Attrs, lookup
from repops.tensors import canonical

from referee_py.element import Case, Read
from referee_py.program import TensorType


def cases_of(name: str, inputs: Sequence[np.ndarray], attrs: Attrs, chosen: Any) -> list[Case]:
    """Return a case for each chosen place, from 0 to 1, of each output."""
    types = tuple(TensorType.of(array) for array in inputs)
    outputs = tuple(
        TensorType(*spec) for spec in lookup(name).infer([(t.dtype, t.shape) for t in types], attrs)
    )
    given = dict(lookup(name).normalize(attrs))
    return [
        Case(name, types, outputs, given, number, min(int(place * output.count), output.count - 1))
        for number, output in enumerate(outputs)
        if output.count
        for place in chosen
    ]


def reader(inputs: Sequence[np.ndarray]) -> Read:
    """Return a reader of the operands' bits in their committed form."""
    flat = [canonical(np.ascontiguousarray(array)).reshape(-1) for array in inputs]

    def read(place: int, element: int) -> int:
        assert 0 <= element < flat[place].size, "no element is read that does not exist"
        return int.from_bytes(flat[place][element].tobytes(), "little")

    return read


def bits_of(array: np.ndarray, element: int) -> int:
    return int.from_bytes(canonical(np.ascontiguousarray(array)).reshape(-1)[element].tobytes(), "little")
