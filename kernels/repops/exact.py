"""The mode `exact` on the CPU (docs/opset.md, section 2): sums and contractions are real sums, rounded once.

The kernels are csrc/exact_*.c. Fused kernels take the mode as an option (fusion.Fused).
"""

from __future__ import annotations

from collections.abc import Sequence

from . import cpu, strided
from .cpu import Bound
from .opset import Attrs, Dtype, Shape, Spec
from .tensors import Array


def execute(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Apply one operator, as `cpu.execute` does. Raise OpError or MemoryError."""
    return cpu.execute(name, inputs, attrs, threads, isa, out, exact=True)


def bind(name: str, inputs: Sequence[Spec], attrs: Attrs, addresses: Sequence[int]) -> Bound:
    """Bind an operator to fixed memory, as `cpu.bind` does. Raise OpError. SAFETY: nothing checks the addresses."""
    return cpu.bind(name, inputs, attrs, addresses, exact=True)


def product(
    batch: Shape,
    m: int,
    k: int,
    n: int,
    operands: Sequence[strided.Matrices],
    dtype: Dtype,
    addresses: Sequence[int],
) -> Bound:
    """Bind a product of views, as `strided.product` does. Raise ShapeError. SAFETY: as there."""
    return strided.product(batch, m, k, n, operands, dtype, addresses, exact=True)
