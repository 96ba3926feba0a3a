"""The mode byte: the arithmetic of a program. It goes on-chain with a job.

    1                                               repops-f32: every order is fixed
    2                                               exact: sums are real sums, rounded once
    0x80 | form << 4 | bounds << 3 | (bits - 26)    rounded-f64: the grid, the bounds, and the form of logs

bits is from 26 to 32; every other byte is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from ..errors import InvalidInput, UnknownVersion
from ..params import MAX_BITS, MIN_BITS

MODE_REPOPS_F32 = 1
MODE_EXACT = 2

BF16_BITS = 16
"""The grid of bf16, to which results of that dtype are rounded in every form of rounded-f64."""

_ROUNDED, _FIXED = 0x80, 0xE0  # the bits below _FIXED are the parameters


class Bounds(IntEnum):
    """The canonical radius: the distance that an evaluation in another order may have from the exact value."""

    PROVEN = 0
    PROBABLE = 1


class Form(IntEnum):
    """The form of a log: entries by position, or an entry for every element."""

    SPARSE = 0
    DENSE = 1


@dataclass(frozen=True, slots=True)
class Rounding:
    """Parameters of rounded-f64. Raises InvalidInput unless bits is 26 to 32, or 16 for results of bf16."""

    bits: int = MAX_BITS
    bounds: Bounds = Bounds.PROVEN
    form: Form = Form.SPARSE

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def of_bf16(self) -> Rounding:
        """The same for results of bf16."""
        return replace(self, bits=BF16_BITS)

    @property
    def mode(self) -> int:
        """The mode byte; there is none for the grid of bf16 alone."""
        assert self.bits >= MIN_BITS
        return _ROUNDED | self.form << 4 | self.bounds << 3 | (self.bits - MIN_BITS)

    @classmethod
    def of(cls, mode: int) -> Rounding:
        """Return the parameters of a byte. Raises UnknownVersion for a byte that no parameters give."""
        if not is_rounded(mode):
            raise UnknownVersion(
                f"arithmetic mode {mode:#04x} is not rounded-f64; use 0x80 to 0x86, 0x88 to 0x8e, 0x90 to 0x96 "
                "or 0x98 to 0x9e"
            )
        return cls(MIN_BITS + (mode & 7), Bounds(mode >> 3 & 1), Form(mode >> 4 & 1))


def is_rounded(mode: int) -> bool:
    """Return whether this byte means rounded-f64."""
    return mode & ~0xFF == 0 and mode & _FIXED == _ROUNDED and mode & 7 <= MAX_BITS - MIN_BITS


def check_mode(mode: int) -> None:
    """Raise UnknownVersion unless the byte is one of the modes."""
    if mode not in (MODE_REPOPS_F32, MODE_EXACT) and not is_rounded(mode):
        raise UnknownVersion(
            f"arithmetic mode {mode}; this build implements {MODE_REPOPS_F32} (repops-f32), {MODE_EXACT} (exact) "
            "and 0x80 to 0x9e (rounded-f64)"
        )


def check_bits(b: int) -> None:
    """Raises InvalidInput unless b is one of the rounding amounts of the paper, or that of bf16."""
    if isinstance(b, bool) or not isinstance(b, int) or not (MIN_BITS <= b <= MAX_BITS or b == BF16_BITS):
        raise InvalidInput(
            f"rounding to b = {b!r} bits; use an integer from {MIN_BITS} to {MAX_BITS}, or {BF16_BITS} for bf16"
        )
