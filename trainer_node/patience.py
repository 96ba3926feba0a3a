"""When a party waits for cheaper gas, and how long: one rule for everything that a node sends. Pure functions.

A stake of ``stake_gas * f`` wei bears a fee of f: half of it, the winner's prize, is what the worst dispute takes if
each unit of gas costs f (`bonds`). So

    THE RULE   A move waits while a unit of gas, tip included, costs more than SHARE of what the prize bears, as long as
               more is left of its time than the reserve. Then it is sent, whatever that costs: the stake is more.
    RESERVE    Half of the time that there was, a clock or a period, and MARGIN times what a dispute may take: its
               computing, and for each move until it is mined.
    AT LEISURE What no clock and no period waits for (a timeout, `finalize`, a withdrawal) waits for `fees.patient_s`.

If nothing is sent above the share, a dispute costs no more than that share of the prize. What is sent when a reserve is
reached may cost more, and the rest of the prize is there for it.

SAFETY: nobody loses by waiting. A move waits only while the own clock runs and has more than the reserve left, and is
worked out before it waits. So whatever happens, half of the clock is left for those after it and for outages, as if the
job had a clock of half the seconds and nobody waited: and with a clock that long it can do all its computing twice.
Where the own clock stands nothing waits: then it is the other side's time that runs out.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cost_estimate import MARGIN

SHARE = 0.75
"""Of what the prize bears. The rest pays for what cannot wait any longer."""


def bearable(stake: int, stake_gas: int) -> int:
    """Wei for a unit of gas up to which half of such a stake pays for the worst dispute."""
    return stake // stake_gas


def reserve(period: float, busy_s: float) -> float:
    """Seconds of a clock or period that are not waited away, where so many may be taken yet."""
    return period / 2 + MARGIN * busy_s


@dataclass(frozen=True, slots=True)
class Patience:
    """What a node goes by in one quarrel. ``fee``: wei for a unit of gas now, tip included; ``bears``: up to which fee
    what it is about pays; ``patient_s``: how long it waits at leisure, and zero if it never waits."""

    fee: int
    bears: int
    patient_s: int
    busy_s: float = 0.0
    """What a dispute may take yet."""

    @property
    def dear(self) -> bool:
        """Whether gas is worth waiting for."""
        return self.patient_s > 0 and self.fee > SHARE * self.bears

    def waits(self, left: int, period: int) -> bool:
        """Whether what has so many seconds left, of so many, is sent later."""
        return self.dear and left > reserve(period, self.busy_s)

    def lingers(self, overdue: int) -> bool:
        """The same of what could have been sent so many seconds ago, and costs nobody time."""
        return self.dear and overdue < self.patient_s


NONE = Patience(fee=0, bears=0, patient_s=0)
"""Whoever sends at once."""


@dataclass(frozen=True, slots=True)
class Market:
    """What a unit of gas costs now, tip included, in wei, and how long the node waits at leisure. ``latency_s``: until
    a move is seen and its answer mined."""

    fee: int
    patient_s: int
    latency_s: float = 0.0

    def about(self, stake: int, stake_gas: int, busy_s: float = 0.0) -> Patience:
        """What the node goes by where such a stake is to be won."""
        return Patience(self.fee, bearable(stake, stake_gas), self.patient_s, busy_s)
