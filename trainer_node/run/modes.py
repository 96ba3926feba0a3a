"""Computation of each arithmetic mode by a node: with which kernels, and beside them with which library's sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import repops
from repops.host import exact, tensor_core
from repops.opset import BF16, F32, OPS, Arithmetic, Dtype

from referee_py.execute import Backend
from referee_py.program.modes import USUAL, Exact, Parts, RepopsF32, RoundedF64, Rounding, Tc16
from referee_py.rounding.backend import Evaluator, OnForged, Rounded
from referee_py.rounding.log_source import LogSource
from referee_py.rounding.thresholds import Thresholds, fixed

from .devices import evaluator_of, kernels_of


@dataclass(frozen=True, slots=True)
class Means:
    """Means of a node to compute with. ``kernels`` are those of the mode, on the node's device; the others are for a
    mode with rounding logs."""

    kernels: Callable[[int], Backend]
    evaluator: Callable[[], Evaluator]
    on_forged: OnForged | None = None
    thresholds: Thresholds = fixed


Begin: TypeAlias = Callable[[int, Means, LogSource | None], Backend]


def _by_kernels(mode: int, means: Means, logs: LogSource | None) -> Backend:  # noqa: ARG001
    return means.kernels(mode)


def _with_logs(mode: int, means: Means, logs: LogSource | None) -> Backend:
    assert logs is not None
    return Rounded(Rounding.of(mode), logs, means.evaluator(), means.on_forged, means.thresholds)


@dataclass(frozen=True, slots=True)
class HardSums:
    """Sums that data can make slow, and what they take at most."""

    dtypes: tuple[Dtype, ...]
    """Dtypes of their operands."""
    step_s: float
    """Seconds of one core, for each step of the chain as which the sum is judged."""
    on_devices: frozenset[str]
    """The operators whose sums data make slow on a GPU, too; the processor's seconds bound it."""


@dataclass(frozen=True, slots=True)
class Computation:
    """Computation of a mode."""

    begin: Begin
    """Makes the backend of a run."""
    sums: repops.SumMode = repops.SumMode.REPOPS_F32
    """The mode of its kernels."""
    libraries: tuple[str, ...] = ()
    """The distributions whose sums it uses beside our kernels."""
    hard_sums: HardSums | None = None
    """The sums that data can make slow, in the modes in which they can (`data_slows_sums`)."""


OPS_THAT_ADD = frozenset(op.name for op in OPS if op.arithmetic is Arithmetic.SUM)
CONVOLUTIONS = frozenset(name for name in OPS_THAT_ADD if name.startswith("conv2d"))

_COMPUTATIONS = Parts(
    {
        RepopsF32: Computation(_by_kernels),
        Exact: Computation(
            _by_kernels,
            repops.SumMode.EXACT,
            hard_sums=HardSums((F32, BF16), exact.NANOSECONDS_A_TERM * 1e-9, OPS_THAT_ADD),
        ),
        RoundedF64: Computation(_with_logs, libraries=("torch",)),
        Tc16: Computation(
            _by_kernels,
            repops.SumMode.TC16,
            # NOTE: a term is two steps of its chain. On a GPU what is not a number in a convolution is computed again.
            hard_sums=HardSums((BF16,), tensor_core.NANOSECONDS_A_TERM * 1e-9 / 2, CONVOLUTIONS),
        ),
    }
)


def backend_of(device: str, mode: int = USUAL.byte) -> repops.Backend:
    """Return a mode's kernels on a device, "cpu" or "cuda". In a mode with rounding logs they compute what has no log.

    Raises ConfigError if this machine has no such device, UnknownVersion for an unknown mode.
    """
    return kernels_of(device, _COMPUTATIONS.of(mode).sums)


def run_backend(mode: int, means: Means, logs: LogSource | None = None) -> Backend:
    """Return the backend of a run. ``logs`` are the run's rounding logs, which a mode with logs needs; any other has
    none. Raises UnknownVersion for an unknown mode, and what ``means`` raise."""
    return _COMPUTATIONS.of(mode).begin(mode, means, logs)


def backend_here(
    mode: int,
    device: str,
    evaluator: str,
    logs: LogSource | None = None,
    thresholds: Thresholds = fixed,
) -> Backend:
    """Return the backend of a run on a device of this machine; ``evaluator`` is a name. Raises as `evaluator_of`."""
    means = Means(
        lambda mode: backend_of(device, mode),
        lambda: evaluator_of(evaluator, device),
        thresholds=thresholds,
    )
    return run_backend(mode, means, logs)


def hard_sums_of(mode: int) -> HardSums | None:
    """Return the sums that data can make slow in a mode. Raises UnknownVersion for an unknown mode."""
    return _COMPUTATIONS.of(mode).hard_sums


def libraries_of(mode: int) -> tuple[str, ...]:
    """Return the distributions whose sums a mode uses beside our kernels. Raises UnknownVersion for an unknown mode."""
    return _COMPUTATIONS.of(mode).libraries
