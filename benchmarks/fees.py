"""Cost of a worst dispute and its prize: begun in every hour of five synthetic years, against three rivals."""

from __future__ import annotations

import numpy as np

from tests.fees import market
from tests.fees.dispute import Play, Prices, Rival, Terms
from tests.fees.market import DAY, YEAR

from .report import Table

YEARS = 5
CLOCKS = {"1 hour": 60, "1 day": DAY, "1 week": 7 * DAY}
BOUNDS = ((20, 100), (20, 1000), (100, 1000), (150, 1000), (450, 1000))
"""Least and greatest price at which a unit of gas counts, in gwei."""


def measure() -> Table:
    """Return the largest and the mean ratio, and the share of the worst year in which the cost exceeds the prize."""
    columns = [
        "prices",
        "waits",
        "clock",
        "cost / prize at most",
        "above 1",
        "mean",
        "staked, ether",
        "days at most",
    ]
    table = Table("fees", columns)
    years = [Prices(market.year(seed)) for seed in range(YEARS)]
    mean = float(np.mean([prices.series[:YEAR].mean() for prices in years]))
    for clock in CLOCKS.values():
        _row(table, years, Terms(0, 0, clock, fixed=mean, patient=False))
        for low in (20, 150):
            _row(table, years, Terms(low, 1000, clock, patient=False))
        for low, high in BOUNDS:
            _row(table, years, Terms(low, high, clock))
    return table


def _row(table: Table, years: list[Prices], terms: Terms) -> None:
    starts = np.arange(0, YEAR, 60)
    found = [Play(prices, starts, terms, rival).outcome() for prices in years for rival in Rival]
    stakes = np.concatenate([outcome.stake for outcome in found])
    largest = max(outcome.ratio.max() for outcome in found)
    words = "fixed at the mean" if terms.fixed is not None else f"{terms.low:g} to {terms.high:g} gwei"
    table.add(
        f"{words}{'' if terms.fixed is None else f', {terms.fixed:.0f} gwei'}",
        "yes" if terms.patient else "no",
        next(name for name, clock in CLOCKS.items() if clock == terms.clock),
        f"**{largest:.2f}**" if largest >= 1 else f"{largest:.2f}",
        f"{max((outcome.ratio > 1).mean() for outcome in found):.1%}",
        f"{np.mean([outcome.ratio.mean() for outcome in found]):.2f}",
        " / ".join(f"{value:.2f}" for value in (stakes.min(), np.median(stakes), stakes.max())),
        f"{max(outcome.days.max() for outcome in found):.0f}",
    )
