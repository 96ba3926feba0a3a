"""The interface of devices with a memory of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .commit.tensor import Array


class Device(Protocol):
    """Memory other than the host's, and the operators that compute there: `referee_py.compiled.Cuda`."""

    def place(self, array: Array) -> Any:
        """Return a copy of an array there: a tensor."""
        ...

    def read(self, buffer: Any) -> Array:
        """Return a copy of a tensor in host memory."""
        ...

    def hash(self, buffer: Any) -> bytes:
        """Return the TENSOR hash of a tensor."""
        ...

    def execute(self, name: str, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        """Apply an operator to tensors."""
        ...
