"""The worst dispute of trainer_node/stake/min_stake.py, move by move, on a year of base fees, for all beginnings.

A liar claims at the beginning. An honest challenger claims, plays the match, appeals, plays the trial and withdraws
its prize. It sends all of this when `trainer_node.stake.gas_patience` permits.

    challenge period   commitChallenge, challenge
    clock              26 rounds of reveal and descend, 7 times refine, openRecord, submit
    appeal period      appeal, after all of the verdict period
    clock, again       the trial
    when it is cheap   proceed, finalize (a challenge period later), collect, withdraw
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from referee_py.gas_schedule import OSAKA
from trainer_node.chain.codec.job import MAX_STRIDES
from trainer_node.stake import gas_patience
from trainer_node.stake.min_stake import RUN_ROUNDS, STEP_ROUNDS, least_stake, worst_dispute, worst_gas

from .market import DAY, Series

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Passes = Callable[[Series, Ints], NDArray[np.bool_]]

TIP = 1.0
"""Gwei, for every unit of gas."""
MOVE = 0.4
"""Minutes: two blocks until a move is seen, during which the mover's clock runs."""
COMMIT_AGE = 0.8
BUSY = 1.0
"""Minutes of computing in a dispute."""
PATIENT = DAY
"""Minutes: `fees.patient_s`."""


class Time(Enum):
    """The period or clock that runs while a move waits."""

    CHALLENGE = "challenge period"
    CLOCK = "own clock"
    APPEAL = "appeal period"
    TRIAL = "own clock of the trial"
    NOTHING = "nothing"


class Rival(Enum):
    """When the other side makes the moves that ours answer."""

    PROMPT = "at once"
    SLOW = "spreads its clock"
    SPITEFUL = "when gas is dear"


@dataclass(frozen=True)
class Step:
    """A move of ours: its gas, the period or clock that runs, and whether it answers a move of the other side."""

    move: str
    gas: int
    time: Time
    answers: bool = False


@dataclass(frozen=True)
class Terms:
    """Terms of a job: bounds of the price of gas in gwei, periods and clocks in minutes. ``fixed``: a price of gas
    that does not follow the chain's; ``patient``: whether the party waits."""

    low: float
    high: float
    clock: int
    fixed: float | None = None
    patient: bool = True

    @property
    def period(self) -> int:
        """Minutes of challenges, verdicts and appeals."""
        return max(self.clock, DAY)

    def counted(self, base: Floats) -> Floats:
        """Return the price of a unit of gas at these base fees, as in `referee_py.game.jobs.fee_at`."""
        if self.fixed is not None:
            return np.full_like(base, self.fixed)
        return np.clip(2 * base, self.low, self.high)


def steps() -> list[Step]:
    """Return the worst dispute in the order of its moves."""
    gas = {line.move: line.gas for line in worst_dispute(OSAKA)}
    found = [Step(move, gas[move], Time.CHALLENGE) for move in ("commitChallenge", "challenge")]
    refined = {RUN_ROUNDS * tree // MAX_STRIDES for tree in range(1, MAX_STRIDES)}
    for number in range(RUN_ROUNDS + STEP_ROUNDS):
        if number in refined:
            found.append(Step("refine", gas["refine"], Time.CLOCK))
        found += [Step("reveal", gas["reveal"], Time.CLOCK, answers=True)]
        found += [Step("descend", gas["descend"], Time.CLOCK, answers=True)]
    found += [
        Step("openRecord", gas["openRecord"], Time.CLOCK),
        Step("submit", gas["submit"], Time.CLOCK, True),
    ]
    found += [Step("appeal", gas["appeal"], Time.APPEAL)]
    trial = Counter(
        {line.move.split(",")[0]: line.times for line in worst_dispute(OSAKA) if "trial" in line.move}
    )
    rounds = ["reveal", "descend"] * trial["descend"]
    for move in ("showOutputs", *rounds, "showLeaf", "compare", *["answer"] * trial["answer"], "judge"):
        name = f"{move}, in the trial"
        found.append(Step(name, gas[name], Time.TRIAL, answers=True))
    found += [Step(move, gas[move], Time.NOTHING) for move in ("proceed", "finalize", "collect")]
    return found + [Step("withdraw, at both contracts", gas["withdraw, at both contracts"], Time.NOTHING)] * 2


class Prices:
    """A year of base fees, with the next instants of cheap and dear gas; in minutes from its beginning."""

    def __init__(self, series: Series) -> None:
        self.series = series

    @cached_property
    def _lows(self) -> list[Series]:
        return _table(self.series, np.minimum)

    @cached_property
    def _highs(self) -> list[Series]:
        return _table(self.series, np.maximum)

    def at(self, when: Floats) -> Floats:
        """Return gwei for a unit of gas."""
        return self.series[when.astype(np.int64)].astype(np.float64)

    def cheap(self, when: Floats, limit: Floats, within: Floats) -> Floats:
        """Return the first instants at which a unit costs at most `limit`, or those after `within` minutes."""
        return self._seek(self._lows, when, within, lambda low, here: low > limit[here])

    def dear(self, when: Floats, limit: Floats, within: Floats) -> Floats:
        """Return the first instants at which a unit costs more than `limit`, or those after `within` minutes."""
        return self._seek(self._highs, when, within, lambda high, here: high <= limit[here])

    def _seek(self, table: list[Series], when: Floats, within: Floats, passes: Passes) -> Floats:
        """Stride by powers of two, the longest first, over each stretch without such an instant."""
        place, end = when.astype(np.int64), (when + within).astype(np.int64)
        begun = place.copy()
        for power in reversed(range(len(table))):
            here = np.flatnonzero(place + (1 << power) <= end)
            here = here[passes(table[power][place[here]], here)]
            place[here] += 1 << power
        # NOTE: an instant within the first minute, or after the whole wait, is unchanged.
        found = np.where(place == begun, when, place.astype(np.float64))
        return np.minimum(found, when + within)


def _table(series: Series, least: np.ufunc) -> list[Series]:
    """Return the least (or most) of each stretch of 2^k minutes, for each k, by its beginning."""
    table = [series]
    while 1 << len(table) <= 16 * DAY:
        last, half = table[-1], 1 << (len(table) - 1)
        longer = last.copy()
        longer[:-half] = least(last[:-half], last[half:])
        table.append(longer)
    return table


@dataclass
class Outcome:
    """Results of the disputes that begin at each instant."""

    ratio: Floats
    """Our costs over our prize. NOTE: the liar's stake is two prizes."""
    stake: Floats
    """Stake of the liar, in ether."""
    days: Floats
    """Days until the prize is withdrawn."""


class Play:
    """All disputes that begin at these minutes, side by side."""

    def __init__(self, prices: Prices, starts: Ints, terms: Terms, rival: Rival) -> None:
        self._prices, self._terms, self._rival = prices, terms, rival
        self._when = starts.astype(np.float64)
        self._bears = terms.counted(prices.at(self._when))
        self._limit = gas_patience.SHARE * self._bears - TIP
        self._cost = np.zeros(len(starts))

    def outcome(self) -> Outcome:
        began, plan = self._when, steps()
        clock = float(self._terms.clock)
        for time in Time:
            self._left = np.full(len(began), clock)
            self._theirs = self._left.copy()
            own = [step for step in plan if step.time is time]
            self._answers = sum(step.answers for step in own)
            for step in own:
                self._before(step)
                self._send(step)
        stake, prize = least_stake(1, OSAKA) * self._bears / 10**9, worst_gas(OSAKA) * self._bears
        return Outcome(self._cost / prize, stake, (self._when - began) / DAY)

    def _before(self, step: Step) -> None:
        """Wait for what must have passed, and for the move that this one answers."""
        period = float(self._terms.period)
        match step.move:
            case "commitChallenge":
                self._left[:] = period
            case "challenge":
                self._when += COMMIT_AGE
                self._left -= COMMIT_AGE
            case "appeal":
                self._when += MOVE if self._rival is Rival.PROMPT else period
                self._left[:] = period
            case "proceed" | "finalize":
                self._when += MOVE if self._rival is Rival.PROMPT and step.move == "proceed" else period
        if not step.answers:
            return
        wait = np.full(len(self._when), MOVE)
        if self._rival is Rival.SLOW:
            wait[:] = self._terms.clock / self._answers
        if self._rival is Rival.SPITEFUL:
            spare = np.maximum(self._theirs - MOVE * self._answers, 0)
            wait += self._prices.dear(self._when, self._limit, spare) - self._when
        self._when += wait
        self._theirs -= wait

    def _send(self, step: Step) -> None:
        """Send one of our moves, when the rule permits."""
        period = self._terms.clock if step.time in (Time.CLOCK, Time.TRIAL) else self._terms.period
        if step.time is Time.NOTHING:
            spare = np.full(len(self._when), float(PATIENT))
        else:
            spare = np.maximum(self._left - gas_patience.reserve(period, BUSY), 0)
        if not self._terms.patient:
            spare[:] = 0
        sent = self._prices.cheap(self._when, self._limit, spare) + MOVE
        self._left -= sent - self._when
        if step.time is not Time.NOTHING:
            assert np.all(self._left >= 0), "the own clock has run out"
        self._when = sent
        self._cost += step.gas * (self._prices.at(sent) + TIP)
