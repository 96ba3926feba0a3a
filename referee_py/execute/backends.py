"""Backends: what computes a program's nodes, the arithmetic mode in which it does, and where its values are.

A backend is `repops.backend`'s, whose sums follow from the program, or one that writes or follows rounding logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from repops.sums import SumMode

from ..commit import NO_LOG
from ..commit.tensor import Array
from ..compiled import Cpu, Cuda, Machine
from ..compiled.rounded import RoundedCpu
from ..device import Device
from ..program.modes import EXACT, REPOPS_F32, TC16, ArithmeticMode
from ..rounding.backend import Rounded


class Operators(Protocol):
    """An executor of operators in a mode without logs: see `repops.backend`."""

    @property
    def name(self) -> str: ...

    @property
    def sums(self) -> SumMode: ...

    @property
    def execute(self) -> Callable[[str, Sequence[Array], dict[str, Any]], list[Array]]: ...


Backend = Operators | Rounded
"""Computes a program's nodes, and determines the arithmetic mode."""


class NodeExecutor(Protocol):
    """Executes the nodes of a step in order, and gives what is recorded of them beside their values."""

    def begin(self, step: int) -> None: ...

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]: ...

    def log(self, node: int) -> bytes:
        """Return the log hash of an executed node."""
        ...

    def end(self) -> None:
        """Finish the step, after all nodes."""
        ...


class _WithoutLogs:
    """A mode without logs, which records nothing beside the values."""

    def __init__(self, execute: Callable[..., list[Any]]) -> None:
        self._execute = execute

    def begin(self, step: int) -> None: ...

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:  # noqa: ARG002
        return self._execute(name, inputs, attrs)

    def log(self, node: int) -> bytes:  # noqa: ARG002
        return NO_LOG

    def end(self) -> None: ...


_OF_SUMS: dict[SumMode, ArithmeticMode] = {
    SumMode.REPOPS_F32: REPOPS_F32,
    SumMode.EXACT: EXACT,
    SumMode.TC16: TC16,
}


def mode_byte(backend: Backend) -> int:
    """Return the mode byte of a backend's arithmetic."""
    if isinstance(backend, Rounded):
        return backend.rounding.mode
    return _OF_SUMS[backend.sums].byte


def node_executor(backend: Backend, device: Device | None) -> NodeExecutor:
    """Return what executes the nodes of a backend's steps. In a mode without logs a ``device`` replaces the backend."""
    if isinstance(backend, Rounded):
        return backend
    return _WithoutLogs(device.execute if device else backend.execute)


def device_of(backend: Backend) -> Device | None:
    """Return the device that holds a backend's values; None for the host. Raises CudaUnavailable."""
    if isinstance(backend, Rounded):
        return backend.device
    return Cuda(sums=backend.sums) if backend.name == "cuda" else None


def machine_for(backend: Backend) -> Machine | None:
    """Return the machine that runs a backend's compiled steps, or None if its steps run node by node."""
    if isinstance(backend, Rounded):
        return RoundedCpu(backend) if backend.device is None else None
    if backend.name == "cuda":
        return Cuda(sums=backend.sums)
    return Cpu(backend.sums) if backend.name == "cpu" else None
