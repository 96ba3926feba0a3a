"""Strangers' words made safe, and numbers made readable. Templates escape everything; this cuts and cleans."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal

from referee_py.errors import InvalidInput
from trainer_node.network.uri import check_uri

NAME_CHARS = 120
"""Characters of a stranger's name, label or address that are shown at most."""


def said(text: object, limit: int = NAME_CHARS) -> str:
    """Return a stranger's words on one line, cut to ``limit`` characters.

    SAFETY: control characters, and those that turn the direction of text or take no place (Unicode categories C*), are
    shown as such: they could make a text look like another one. So are long rows of combining marks, which overflow.
    """
    given = str(text)
    # NOTE: plain words, which are most, have none of these characters.
    if given.isascii() and given.isprintable():
        return given if len(given) <= limit else given[: limit - 1] + "…"
    found, marks = [], 0
    for character in given[: 4 * limit]:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if kind[0] == "C" or kind in ("Zl", "Zp"):
            character = "�"
        if marks <= 2:
            found.append(character)
    shown = "".join(found)
    return shown if len(shown) <= limit and len(given) <= 4 * limit else shown[: limit - 1] + "…"


def link(uri: object) -> str | None:
    """Return an address that may become a link; None for any but a plain http(s) one."""
    try:
        return check_uri(str(uri))
    except InvalidInput:
        return None


def whole(value: bytes | str) -> str:
    """Return a hash or an address in full, in hexadecimal."""
    text = value.hex() if isinstance(value, bytes) else value
    return text if text.startswith("0x") else f"0x{text}"


def ether(wei: int) -> str:
    """Return an amount for people."""
    if wei < 0:
        return f"−{ether(-wei)}"
    if 0 < wei < 10**9:
        return f"{wei:,} wei"
    return f"{(Decimal(wei) / 10**18).normalize():f} ETH"


def ether_short(wei: int) -> str:
    """Return an amount to four places; one that has none of them, in smaller units."""
    if wei < 0:
        return f"−{ether_short(-wei)}"
    if 0 < wei < 10**14:
        return (
            f"{wei:,} wei"
            if wei < 10**9
            else f"{(Decimal(wei) / 10**9).quantize(Decimal('0.1')).normalize():f} gwei"
        )
    amount = Decimal(wei) / 10**18
    return f"{amount.quantize(Decimal('0.0001')).normalize():f} ETH"


def seconds(count: int) -> str:
    """Return a length of time for people."""
    if count < 0:
        return f"−{seconds(-count)}"
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (120, "min", 1, "s")):
        if count >= size:
            size = min(size, small * 60) if unit == "min" else size
            rest = count % size // small
            return f"{count // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{count} s"


def moment(instant: int) -> str:
    """Return an instant in UTC, given in unix seconds."""
    try:
        found = datetime.fromtimestamp(instant, UTC)
    except (ValueError, OverflowError, OSError):  # NOTE: a calendar ends with the year 9999
        return "–"
    return found.strftime("%Y-%m-%d %H:%M:%S UTC") if instant > 0 else "–"


def plural(count: int, word: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def several(count: int, word: str) -> str:
    """Return a number with its noun after *the same*; the noun alone if there is but one."""
    return word if count == 1 else plural(count, word)


def is_digest(value: str) -> bool:
    """Return whether this is a hash or an account in full."""
    return re.fullmatch("(0x)?[0-9a-fA-F]{64}|0x[0-9a-fA-F]{40}", value) is not None
