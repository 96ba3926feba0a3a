"""Patience for cheaper gas: one rule, when to wait and how long, for all that a daemon sends. Pure functions.

A stake of ``stake_gas * f`` wei bears a fee of f: half of it, the winner's prize, pays for the worst dispute if each
unit of gas costs f (`min_stake`). So

    THE RULE   A move waits while a unit of gas, tip included, costs more than SHARE of the fee that the prize bears,
               and more time is left than the reserve. Then it is sent at any price, because the stake is worth more.
    RESERVE    Half of the whole clock or period, and MARGIN times the seconds that a dispute may take: its computing,
               and the time until each of its moves is mined.
    AT LEISURE An action with no clock or period (a timeout, `finalize`, a withdrawal) waits for `fees.patient_s`.

Whoever has something to send says how much time it has (`Slack`), and asks `Patience.waits`; `Daemon.market` gives the
price of gas.

If nothing is sent above the share, a dispute costs no more than that share of the prize. A move that is sent because
its reserve is reached may cost more, and the rest of the prize pays for it.

SAFETY: nobody loses by waiting. A move waits only while the party's own clock runs and has more than the reserve left,
and it is computed before it waits. So half of the clock always remains for later moves and for outages, as if the job
had a clock of half the seconds and nobody waited. A clock of that length lets a party do all its computing twice.
Nothing waits while the party's own clock stands still: then the other side's time runs out.
"""

from __future__ import annotations

from dataclasses import dataclass

from referee_py.walk import clock
from referee_py.walk.clock import Clocked

from ..run.cost_estimate import MARGIN
from ..settings.sections import DAY_S
from ..settings.settings import LOCAL_CHAINS, Settings

SHARE = 0.75
"""Share of the fee that the prize bears. The rest pays for moves that cannot wait any longer."""


def bearable(stake: int, stake_gas: int) -> int:
    """Return the highest price, in wei for a unit of gas, at which half of the stake pays for the worst dispute."""
    return stake // stake_gas


def reserve(period: float, busy_s: float) -> float:
    """Return the seconds of a clock or period that no move may wait away, if ``busy_s`` more may be needed."""
    return period / 2 + MARGIN * busy_s


@dataclass(frozen=True, slots=True)
class Slack:
    """The time that something to send has: ``left`` seconds of a clock or a ``period``. At leisure, where ``period`` is
    None, it has been possible since minus ``left``."""

    left: float
    period: float | None = None

    @classmethod
    def until(cls, left: int, period: int) -> Slack:
        """Return the time of what is done within a period, or at leisure after it."""
        return cls(left, period if left > 0 else None)

    @classmethod
    def by_clock(cls, state: Clocked, side: int | None, period: int, now: int) -> Slack:
        """Return the time of moves of ``side`` in a match or a trial; ``period``: seconds of a whole clock.

        SAFETY: there is some only while that side's clock runs, or after a clock ran out.
        """
        if clock.late(state, now):
            return cls(clock.first_deadline(state) - now)
        if side is None or not clock.owing(state) >> side & 1:
            return cls(0, period)
        return cls(clock.deadline(state, side) - now, period)


@dataclass(frozen=True, slots=True)
class Patience:
    """The rule in one dispute. ``fee``: wei for a unit of gas now, tip included; ``bears``: the highest fee that the
    disputed money pays for; ``patient_s``: seconds to wait at leisure, zero to never wait."""

    fee: int
    bears: int
    patient_s: int
    busy_s: float = 0.0
    """Seconds that a dispute may still take."""

    def waits(self, slack: Slack) -> bool:
        """Return whether what has so much time is sent later."""
        if self.patient_s <= 0 or self.fee <= SHARE * self.bears:
            return False
        if slack.period is None:
            return -slack.left < self.patient_s
        return slack.left > reserve(slack.period, self.busy_s)


NONE = Patience(fee=0, bears=0, patient_s=0)
"""Sends at once, at any price."""


@dataclass(frozen=True, slots=True)
class Market:
    """``fee``: wei for a unit of gas now, tip included; ``patient_s``: seconds to wait at leisure; ``latency_s``:
    seconds until a move is seen and its answer is mined."""

    fee: int
    patient_s: int
    latency_s: float = 0.0

    def about(self, stake: int, stake_gas: int, busy_s: float = 0.0) -> Patience:
        """Return the rule for a dispute about such a stake."""
        return Patience(self.fee, bearable(stake, stake_gas), self.patient_s, busy_s)


def gas_market(settings: Settings, base_fee: int) -> Market:
    """Return the price of gas in a block with this base fee in wei, and how long we wait for cheaper gas."""
    patient_s = settings.fees.patient_s
    if patient_s < 0:
        patient_s = 0 if settings.chain_id in LOCAL_CHAINS else DAY_S
    return Market(base_fee + settings.fees.policy().priority_fee, patient_s, settings.latency_s)
