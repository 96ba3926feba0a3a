"""The mode `exact` on the CPU (docs/opset.md, section 2): sums and contractions are real sums, rounded once.

The kernels are csrc/exact/exact_*.c. Fused kernels take the mode as an option (fusion.Fused).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..opset import Attrs, Shape, Spec
from ..sums import SumMode
from ..tensors import Array
from . import cpu, strided
from .cpu import Bound
from .library import LIBRARY

NANOSECONDS_A_TERM = 16.0
"""Highest cost of a term of a contraction on one core, where the operands are chosen so that every element is summed
without rounding: 4 to 6 measured on a quiet core, 10 on one that is shared (benchmarks/exact.py), some 130 times the
usual cost. Sums of fewer than 64 terms cost up to a microsecond per element besides. A limit of effort must allow for
it."""


class Decided(NamedTuple):
    """Elements of contractions that a binary64 sum did not decide, by what did, since the process began."""

    by_compensated_sums: int
    by_sums_without_rounding: int


def decided() -> Decided:
    found = np.zeros(2, np.int64)
    LIBRARY.repops_exact_decided(found.ctypes.data_as(ctypes.c_void_p))
    return Decided(*found.tolist())


def execute(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Apply one operator, as `cpu.execute` does. Raise OpError or MemoryError."""
    return cpu.execute(name, inputs, attrs, threads, isa, out, SumMode.EXACT)


def bind(name: str, inputs: Sequence[Spec], attrs: Attrs, addresses: Sequence[int]) -> Bound:
    """Bind an operator to fixed memory, as `cpu.bind` does. Raise OpError. SAFETY: nothing checks the addresses."""
    return cpu.bind(name, inputs, attrs, addresses, SumMode.EXACT)


def product(
    batch: Shape,
    m: int,
    k: int,
    n: int,
    operands: Sequence[strided.Matrices],
    addresses: Sequence[int],
) -> Bound:
    """Bind a product of views, as `strided.product` does. Raise ShapeError or DtypeError. SAFETY: as there."""
    return strided.product(batch, m, k, n, operands, addresses, SumMode.EXACT)
