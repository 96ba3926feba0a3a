"""Flags that choose a program's arithmetic, and its description in words."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from referee_py.errors import InvalidInput
from referee_py.params import MAX_BITS, MIN_BITS

from .flags import flag, with_flags


class Arithmetic(StrEnum):
    """The arithmetic modes."""

    REPOPS_F32 = "repops-f32"
    EXACT = "exact"
    ROUNDED_F64 = "rounded-f64"


class BoundsName(StrEnum):
    PROVEN = "proven"
    PROBABLE = "probable"


class FormName(StrEnum):
    SPARSE = "sparse"
    DENSE = "dense"


def _without_logs() -> dict[Arithmetic, int]:
    """Return the bytes of the modes without parameters."""
    from referee_py.program.mode import MODE_EXACT, MODE_REPOPS_F32

    return {Arithmetic.REPOPS_F32: MODE_REPOPS_F32, Arithmetic.EXACT: MODE_EXACT}


_option = functools.partial(flag, panel="Arithmetic")

_FLAGS: dict[str, Any] = {
    "mode": _option(
        Arithmetic,
        "--mode",
        "repops-f32: a fixed order; exact: real sums, rounded once; rounded-f64: binary64 in any order, with rounding "
        "logs.",
    ),
    "bits": _option(
        int, "--bits", "In rounded-f64: bits of a result, 26 to 32; 32.", min=MIN_BITS, max=MAX_BITS
    ),
    "bounds": _option(BoundsName, "--bounds", "In rounded-f64: kind of error bounds: proven, or probable."),
    "log": _option(
        FormName,
        "--log",
        "In rounded-f64: log entries by position (sparse), or for every element (dense).",
    ),
}


@dataclass(frozen=True, slots=True)
class ModeFlags:
    """The flags of a command that choose the arithmetic; None stands for a flag that is not given."""

    mode: Arithmetic | None = None
    bits: int | None = None
    bounds: BoundsName | None = None
    log: FormName | None = None

    def over(self, default: int) -> int:
        """Return the mode byte for the flags; those that are not given are taken from ``default``.

        Raises InvalidInput for flags of rounded-f64 in another mode.
        """
        from referee_py.program.mode import Bounds, Form, Rounding, is_rounded

        rounded = is_rounded(default) if self.mode is None else self.mode is Arithmetic.ROUNDED_F64
        if not rounded:
            for name, value in (("bits", self.bits), ("bounds", self.bounds), ("log", self.log)):
                if value is not None:
                    raise InvalidInput(f"--{name} is for rounded-f64; give --mode rounded-f64 too")
            return default if self.mode is None else _without_logs()[self.mode]
        given = Rounding.of(default) if is_rounded(default) else Rounding()
        return Rounding(
            given.bits if self.bits is None else self.bits,
            given.bounds if self.bounds is None else Bounds[self.bounds.name],
            given.form if self.log is None else Form[self.log.name],
        ).mode


with_mode = with_flags("mode", _FLAGS, ModeFlags)
"""Give a command the flags of the arithmetic; it gets them as ``mode``, of type `ModeFlags`."""


def mode_words(mode: int) -> str:
    """Describe a mode byte for people."""
    from referee_py.program.mode import Rounding, is_rounded

    if not is_rounded(mode):
        return next(name for name, byte in _without_logs().items() if byte == mode)
    rounding = Rounding.of(mode)
    bounds, form = rounding.bounds.name.lower(), rounding.form.name.lower()
    return f"{Arithmetic.ROUNDED_F64}, {rounding.bits} bits, {bounds} bounds, {form} logs"
