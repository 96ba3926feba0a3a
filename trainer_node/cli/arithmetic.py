"""Flags that choose a program's arithmetic, and its description in words."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from referee_py.errors import InvalidInput
from referee_py.params import MAX_BITS, MIN_BITS, MODE_SUMMARIES

from .flags import flag, with_flags


class BoundsName(StrEnum):
    PROVEN = "proven"
    PROBABLE = "probable"


class FormName(StrEnum):
    SPARSE = "sparse"
    DENSE = "dense"


_enum: Any = StrEnum  # NOTE: a type checker wants the names written out; they are those of the table
_ModeName = _enum("ModeName", {name: name for name in MODE_SUMMARIES})

_option = functools.partial(flag, panel="Arithmetic")

_FLAGS: dict[str, Any] = {
    "mode": _option(
        _ModeName,
        "--mode",
        "; ".join(f"{name}: {summary}" for name, summary in MODE_SUMMARIES.items()) + ".",
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

    mode: str | None = None
    """The name of a mode."""
    bits: int | None = None
    bounds: BoundsName | None = None
    log: FormName | None = None

    def over(self, default: int) -> int:
        """Return the mode byte for the flags; those that are not given are taken from ``default``.

        Raises InvalidInput for flags of another mode.
        """
        from referee_py.program.modes import MODES, Bounds, Form, mode_named, mode_of

        chosen = mode_of(default)
        if self.mode is not None and self.mode != chosen.name:
            chosen = mode_named(str(self.mode))
        given = {
            "bits": ("bits", self.bits),
            "bounds": ("bounds", self.bounds and Bounds[self.bounds.name]),
            "log": ("form", self.log and Form[self.log.name]),
        }
        changes: dict[str, Any] = {}
        for name, (parameter, value) in given.items():
            if value is None:
                continue
            if parameter not in chosen.parameters:
                owner = next(mode.name for mode in MODES if parameter in mode.parameters)
                raise InvalidInput(f"--{name} is for {owner}; give --mode {owner} too")
            changes[parameter] = value
        return chosen.changed(**changes).byte


with_mode = with_flags("mode", _FLAGS, ModeFlags)
"""Give a command the flags of the arithmetic; it gets them as ``mode``, of type `ModeFlags`."""


def mode_words(mode: int) -> str:
    """Describe a mode byte for people."""
    from referee_py.program.modes import mode_or_unknown

    return mode_or_unknown(mode).words
