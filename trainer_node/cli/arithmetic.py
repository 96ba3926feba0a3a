"""Flags that choose a program's arithmetic, and its description in words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from referee_py.errors import InvalidInput
from referee_py.program.mode import MAX_BITS, MIN_BITS, Bounds, Form, Rounding, is_rounded
from referee_py.program.terms import MODE_REPOPS_F32

_PANEL = "Arithmetic"


class Arithmetic(StrEnum):
    """The arithmetic modes."""

    REPOPS_F32 = "repops-f32"
    ROUNDED_F64 = "rounded-f64"


class BoundsName(StrEnum):
    PROVEN = "proven"
    PROBABLE = "probable"


class FormName(StrEnum):
    SPARSE = "sparse"
    DENSE = "dense"


def _option(annotation: Any, flag: str, text: str, **limits: Any) -> Any:
    return Annotated[
        annotation | None,
        typer.Option(flag, help=text, rich_help_panel=_PANEL, show_default=False, **limits),
    ]


ModeOption = _option(
    Arithmetic, "--mode", "repops-f32, or rounded-f64: binary64 in any order, with rounding logs."
)
BitsOption = _option(
    int, "--bits", "In rounded-f64: bits of a result, 26 to 32; 32.", min=MIN_BITS, max=MAX_BITS
)
BoundsOption = _option(BoundsName, "--bounds", "In rounded-f64: kind of error bounds: proven, or probable.")
LogOption = _option(
    FormName, "--log", "In rounded-f64: log entries by position (sparse), or for every element (dense)."
)


def mode_of(
    mode: Arithmetic | None,
    bits: int | None,
    bounds: BoundsName | None,
    log: FormName | None,
    default: int = MODE_REPOPS_F32,
) -> int:
    """Return the mode byte for the flags; flags that are None are taken from ``default``.

    Raises InvalidInput for flags of rounded-f64 in another mode.
    """
    rounded = is_rounded(default) if mode is None else mode is Arithmetic.ROUNDED_F64
    if not rounded:
        for flag, value in (("bits", bits), ("bounds", bounds), ("log", log)):
            if value is not None:
                raise InvalidInput(f"--{flag} is for rounded-f64; give --mode rounded-f64 too")
        return MODE_REPOPS_F32
    given = Rounding.of(default) if is_rounded(default) else Rounding()
    return Rounding(
        given.bits if bits is None else bits,
        given.bounds if bounds is None else Bounds[bounds.name],
        given.form if log is None else Form[log.name],
    ).mode


def mode_words(mode: int) -> str:
    """Describe a mode byte for people."""
    if not is_rounded(mode):
        return Arithmetic.REPOPS_F32
    rounding = Rounding.of(mode)
    bounds, form = rounding.bounds.name.lower(), rounding.form.name.lower()
    return f"{Arithmetic.ROUNDED_F64}, {rounding.bits} bits, {bounds} bounds, {form} logs"


def mode_flags(mode: int) -> list[str]:
    """Return the flags that select a mode byte."""
    if not is_rounded(mode):
        return ["--mode", Arithmetic.REPOPS_F32]
    rounding = Rounding.of(mode)
    flags = ["--mode", Arithmetic.ROUNDED_F64, "--bits", str(rounding.bits)]
    return [*flags, "--bounds", rounding.bounds.name.lower(), "--log", rounding.form.name.lower()]
