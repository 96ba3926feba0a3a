"""Elements of rounded-f64 as chains (docs/rounding-logs.md, section 3): the differences from repops-f32.

sums         one step per term, the same result in any order; `finish` decides from the element's entry in the log, for
             bf16 on its own grid
functions    below 32 bits: one step that takes the operands; `finish` decides
operations   one operation in binary64, then rounded: no log

"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from repops.opset import BF16, Arithmetic

from ..errors import InvalidInput
from ..program.modes import MAX_BITS
from ..rounding import Entries, Rounding, single
from ..rounding.additions import is_exact
from ..rounding.bounds import gamma
from ..rounding.elementary import decide_elementary
from ..rounding.entries import WRITTEN
from ..rounding.grid import UNIT, Ball, decide
from . import exact_sum, scalar
from .case import NO_ENTRY, Case, Entry, Read
from .chains import Chain
from .points import array_of
from .positions import broadcast
from .sums import Elements, Factors, Products, Rows, arithmetic_of

_INFINITY = 0x7F800000
_WORD = (1 << 64) - 1


class Sums(NamedTuple):
    """Sum and magnitude (`exact_sum`), the number of terms that exist, and the bits of the smallest nonzero term
    without its sign, 0 if there is none. Products have no smallest: it takes no bytes, and is 0 here."""

    total: int
    magnitude: int
    terms: int
    smallest: int

    def encode(self, added: bool) -> bytes:
        """Return `total 96 ‖ magnitude 96 ‖ terms u64be`, and `smallest u32be` if the terms are values."""
        tail = struct.pack(">QI", self.terms, self.smallest)
        return exact_sum.encode(self.total) + exact_sum.encode(self.magnitude) + tail[: 12 if added else 8]

    @classmethod
    def decode(cls, state: bytes, added: bool) -> Sums:
        """Decode a state. Raises InvalidInput for a state that no terms give.

        NOTE: some such states pass, as a sum larger than its magnitude. No honest party has such a state.
        """
        total, magnitude = (exact_sum.decode(part) for part in (state[:96], state[96:192]))
        terms, smallest = struct.unpack(">QI", state[192:] if added else state[192:] + bytes(4))
        negative = magnitude < 0 and magnitude != exact_sum.NAN
        if negative or exact_sum.is_finite(total) != exact_sum.is_finite(magnitude) or smallest >= _INFINITY:
            raise InvalidInput(f"no terms give {state.hex()}")
        return cls(total, magnitude, terms, smallest)

    def plus(self, a: int, b: int, added: bool) -> Sums:
        """Add one more term, the product of two binary32 values; if the terms are values, b is 1."""
        found = exact_sum.product(a, b)
        total = exact_sum.add(self.total, found)
        magnitude = exact_sum.add(self.magnitude, exact_sum.absolute(found))
        size, smallest = a & ~scalar.MINUS_ZERO, self.smallest
        if added and 0 < size < _INFINITY:
            smallest = min(size, smallest or size)
        return Sums(total, magnitude, self.terms + 1 & _WORD, smallest)

    def decided(self, entry: Entry, rounding: Rounding, added: bool) -> int:
        """Return the element as binary32. Raises InvalidInput beyond 2^31 terms."""
        numerator, denominator = gamma(self.terms, rounding.bounds)
        if not exact_sum.is_finite(self.total):
            return scalar.to_bits(exact_sum.to_float(self.total))
        least = scalar.to_float(self.smallest) if self.smallest else float("inf")
        radius = 0 if added and is_exact(self.magnitude, least) else self.magnitude * numerator
        ball = Ball(self.total * denominator, radius, denominator, -UNIT)
        return scalar.to_bits(decide(ball, entry.kind, scalar.to_float(entry.written), rounding.bits))


class _Sum:
    """A chain of terms that are added exactly. `added` is true if they are values, not products."""

    added = False

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return Sums(0, 0, 0, 0).encode(self.added)

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:
        check(entry)
        rounding = Rounding.of(case.mode)
        if case.dtype == BF16:
            rounding = rounding.of_bf16
        return scalar.narrowed(
            Sums.decode(state, self.added).decided(entry, rounding, self.added), case.dtype
        )

    def plus(self, state: bytes, factors: Factors) -> bytes:
        sums = Sums.decode(state, self.added)
        return (sums if factors is None else sums.plus(*factors, self.added)).encode(self.added)


class RoundedContraction(_Sum, Products): ...


class RoundedSum(_Sum, Elements):
    added = True


class RoundedScatterAdd(_Sum, Rows):
    added = True


class _OneStep:
    """A chain of one step. State: 8 bytes, 0 before the step."""

    def length(self, case: Case) -> int:  # noqa: ARG002
        return 1

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return bytes(8)


class Function(_OneStep):
    """An elementary function below 32 bits. State: the operands' bits, `a u32be ‖ b u32be`; a missing b is 0."""

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:  # noqa: ARG002
        return struct.pack(">II", *[*_operands(case, read), 0][:2])

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:
        check(entry)
        operands = [array_of(bits, case.inputs[0].dtype) for bits in struct.unpack(">II", state)]
        kinds, written = np.array([entry.kind], dtype=np.uint8), np.array([scalar.to_float(entry.written)])
        chosen = Entries(kinds, written if entry.kind == WRITTEN else np.zeros(1))
        (value,) = decide_elementary(
            case.name,
            operands[: len(case.inputs)],
            np.zeros(1, dtype=np.int64),
            chosen,
            Rounding.of(case.mode),
        )
        return scalar.to_bits(float(value))


class Operation(_OneStep):
    """add, sub, mul, div, sqrt, and a cast of i64 to f32. State: the element; the sign of a zero is kept."""

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:  # noqa: ARG002
        operands = [array_of(b, v.dtype) for b, v in zip(_operands(case, read), case.inputs, strict=True)]
        value = single(case.name, operands, Rounding.of(case.mode).bits)
        return scalar.to_bits(float(value)).to_bytes(8, "big")

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        return int.from_bytes(state, "big")


_FUNCTION, _OPERATION, _CONTRACTION = Function(), Operation(), RoundedContraction()
_ADDITIONS: dict[str, Chain] = {"sum": RoundedSum(), "scatter_add": RoundedScatterAdd()}


def rounded_rule(case: Case) -> Chain | None:
    """Return the chain, or None if the element is that of repops-f32. Raises UnknownVersion outside rounded-f64."""
    below = Rounding.of(case.mode).bits < MAX_BITS
    match arithmetic_of(case):
        case Arithmetic.SUM:
            return _ADDITIONS.get(case.name, _CONTRACTION)
        case Arithmetic.ELEMENTARY:
            return _FUNCTION if below else None
        case Arithmetic.SINGLE:
            return _OPERATION if below or case.name == "cast" else None
    return None


def check(entry: Entry) -> None:
    """Raise InvalidInput for a kind of entry that does not exist."""
    if not 0 <= entry.kind <= WRITTEN:
        raise InvalidInput(f"an entry of kind {entry.kind}; kinds are 0 to {WRITTEN}")


def _operands(case: Case, read: Read) -> Sequence[int]:
    return [
        read(place, broadcast(case.element, case.shape, operand.shape))
        for place, operand in enumerate(case.inputs)
    ]
