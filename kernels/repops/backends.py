"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from . import reference
from .opset import Attrs
from .sums import SumMode
from .tensors import Array


@dataclass(frozen=True)
class Backend:
    """An executor of operators in one mode. All backends of a mode give the same bits, except for the sign and payload
    of NaNs."""

    name: str
    execute: Callable[[str, Sequence[Array], Attrs], list[Array]]
    sums: SumMode = SumMode.REPOPS_F32
    """The mode."""


def backend(name: str, sums: SumMode = SumMode.REPOPS_F32) -> Backend:
    """Return the executor "cpu" (C kernels), "cuda" (GPU tensors) or "reference" (slow Python) of a mode.

    Raise ValueError for another name and for a mode that the executor lacks, or CudaUnavailable.
    """
    return Backend(name, _executor(name, sums), sums)


_REFERENCES = {
    SumMode.REPOPS_F32: reference.execute,
    SumMode.EXACT: reference.execute_exact,
    SumMode.TC16: reference.execute_tc16,
}


def _executor(name: str, sums: SumMode) -> Callable[..., list[Array]]:
    if name == "reference":
        return _REFERENCES[sums]
    if name == "cpu":
        # NOTE: this loads the shared library, which the reference does not need.
        from .host import cpu

        return cpu.execute if sums is SumMode.REPOPS_F32 else partial(cpu.execute, sums=sums)
    if name == "cuda":
        from . import cuda

        cuda.require()
        return cuda.execute if sums is SumMode.REPOPS_F32 else partial(cuda.execute, sums=sums)
    raise ValueError(f"no backend called {name!r}")
