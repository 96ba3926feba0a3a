"""How long liars can put the end of a job off (docs/economics.md, section 3)."""

from __future__ import annotations


def rounds_bound(groups: int, spares: int) -> int:
    """Rounds of matches until one root is left, at most.

    ``groups`` roots are claimed, ``spares`` times one that was claimed already.
    """
    return max(0, groups - 1).bit_length() + spares


def delay_bound(groups: int, spares: int, longest: int, period: int) -> int:
    """Seconds from the end of the challenge phase to that of the job, at most.

    A match with its hearing lasts at most ``longest`` seconds; for ``period`` seconds the root of a dead group can be
    claimed again, and something requested of it when it is.
    """
    return rounds_bound(groups, spares) * longest + (2 * spares + 1) * period
