"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import reference
from .opset import Attrs
from .tensors import Array


@dataclass(frozen=True)
class Backend:
    """An executor of operators. All backends give the same bits, except for the sign and payload of NaNs."""

    name: str
    execute: Callable[[str, Sequence[Array], Attrs], list[Array]]


def backend(name: str) -> Backend:
    """Return the executor "cpu" (C kernels), "cuda" (GPU tensors) or "reference" (slow Python). Raise ValueError."""
    if name == "reference":
        return Backend(name, reference.execute)
    if name == "cpu":
        from . import cpu  # loads the shared library, which the reference does not need

        return Backend(name, cpu.execute)
    if name == "cuda":
        from . import cuda

        cuda.require()
        return Backend(name, cuda.execute)
    raise ValueError(f"no backend called {name!r}")
