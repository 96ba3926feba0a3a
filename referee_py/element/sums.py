"""Sums that no order changes, as chains: what the modes exact and rounded-f64 have in common.

A step reads the same operands as in repops-f32, but `sum` of f32 takes its elements in row-major order. The arithmetic
defines the state, `plus`, and `finish`.
"""

from __future__ import annotations

from abc import abstractmethod

from repops.opset import Arithmetic, lookup

from .case import Case, Read
from .chains import Contraction, ScatterAdd, Total, factors
from .positions import reduced

ONE = 0x3F800000
Factors = tuple[int, int] | None
"""Two binary32 values whose product is the term of a step, the second of them 1 if the term is a value; None if the
term does not exist."""


class _Sum:
    @abstractmethod
    def plus(self, state: bytes, factors: Factors) -> bytes:
        """Return the state with one more term. Raises InvalidInput for bytes that are no state."""


class Products(_Sum, Contraction):
    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        return self.plus(state, factors(case, t, read))


class Elements(_Sum, Total):
    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        return self.plus(
            state, (read(0, reduced(case.element, t, case.inputs[0].shape, case.attrs["dims"])), ONE)
        )


class Rows(_Sum, ScatterAdd):
    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        value = ScatterAdd.value(case, t, read)
        return self.plus(state, None if value is None else (value, ONE))


def arithmetic_of(case: Case) -> Arithmetic:
    """Return what is rounded in an element."""
    return lookup(case.name).arithmetic_of(case.inputs[0].dtype if case.inputs else None, case.attrs)
