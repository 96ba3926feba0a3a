"""Loss beside eager PyTorch's, where it was measured: at the points that `assay program build` compares.

SAFETY: labels of a bundle may be anybody's. What is no pair of finite numbers is left out, and words are cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import text

MAX_POINTS = 8


@dataclass(frozen=True)
class Measured:
    """A loss of the program and of eager PyTorch at the same weights and batch, and how far they are apart."""

    where: str
    ours: str
    theirs: str
    apart: str


@dataclass(frozen=True)
class Beside:
    """All that was measured, and what was compared besides, in the words of the build."""

    measured: tuple[Measured, ...]
    words: str


def beside(labels: Mapping[str, Any]) -> Beside | None:
    """Return what a bundle's labels say; None if they say nothing of it."""
    given = labels.get("losses")
    pairs = list(given.items())[:MAX_POINTS] if isinstance(given, dict) else []
    found = tuple(_measured(str(name), *pair) for name, pair in pairs if _is_pair(pair))
    words = text.said(str(labels.get("checked", "")), 600)
    return Beside(found, words) if found or words else None


def _measured(name: str, ours: float, theirs: float) -> Measured:
    unit = max(abs(ours), abs(theirs))
    apart = f"{abs(ours - theirs) / unit:.1e} of it" if ours != theirs else "nothing"
    return Measured(text.said(name, 60), f"{ours:.9g}", f"{theirs:.9g}", apart)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(one, float) and math.isfinite(one) and abs(one) < 1e300 for one in value)
    )
