"""Ids as logs and commands write them: hashes, roots, addresses, the numbers of matches, and sides."""

from __future__ import annotations

SHOWN_DIGITS = 8
SIDES = "A", "B"
"""Letters by which people are told of the sides 0 and 1 of a match or a trial."""


def side_of(number: int) -> str:
    """Return what people call a side."""
    return f"side {SIDES[number]}"


def whole(number: int) -> str:
    """Return the id of a match with all its 64 digits, so that one search finds it in logs and commands."""
    return f"{number:#066x}"


def short(value: bytes | str | int) -> str:
    """Return the beginning of a hash, a root, an address or the id of a match, as in 0x1a2b3c4d…

    The beginning of an id of a match is enough for `assay dispute show`.
    """
    if isinstance(value, int):
        text = whole(value)
    else:
        text = "0x" + (value.hex() if isinstance(value, bytes) else value.removeprefix("0x"))
    return text[: SHOWN_DIGITS + 2] + "…" if len(text) > SHOWN_DIGITS + 2 else text
