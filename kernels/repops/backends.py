"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import reference
from .opset import Attrs
from .tensors import Array


@dataclass(frozen=True)
class Backend:
    """Something that applies operators. All backends give the same bits, up to the payload of NaNs."""

    name: str
    execute: Callable[[str, Sequence[Array], Attrs], list[Array]]


def backend(name: str) -> Backend:
    """The executor called "cpu" (C kernels), "cuda" (torch tensors on a GPU) or "reference" (readable Python, slow)."""
    if name == "reference":
        return Backend(name, reference.execute)
    if name == "cpu":
        from . import cpu  # loads the shared library, which a user of the reference need not have

        return Backend(name, cpu.execute)
    if name == "cuda":
        from . import cuda

        cuda.require()
        return Backend(name, cuda.execute)
    raise ValueError(f"no backend called {name!r}")
