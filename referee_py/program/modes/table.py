"""The table of the arithmetic modes: by byte, by name, and with what a package above adds to each (`Parts`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from ...errors import UnknownVersion
from ...params import MODE_SUMMARIES
from .arithmetic_mode import ArithmeticMode, UnknownMode
from .exact import EXACT
from .repops_f32 import REPOPS_F32
from .rounded_f64 import RoundedF64, Rounding
from .tc16 import TC16

Part = TypeVar("Part")

MODES: tuple[ArithmeticMode, ...] = (REPOPS_F32, EXACT, RoundedF64(Rounding()), TC16)
"""The modes, each with its usual parameters, in the order of Opset1's constructor."""
USUAL = REPOPS_F32
"""The mode of a program that asks for no other."""

_BY_BYTE = {mode.byte: mode for usual in MODES for mode in usual.variants()}
_BY_NAME = {mode.name: mode for mode in MODES}
if [*_BY_NAME] != [*MODE_SUMMARIES]:
    raise TypeError(
        f"params.MODE_SUMMARIES has {', '.join(MODE_SUMMARIES)}; the modes are {', '.join(_BY_NAME)}"
    )


def mode_of(byte: int) -> ArithmeticMode:
    """Return the mode of a byte. Raises UnknownVersion for a byte that no mode has."""
    found = _BY_BYTE.get(byte)
    if found is None:
        *first, last = (f"{mode.bytes_in_words} ({mode.name})" for mode in MODES)
        raise UnknownVersion(f"arithmetic mode {byte}; this build implements {', '.join(first)} and {last}")
    return found


def mode_or_unknown(byte: int) -> ArithmeticMode:
    """Return the mode of a byte, or an UnknownMode.

    SAFETY: for bytes that a stranger has put on the chain under a referee of his own: a daemon looks at his job, too.
    """
    return _BY_BYTE.get(byte) or UnknownMode(byte)


def mode_named(name: str) -> ArithmeticMode:
    """Return the mode of that name, with its usual parameters. Raises KeyError for a name that no mode has."""
    return _BY_NAME[name]


class Parts(Generic[Part]):
    """Parts that a package adds to each mode, by the class of the mode.

    Raises TypeError where a mode of `MODES` has no part: a package that misses a new mode cannot be imported.
    """

    def __init__(self, parts: Mapping[type[ArithmeticMode], Part]) -> None:
        if missing := [mode.name for mode in MODES if type(mode) not in parts]:
            raise TypeError(f"no part for {', '.join(missing)}; add one")
        self._parts = dict(parts)

    def of(self, byte: int) -> Part:
        """Return the part of the mode of a byte. Raises UnknownVersion for a byte that no mode has."""
        return self._parts[type(mode_of(byte))]
