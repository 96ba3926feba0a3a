"""Budget of time to wait for an interval's data, in the chain's time.

    now ──────────── data ────────────┤                       the rest, for other intervals
    ├─ INTERVAL of what can be spared ┤
    ├───────────────── can be spared ────────────────┼──── after: a whole replay, its commitment ────┤ end of challenges

A claimant's server may answer everything right, and each answer late. SAFETY: so what is waited for is all that one
interval needs, and the wait ends while there is time for what is done without that server: the replay of the whole run
where this node would do one, the rest of what it has drawn where it would not. Slow and right is then the same as
withheld.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...limits.waits import INTERVAL
from ...run.cost_estimate import MARGIN


@dataclass(frozen=True, slots=True)
class Means:
    """Needs of this node to act on its findings: the age of a commitment, and the time until its transactions are
    mined, in seconds; and the longest replay of a whole run that it would do, in seconds."""

    commit_age: float = 0.0
    acts_s: float = 0.0
    max_whole_s: float = math.inf

    def claimed_in(self, computed_in_s: float) -> float:
        """Return the seconds until something is claimed or refuted whose computation takes that long."""
        return MARGIN * (computed_in_s + self.acts_s) + self.commit_age

    def takes_whole(self, whole_s: float, left_s: float, after_s: float = 0.0) -> bool:
        """Return whether this node would replay a whole run that takes ``whole_s``, ``after_s`` from now, where
        ``left_s`` are left."""
        return whole_s <= self.max_whole_s and self.claimed_in(after_s + whole_s) <= left_s


def data_s(
    means: Means,
    whole_s: float,
    part_s: float,
    claims_s: float,
    refutations_s: float,
    whole_after_s: float = 0.0,
) -> float:
    """Return the seconds, on the chain, after which the data of an interval count as withheld.

    ``whole_s`` and ``part_s``: the computation of the whole run, and of what we have drawn of it; ``claims_s``: until
    the right root cannot be claimed any more; ``refutations_s``: until this root cannot be refuted any more;
    ``whole_after_s``: what others take before the whole run is begun, infinite if it would not be.

    SAFETY: the wait leaves time for what comes after it. A root may be refuted for longer than the right one may be
    claimed.
    """
    whole = means.takes_whole(whole_s, claims_s, whole_after_s)
    left_s = min(claims_s, refutations_s) if whole else refutations_s
    return float(INTERVAL) * max(0.0, left_s - means.claimed_in(whole_after_s + whole_s if whole else part_s))


JUMP_S = 3600.0
"""Seconds by which the chain's time may differ from what this machine has counted since an earlier look."""


class Instant(NamedTuple):
    """An instant in the chain's time, as a look has shown it, and by this machine's clock, in seconds."""

    chain: float
    machine: float


class ChainClock:
    """The chain's time, also between two looks at it. ``clock``: seconds of this machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen, self._at = 0.0, clock()

    def see(self, now: float) -> bool:
        """Note the time of the newest block that was read. Return whether it jumps: one of two looks is wrong, or the
        machine has slept."""
        jumps = abs(now - self.now) > JUMP_S
        self._seen, self._at = now, self._clock()
        return jumps

    @property
    def instant(self) -> Instant:
        """The present instant."""
        return Instant(self.now, self._clock())

    def on_chain(self, instant: Instant) -> float:
        """Return the chain's time at an instant. SAFETY: one look has said what it was. Where far more has passed since
        by another look than this machine has counted, what it has counted is what has passed."""
        counted = self.now - (self._clock() - instant.machine)
        return counted if counted - instant.chain > JUMP_S else instant.chain

    @property
    def now(self) -> float:
        return self._seen + self._clock() - self._at
