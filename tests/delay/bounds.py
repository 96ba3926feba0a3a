"""Bounds on the time by which liars can delay the end of a job (docs/economics.md, section 3)."""

from __future__ import annotations


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
