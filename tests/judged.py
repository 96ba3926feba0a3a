"""The operators, and calls of them, for which the contracts have rules: all without bf16."""

from __future__ import annotations

from typing import Any

from repops import calls
from repops.opset import BF16
from repops.opset import OPS as ALL
from repops.tensors import NUMPY_DTYPE

OPS = tuple(op for op in ALL if op.name != "cast_stochastic")


def random_call(name: str, seed: object, scale: calls.Scale = "usual") -> calls.Call:
    """Return the first such call from that seed on, as `repops.calls.random_call`."""
    number = 0
    while True:
        inputs, attrs = calls.random_call(name, f"{seed}/{number}" if number else seed, scale)
        if not _has_bf16(inputs, attrs):
            return inputs, attrs
        number += 1


def _has_bf16(inputs: list[Any], attrs: dict[str, Any]) -> bool:
    return attrs.get("dtype") == BF16 or any(array.dtype == NUMPY_DTYPE[BF16] for array in inputs)
