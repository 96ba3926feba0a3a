"""The known name that an unknown one may have been meant for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for the known name that is closest to ``word``, or "" if none is close."""
    found = get_close_matches(word[:200].lower(), list(known), n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""
