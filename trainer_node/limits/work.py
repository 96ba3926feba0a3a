"""A work that strangers can cause a node; all of them: `works`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """``bound``: the most that it takes of us, and what keeps it there; ``paid_by``: what it costs its author.
    ``test`` drives it to that bound, and is named as in docs/security.md."""

    name: str
    caused_by: str
    bound: str
    paid_by: str
    test: str
