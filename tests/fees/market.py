"""A made-up year of base fees, minute by minute: weeks at one level, days and nights, hours of spikes.

It is not data. Its shape is that of Ethereum's main chain from August 2021 on: levels between some 5 and 150 gwei that
last for weeks; afternoons (UTC) twice as dear as early mornings, weekends cheaper; mints, airdrops and crashes that
multiply the fee within minutes and last for hours, a few of them for a day and longer. The fee moves as in EIP-1559:
by at most an eighth in a block of 12 seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

MINUTES, DAY = 60, 1440
YEAR = 365 * DAY
LONGEST = 90 * DAY
"""Minutes of the series after the year, for disputes that begin at its end."""
LEAST, MOST = 1.0, 400.0
"""Gwei: limits of spikes and of nights."""
BLOCKS = 5
"""Blocks in a minute."""

Series = NDArray[np.float32]


@dataclass(frozen=True)
class Spike:
    """Beginning and duration in minutes, and the factor by which gas is dearer."""

    at: int
    lasts: int
    times: float


@cache
def year(seed: int) -> Series:
    """Return gwei for a unit of gas in each minute of a year and of the ninety days after it."""
    draw = np.random.default_rng(seed)
    length = YEAR + LONGEST
    minute = np.arange(length)
    hour, weekday = minute % DAY / MINUTES, minute // DAY % 7
    daily = 0.33 * np.cos((hour - 15.5) * np.pi / 12) - 0.2 * (weekday >= 5)
    wander = _wander(draw, length, step=MINUTES, lasts=30, spread=0.3)
    flicker = _wander(draw, length, step=1, lasts=15, spread=0.12)
    wanted = np.exp(_levels(draw, length) + daily + wander + flicker)
    for spike in _spikes(draw, length):
        wanted[spike.at : spike.at + spike.lasts] *= spike.times
        tail = wanted[spike.at + spike.lasts :][: 4 * spike.lasts]
        tail *= 1 + (spike.times - 1) * np.exp(-np.arange(len(tail)) / (0.7 * spike.lasts))
    return _followed(np.clip(wanted, LEAST, MOST))


def _levels(draw: np.random.Generator, length: int) -> NDArray[np.float64]:
    """Return the logarithm of the level, which changes every few weeks, within hours or days."""
    level, at = np.empty(length), 0
    while at < length:
        weeks = draw.uniform(1, 7)
        level[at : at + int(weeks * 7 * DAY)] = draw.uniform(np.log(4), np.log(110))
        at += int(weeks * 7 * DAY)
    width = int(draw.uniform(0.5, 3) * DAY)
    padded = np.concatenate([np.full(width - 1, level[0]), level])
    sums = np.concatenate([[0.0], np.cumsum(padded)])
    return (sums[width:] - sums[:-width]) / width


def _wander(
    draw: np.random.Generator, length: int, *, step: int, lasts: int, spread: float
) -> NDArray[np.float64]:
    """Return noise whose correlation decays over `lasts` steps of `step` minutes."""
    count = length // step + 2
    keep = np.exp(-1 / lasts)
    pushes = draw.normal(0, spread * np.sqrt(1 - keep**2), count)
    value, points = 0.0, np.empty(count)
    for place, push in enumerate(pushes):
        value = keep * value + push
        points[place] = value
    return np.interp(np.arange(length), np.arange(count) * step, points)


def _spikes(draw: np.random.Generator, length: int) -> list[Spike]:
    """Return two spikes a week of minutes to hours, and a dozen events a year of up to a day, which fade for two."""
    days = length / DAY
    small = [
        Spike(
            int(draw.integers(length)),
            int(np.exp(draw.uniform(np.log(10), np.log(360)))),
            draw.uniform(2, 10),
        )
        for _ in range(draw.poisson(days * 2 / 7))
    ]
    events = [
        Spike(int(draw.integers(length)), int(draw.uniform(4, 24) * MINUTES), draw.uniform(3, 8))
        for _ in range(draw.poisson(days * 12 / 365))
    ]
    # NOTE: one more has the largest factor, so every year reaches the limit.
    return [*small, *events, Spike(int(draw.integers(YEAR)), 8 * MINUTES, 100.0)]


def _followed(wanted: NDArray[np.float64]) -> Series:
    """Return the base fee that follows these values, by an eighth up or down a block at most."""
    up, down = 1.125**BLOCKS, 0.875**BLOCKS
    fee, found = float(wanted[0]), np.empty(len(wanted), np.float32)
    for place, value in enumerate(wanted.tolist()):
        fee = min(max(value, fee * down), fee * up)
        found[place] = fee
    return found
