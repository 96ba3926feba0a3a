"""The mode byte of a program whose arithmetic is rounded-f64: the grid, the bounds, and the form of logs.

    0x80 | form << 4 | bounds << 3 | (bits - 26)          bits 26 to 32; every other byte with the top bit is refused

The byte is `Program.mode` and goes on-chain with a job. repops-f32 is mode 1 and no such byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..errors import InvalidInput, UnknownVersion

MIN_BITS, MAX_BITS = 26, 32

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
    """Parameters of rounded-f64. Raises InvalidInput for bits outside 26 to 32."""

    bits: int = MAX_BITS
    bounds: Bounds = Bounds.PROVEN
    form: Form = Form.SPARSE

    def __post_init__(self) -> None:
        check_bits(self.bits)

    @property
    def mode(self) -> int:
        """The mode byte."""
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


def check_bits(b: int) -> None:
    """Raises InvalidInput unless b is one of the rounding amounts of the paper."""
    if isinstance(b, bool) or not isinstance(b, int) or not MIN_BITS <= b <= MAX_BITS:
        raise InvalidInput(f"rounding to b = {b!r} bits; use an integer from {MIN_BITS} to {MAX_BITS}")
