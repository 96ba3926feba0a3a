"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from . import reference
from .opset import Attrs
from .tensors import Array


@dataclass(frozen=True)
class Backend:
    """An executor of operators in one mode. All backends of a mode give the same bits, except for the sign and payload
    of NaNs."""

    name: str
    execute: Callable[[str, Sequence[Array], Attrs], list[Array]]
    exact: bool = False
    """True if the mode is exact; else it is repops-f32."""


def backend(name: str, exact: bool = False) -> Backend:
    """Return the executor "cpu" (C kernels), "cuda" (GPU tensors) or "reference" (slow Python), in the mode repops-f32
    or exact. Raise ValueError for another name, or CudaUnavailable."""
    return Backend(name, _executor(name, exact), exact)


def _executor(name: str, exact: bool) -> Callable[..., list[Array]]:
    if name == "reference":
        return reference.execute_exact if exact else reference.execute
    if name == "cpu":
        # NOTE: these load the shared library, which the reference does not need.
        from .host import cpu
        from .host import exact as sums

        return sums.execute if exact else cpu.execute
    if name == "cuda":
        from . import cuda

        cuda.require()
        return partial(cuda.execute, exact=True) if exact else cuda.execute
    raise ValueError(f"no backend called {name!r}")
