"""Distance of two orders of one sum of products before rounding: the reason why runs hardly part at 26 bits."""

from __future__ import annotations

import numpy as np

from referee_py.rounding.primitives import F64, quantum, rnd

from .report import Table

LENGTHS = (64, 256, 1024, 4096)
ROWS = 512


def measure() -> Table:
    """Measure products of random N(0, 1) matrices, rounded to b bits, with their inner dimension in two random orders.

    If two sums are d apart and a quantum is q wide, a midpoint lies between them with probability d / q.
    """
    table = Table("rounding-sums", ["terms", "b", "sums that differ", "rounded apart, of 10^12"])
    rng = np.random.default_rng(0)
    for terms in LENGTHS:
        one, other = rng.standard_normal((ROWS, terms)), rng.standard_normal((terms, ROWS))
        orders = [rng.permutation(terms) for _ in range(2)]
        for b in (32, 26):
            a, c = (_product(rnd(one, b), rnd(other, b), order) for order in orders)
            apart = np.abs(a - c) / quantum(a, b)
            chance = apart.mean() * 1e12
            table.add(
                str(terms),
                str(b),
                f"{np.mean(a != c):.1%}",
                f"{chance:,.0f}" if chance > 10 else f"{chance:.2g}",
            )
    return table


def _product(one: F64, other: F64, order: np.ndarray) -> F64:
    product: F64 = one[:, order] @ other[order]
    return product
