"""The extent of a challenger's actions, a setting that is also a flag."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """The extent of a challenger's actions."""

    WATCH = "watch"  # replay and log disagreement; needs no key
    DEFEND = "defend"  # also make the moves open to anybody, for the claim it agrees with
    CHALLENGE = "challenge"  # also stake its own claim when no claim has the result it found
