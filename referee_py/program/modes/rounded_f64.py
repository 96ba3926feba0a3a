"""The mode rounded-f64: sums of binary64 in any order, and logs that say how they were rounded (docs/rounding-logs.md).

    byte = 0x80 | form << 4 | bounds << 3 | (bits - 26)     the grid, the bounds, and the form of logs

bits is from 26 to 32; the other bytes from 0x80 on are no mode.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from ...errors import InvalidInput, UnknownVersion
from ...params import MAX_BITS, MIN_BITS
from .arithmetic_mode import ArithmeticMode

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
        """Return the parameters of a byte, for what computes in this mode; all others ask the mode (`mode_of`).

        Raises UnknownVersion for a byte that no parameters give.
        """
        if mode & ~0xFF or mode & _FIXED != _ROUNDED or mode & 7 > MAX_BITS - MIN_BITS:
            raise UnknownVersion(
                f"arithmetic mode {mode:#04x} is not rounded-f64; use 0x80 to 0x86, 0x88 to 0x8e, 0x90 to 0x96 "
                "or 0x98 to 0x9e"
            )
        return cls(MIN_BITS + (mode & 7), Bounds(mode >> 3 & 1), Form(mode >> 4 & 1))


class RoundedF64(ArithmeticMode):
    """The mode with these parameters."""

    name = "rounded-f64"
    parameters = ("bits", "bounds", "form")
    rule_contracts = (
        *("RoundedElementwise", "Exponentials", "Logarithms", "Trigonometry", "RoundedReductions"),
        *("RoundedContractions", "Pooling", "RoundedRows", "Layout", "Sources"),
    )
    follows_logs = True
    in_binary64 = True
    runs_as_judged = False

    def __init__(self, rounding: Rounding) -> None:
        self.rounding = rounding

    @property
    def byte(self) -> int:
        return self.rounding.mode

    @property
    def words(self) -> str:
        bounds, form = self.rounding.bounds.name.lower(), self.rounding.form.name.lower()
        return f"{self.name}, {self.rounding.bits} bits, {bounds} bounds, {form} logs"

    @property
    def bytes_in_words(self) -> str:
        return "0x80 to 0x9e"

    @property
    def honest_may_lose(self) -> bool:
        """With probable bounds, which hold for most data and not for all."""
        return self.rounding.bounds is not Bounds.PROVEN

    def variants(self) -> Iterable[RoundedF64]:
        choices = itertools.product(range(MIN_BITS, MAX_BITS + 1), Bounds, Form)
        return (RoundedF64(Rounding(*choice)) for choice in choices)

    def changed(self, **given: Any) -> RoundedF64:
        return RoundedF64(replace(self.rounding, **given))


def check_bits(b: int) -> None:
    """Raises InvalidInput unless b is one of the rounding amounts of the paper, or that of bf16."""
    if isinstance(b, bool) or not isinstance(b, int) or not (MIN_BITS <= b <= MAX_BITS or b == BF16_BITS):
        raise InvalidInput(
            f"rounding to b = {b!r} bits; use an integer from {MIN_BITS} to {MAX_BITS}, or {BF16_BITS} for bf16"
        )
