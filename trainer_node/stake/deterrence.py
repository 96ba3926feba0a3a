"""Deterrence by samples under a job's terms: how likely a lie must be found for lying not to pay.

A liar that is not found gets the reward, and the pool that the client has set aside for watchers, if accounts of its
own have shown its root (docs/economics.md, section 8). One that is found loses its stake, but not all of it: it sees
the commitment to a refutation coming, has an ally refute it first, and gives that match away, so half of the stake
comes back as the ally's prize (there, section 10). So lying does not pay if

    p * stake / 2 >= (1 - p) * reward,    p >= reward / (reward + stake / 2)

where the pool is part of the reward, and p is the chance that somebody finds it. If `m` honest samplers draw by
themselves and one interval is wrong, each has to check the share q of all intervals with 1 - (1 - q)^m >= p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from referee_py.params import PRIZE_DIVISOR

from ..chain import JobView
from ..reason import Reason

MOST = 0.5
"""The largest share that is still a sample: beyond it a whole replay costs at most twice as much, and finds all."""


@dataclass(frozen=True, slots=True)
class Deterrence:
    """``chance``: of detection, from which lying does not pay; ``share`` of the intervals that each of ``samplers``
    checks for it; ``stake``, ``risked`` (what a liar that is found loses) and ``reward``, with the pool, in wei."""

    chance: float
    share: float
    samplers: int
    stake: int
    risked: int
    reward: int

    def count(self, intervals: int) -> int:
        """Return how many of so many intervals a sampler checks: at least one."""
        return min(intervals, max(1, math.ceil(self.share * intervals)))

    def chance_of(self, checked: int, intervals: int) -> float:
        """Return the chance that one wrong interval is found if every sampler checks so many."""
        return 1.0 - (1.0 - checked / intervals) ** self.samplers

    def __str__(self) -> str:
        return (
            f"a lie may win {self.reward} wei and risks {self.risked} of its stake of {self.stake}, since a liar that "
            f"refutes itself keeps the rest: it must be found with a chance of "
            f"{self.chance:.1%}; with {self.samplers} honest samplers each checks {self.share:.1%} of the intervals"
        )


def deterrence(job: JobView, samplers: int, pool: int = 0) -> Deterrence:
    """Return what a job calls for whose watchers are paid out of a ``pool`` of so many wei. NOTE: all of it and the
    whole reward count, since a liar may hold all slots and all places of watchers."""
    stake, reward = job.stake_at(0), job.reward + pool
    # INVARIANT: the prize of a refutation is a half of the lost stake; what is no prize is burned.
    risked = stake - stake // PRIZE_DIVISOR
    chance = reward / (reward + risked)
    return Deterrence(chance, 1.0 - (1.0 - chance) ** (1.0 / samplers), samplers, stake, risked, reward)


class Useless(Reason):
    text = (
        "{needed}, which is more than {most:.0%}: with these terms a sample deters nobody; check all of it, count on "
        "more samplers (--samplers) or leave the job to others"
    )
    needed: Deterrence
    most: float


def useless(needed: Deterrence) -> Useless | None:
    """Return why a sample of this job would deter nobody, or None."""
    return Useless(needed, MOST) if needed.share > MOST else None
