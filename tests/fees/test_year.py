"""The costs of a worst dispute over a year of base fees from 1 to 400 gwei, against the prize of the liar's claim."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from referee_py.gas_schedule import OSAKA
from referee_py.jobs import fee_at
from trainer_node.stake import gas_patience, min_stake
from trainer_node.stake.gas_patience import Patience, Slack
from trainer_node.stake.min_stake import worst_gas

from . import market
from .dispute import BUSY, COMMIT_AGE, MOVE, PATIENT, TIP, Play, Prices, Rival, Terms, Time, steps
from .market import DAY, YEAR

GWEI = 10**9
WEEK = 7 * DAY
SAFE = Terms(150, 1000, WEEK)
"""Terms that docs/economics.md recommends for Ethereum's main chain."""
SHORT = Terms(450, 1000, DAY)
"""Terms for clients who cannot wait for weeks."""
SEEDS = range(10)


@cache
def prices(seed: int) -> Prices:
    return Prices(market.year(seed))


def every(minutes: int) -> np.ndarray:
    return np.arange(0, YEAR, minutes)


def test_a_year_has_seen_everything() -> None:
    year = market.year(0)[:YEAR]
    assert (year.min() < 2, year.max()) == (True, 400)
    afternoon, night = (year.reshape(365, DAY)[:, hour * 60].mean() for hour in (15, 4))
    assert afternoon > 1.5 * night
    rate = year[1:] / year[:-1]
    assert rate.max() <= 1.125**market.BLOCKS * 1.0001
    assert rate.min() >= 0.875**market.BLOCKS * 0.9999


def test_the_dispute_is_the_worst_one() -> None:
    assert sum(step.gas for step in steps()) == worst_gas(OSAKA)
    bounds = Terms(20, 400, DAY)
    for gwei in (1, 10, 11, 200, 300):
        counted = bounds.counted(np.array([float(gwei)]))[0] * GWEI
        assert counted == fee_at(gwei * GWEI, 20 * GWEI, 400 * GWEI)
        assert min_stake.least_stake(int(counted), OSAKA) == 2 * worst_gas(OSAKA) * counted


def alone(found: Prices, start: int, terms: Terms) -> float:
    """Play one dispute against a prompt rival, like a node: check each minute, and ask its patience."""
    series, now, cost = found.series, float(start), 0.0
    bears = float(terms.counted(np.array([float(series[start])]))[0])
    left = dict.fromkeys(Time, float(terms.period)) | dict.fromkeys(
        (Time.CLOCK, Time.TRIAL), float(terms.clock)
    )
    waited = {"commitChallenge": 0.0, "challenge": COMMIT_AGE, "appeal": MOVE, "proceed": MOVE}
    for step in steps():
        now += waited.get(step.move, MOVE if step.answers else 0.0)
        now += terms.period if step.move == "finalize" else 0.0
        left[step.time] -= COMMIT_AGE if step.move == "challenge" else 0.0
        period = terms.clock if step.time in (Time.CLOCK, Time.TRIAL) else terms.period
        since = now
        while True:
            fee = float(series[int(now)]) + TIP
            asked = Patience(fee, bears, PATIENT, BUSY)  # type: ignore[arg-type]
            if step.time is Time.NOTHING:
                waits, end = asked.waits(Slack(since - now)), since + PATIENT
            else:
                waits = asked.waits(Slack(left[step.time], period))
                end = now + left[step.time] - gas_patience.reserve(period, BUSY)
            if not waits:
                break
            later = min(int(now) + 1.0, end)
            left[step.time] -= later - now
            now = later
            if now == end:
                break
        now += MOVE
        left[step.time] -= MOVE
        cost += step.gas * (float(series[int(now)]) + TIP)
    return cost / (worst_gas(OSAKA) * bears)


@pytest.mark.parametrize("terms", [Terms(1, 1000, DAY), Terms(60, 1000, WEEK)])
def test_all_at_once_is_what_a_node_does_one_by_one(terms: Terms) -> None:
    starts = every(YEAR // 12)
    found = Play(prices(0), starts, terms, Rival.PROMPT).outcome().ratio
    for start, ratio in zip(starts.tolist(), found.tolist(), strict=True):
        assert alone(prices(0), start, terms) == pytest.approx(ratio, rel=1e-4)


@pytest.mark.parametrize("rival", Rival)
@pytest.mark.parametrize("terms", [SAFE, SHORT])
def test_recommended_terms_pay_for_every_dispute(terms: Terms, rival: Rival) -> None:
    found = Play(prices(0), every(18 * 60), terms, rival).outcome()
    assert len(found.ratio) > 400
    assert found.ratio.max() < 1


def test_neither_fixed_prices_nor_following_alone_pay() -> None:
    mean = float(market.year(0)[:YEAR].mean())
    starts = every(18 * 60)
    fixed = Play(prices(0), starts, Terms(0, 0, DAY, fixed=mean, patient=False), Rival.PROMPT).outcome()
    hasty = Play(prices(0), starts, Terms(20, 1000, WEEK, patient=False), Rival.SPITEFUL).outcome()
    waits = Play(prices(0), starts, Terms(20, 1000, WEEK), Rival.SPITEFUL).outcome()
    assert fixed.ratio.max() > 5
    assert (hasty.ratio > 1).mean() > 2 * (waits.ratio > 1).mean() > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("terms", [SAFE, SHORT])
def test_recommended_terms_pay_for_a_dispute_that_begins_in_any_hour_of_ten_years(terms: Terms) -> None:
    worst = 0.0
    for seed in SEEDS:
        for rival in Rival:
            worst = max(worst, Play(prices(seed), every(60), terms, rival).outcome().ratio.max())
    print(f"{terms}: at most {worst:.3f} of the prize")
    assert worst < 1
