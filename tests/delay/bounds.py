"""Bounds on the time by which liars can delay the end of a job (docs/economics.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2


def rounds_bound(groups: int, spares: int) -> int:
    """Return the most rounds of matches until one root is left.

    ``groups``: number of claimed roots. ``spares``: number of claims of roots that were claimed already.
    """
    return max(0, groups - 1).bit_length() + spares


def delay_bound(groups: int, spares: int, longest: int, period: int) -> int:
    """Return the most seconds from the end of the challenge phase to the end of the job.

    A match with its hearing lasts at most ``longest`` seconds. For ``period`` seconds the root of a dead group can be
    claimed again, and for as long after that data can be requested of it.
    """
    return rounds_bound(groups, spares) * longest + (2 * spares + 1) * period


def levels(lives: Sequence[int]) -> float:
    """Return a number that each round lowers by one at least, and that is one or less once one root is left.

    ``lives``: of each root, its claims and refutations that have not lost, those that are still to come included. In a
    round at least half of all roots but one lose a claim, or win against a refutation.
    """
    counts = (sum(count >= level for count in lives) for level in range(1, max(lives, default=0) + 1))
    return sum(2 + log2(count - 1) if count > 1 else 1 for count in counts)


def delay_by_levels(lives: Sequence[int], longest: int, period: int) -> float:
    """Return another bound for the same delay as `delay_bound`, less for many roots with few spares each."""
    return levels(lives) * (longest + 2 * period) + period
