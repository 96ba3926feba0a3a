"""Elements of the mode exact as chains (docs/opset.md, section 2): the differences from repops-f32.

The state of a sum is the exact sum alone (`exact_sum`), 96 bytes, and `finish` rounds it once, to f32 or bf16.
"""

from __future__ import annotations

from repops.opset import BF16, Arithmetic

from ..params import MAX_BITS
from ..program.mode import BF16_BITS
from ..rounding.grid import UNIT, Toward, to_grid
from . import exact_sum, scalar
from .case import NO_ENTRY, Case, Entry
from .chains import Chain
from .sums import Elements, Factors, Products, Rows, arithmetic_of


class _Exact:
    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return exact_sum.encode(0)

    def plus(self, state: bytes, factors: Factors) -> bytes:
        total = exact_sum.decode(state)
        return (
            state if factors is None else exact_sum.encode(exact_sum.add(total, exact_sum.product(*factors)))
        )

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        """Return the element's bits. There are no logs: the entry is ignored. Raises InvalidInput for no state."""
        total = exact_sum.decode(state)
        if exact_sum.is_finite(total):
            bits = BF16_BITS if case.dtype == BF16 else MAX_BITS
            value = to_grid(total, 1, -UNIT, bits, Toward.NEAREST)
        else:
            value = exact_sum.to_float(total)
        return scalar.narrowed(scalar.to_bits(value), case.dtype)


class ExactContraction(_Exact, Products): ...


class ExactSum(_Exact, Elements): ...


class ExactScatterAdd(_Exact, Rows): ...


_CONTRACTION = ExactContraction()
_ADDITIONS: dict[str, Chain] = {"sum": ExactSum(), "scatter_add": ExactScatterAdd()}


def exact_rule(case: Case) -> Chain | None:
    """Return the chain, or None if the element is that of repops-f32."""
    return _ADDITIONS.get(case.name, _CONTRACTION) if arithmetic_of(case) is Arithmetic.SUM else None
