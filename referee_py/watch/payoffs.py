"""What watching, several accounts and collusion gain (docs/economics.md, section 8). Amounts are in one unit, any.

An account of somebody who knows the right root costs ``account``: its transactions, and a stake that is tied up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A bounty of ``pool`` for ``shares`` watchers, what an account costs, and what it costs to compute the root."""

    pool: float
    shares: int
    account: float
    compute: float


def share(setting: Setting, right: int) -> float:
    """What each of so many gets who were right."""
    most = max(right, setting.shares)
    return setting.pool * setting.shares / most**2


def even_share(setting: Setting, right: int) -> float:
    """What each would get if the whole pool were paid to however many come: the rule that was not taken."""
    return setting.pool / max(right, setting.shares)


Rule = Callable[[Setting, int], float]


def honest_gain(setting: Setting, honest: int, others: int, rule: Rule = share) -> float:
    """Of each of ``honest`` watchers, who compute the root, beside ``others`` accounts of somebody who knows it."""
    return rule(setting, honest + others) - setting.account - setting.compute


def others_gain(setting: Setting, honest: int, others: int, rule: Rule = share) -> float:
    """Of whoever knows the root for nothing, as the trainer does, and comes with ``others`` accounts."""
    return others * (rule(setting, honest + others) - setting.account)


def best_others(setting: Setting, honest: int, rule: Rule = share) -> int:
    """With how many accounts he gains most. NOTE: each must earn what it costs, so there are at most so many."""
    most = int(setting.pool / setting.account) + 1
    return max(range(most), key=lambda others: others_gain(setting, honest, others, rule))


def crowding(setting: Setting, honest: int, rule: Rule = share) -> int:
    """With how many accounts at least he makes watching lose for the honest, whatever it costs him."""
    others = 0
    while honest_gain(setting, honest, others, rule) >= 0:
        others += 1
    return others


def least_pool(setting: Setting, honest: int) -> float:
    """What pays for so many honest watchers, beside somebody who knows the root for nothing and gains what he can.

    He fills the places that they leave, and goes beyond only as far as they are more than half of them.
    """
    most = max(setting.shares, 2 * honest)
    return (setting.account + setting.compute) * most**2 / setting.shares


def least_watched(saved: float, stake: float, reward: float) -> float:
    """How likely somebody must replay, so that a trainer who saves so much by lying gains nothing.

    It loses its stake and the reward if somebody does.
    """
    return min(1.0, saved / (stake + reward))


EXAMPLE = Setting(pool=1, shares=4, account=0.005, compute=0.05)
"""A unit is what the pool holds: an account costs a two-hundredth of it, to compute the root a twentieth."""
TABLE = (0, 1, 3, 5, 8, 18)
"""Accounts of whoever knows the root for nothing."""


def table(setting: Setting, honest: int) -> list[str]:
    """Lines of Markdown: what each side gains, by the accounts of whoever knows the root for nothing."""
    lines = [
        "| others' accounts | share | an honest watcher gains | the others gain "
        "| if all were paid out: an honest watcher | the others |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for others in TABLE:
        values = [share(setting, honest + others)]
        for rule in (share, even_share):
            values += honest_gain(setting, honest, others, rule), others_gain(setting, honest, others, rule)
        lines.append(f"| {others} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    return lines


REPLAYING = ((0.1, 0.06), (0.1, 1.0), (0.5, 0.06), (2.0, 0.06))
"""Stakes and rewards, where a lie saves 0.05."""


def replaying_table() -> list[str]:
    """Lines of Markdown: how likely somebody must replay, so that nobody gains by lying."""
    lines = ["| stake | reward | somebody must replay one job in |", "|---:|---:|---:|"]
    for stake, reward in REPLAYING:
        lines.append(f"| {stake:g} | {reward:g} | {1 / least_watched(0.05, stake, reward):.1f} |")
    return lines
