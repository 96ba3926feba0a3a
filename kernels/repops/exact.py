"""The mode `exact` on the CPU (docs/opset.md, section 2): sums and contractions are real sums, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import cpu, reference
from .opset import Arithmetic, Attrs, lookup
from .tensors import Array, specs_of


def execute(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    threads: int | None = None,
    isa: int | None = None,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Apply one operator, as `repops.cpu.execute` does; it computes what is the same in both modes."""
    specs = specs_of(name, inputs)
    if lookup(name).arithmetic_of(specs[0][0] if specs else None, attrs) is not Arithmetic.SUM:
        return cpu.execute(name, inputs, attrs, threads, isa, out)
    results = reference.execute_exact(name, inputs, attrs)
    if out is None:
        return results
    for place, result in zip(out, results, strict=True):
        np.copyto(place, result)
    return list(out)
