"""What a job's terms make of samples: how likely a lie must be found for lying not to pay.

A liar that is found loses its stake; one that is not gets the reward. So lying does not pay if

    p * stake >= (1 - p) * reward,    p >= reward / (reward + stake)

where p is the chance that somebody finds it. If `m` honest samplers draw by themselves and one interval is wrong, each
has to check the share q of all intervals with 1 - (1 - q)^m >= p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..chain import JobView

MOST = 0.5
"""The largest share that is still a sample: beyond it a whole replay costs at most twice as much, and finds all."""


@dataclass(frozen=True, slots=True)
class Deterrence:
    """``chance``: of detection, from which lying does not pay; ``share`` of the intervals that each of ``samplers``
    checks for it; ``stake`` and ``reward`` in wei."""

    chance: float
    share: float
    samplers: int
    stake: int
    reward: int

    def count(self, intervals: int) -> int:
        """Return how many of so many intervals a sampler checks: at least one."""
        return min(intervals, max(1, math.ceil(self.share * intervals)))

    def chance_of(self, checked: int, intervals: int) -> float:
        """Return the chance that one wrong interval is found if every sampler checks so many."""
        return 1.0 - (1.0 - checked / intervals) ** self.samplers

    def __str__(self) -> str:
        return (
            f"a lie may win {self.reward} wei and risks {self.stake}: it must be found with a chance of "
            f"{self.chance:.1%}; with {self.samplers} honest samplers each checks {self.share:.1%} of the intervals"
        )


def deterrence(job: JobView, samplers: int) -> Deterrence:
    """Return what a job calls for. NOTE: the whole reward counts, since a liar may hold all slots."""
    stake, reward = job.stake_at(0), job.reward
    chance = reward / (reward + stake)
    return Deterrence(chance, 1.0 - (1.0 - chance) ** (1.0 / samplers), samplers, stake, reward)


def useless(needed: Deterrence) -> str | None:
    """Return why a sample of this job would deter nobody, or None."""
    if needed.share <= MOST:
        return None
    return (
        f"{needed}, which is more than {MOST:.0%}: with these terms a sample deters nobody; check all of it, count on "
        "more samplers (--samplers) or leave the job to others"
    )
