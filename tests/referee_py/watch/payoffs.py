"""Gains from watching, from several accounts and from collusion (docs/economics.md, section 8), all in one unit.

Each account of a party that knows the right root costs ``account``: its transactions, and a stake that is tied up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A bounty of ``pool`` for ``shares`` watchers, the cost of an account, and the cost of computing the root."""

    pool: float
    shares: int
    account: float
    compute: float


def share(setting: Setting, right: int) -> float:
    """Return the share of each of ``right`` watchers (docs/protocol.md, section 9)."""
    most = max(right, setting.shares)
    return setting.pool * setting.shares / most**2


def even_share(setting: Setting, right: int) -> float:
    """Return the share of each if the whole pool were paid, however many are right: a rule that was rejected."""
    return setting.pool / max(right, setting.shares)


Rule = Callable[[Setting, int], float]


def honest_gain(setting: Setting, honest: int, others: int, rule: Rule = share) -> float:
    """Return the gain of each of ``honest`` watchers that compute the root, beside ``others`` accounts that know it."""
    return rule(setting, honest + others) - setting.account - setting.compute


def others_gain(setting: Setting, honest: int, others: int, rule: Rule = share) -> float:
    """Return the gain of a party with ``others`` accounts that knows the root for nothing, as the trainer does."""
    return others * (rule(setting, honest + others) - setting.account)


def best_others(setting: Setting, honest: int, rule: Rule = share) -> int:
    """Return that party's most gainful number of accounts. NOTE: each must earn its cost, which bounds it."""
    most = int(setting.pool / setting.account) + 1
    return max(range(most), key=lambda others: others_gain(setting, honest, others, rule))


def crowding(setting: Setting, honest: int, rule: Rule = share) -> int:
    """Return the least number of accounts with which that party makes honest watchers lose, at any cost to itself."""
    others = 0
    while honest_gain(setting, honest, others, rule) >= 0:
        others += 1
    return others


def least_pool(setting: Setting, honest: int) -> float:
    """Return the least pool that pays for ``honest`` watchers, beside a party that knows the root and gains most.

    That party fills the shares that the honest leave. It takes more only if the honest are more than half of them.
    """
    most = max(setting.shares, 2 * honest)
    return (setting.account + setting.compute) * most**2 / setting.shares


def least_watched(saved: float, stake: float, reward: float) -> float:
    """Return the least probability of a replay at which a trainer that saves ``saved`` by lying gains nothing.

    The trainer loses its stake and the reward if somebody replays.
    """
    return min(1.0, saved / (stake + reward))


EXAMPLE = Setting(pool=1, shares=4, account=0.005, compute=0.05)
"""In units of the pool: an account costs a two-hundredth, and computing the root a twentieth."""
TABLE = (0, 1, 3, 5, 8, 18)
"""Numbers of accounts of the party that knows the root for nothing."""


def table(setting: Setting, honest: int) -> list[str]:
    """Return lines of Markdown: the gain of each side, by the others' number of accounts."""
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
"""Pairs of stake and reward, for a lie that saves 0.05."""


def replaying_table() -> list[str]:
    """Return lines of Markdown: how often somebody must replay, so that nobody gains by lying."""
    lines = ["| stake | reward | somebody must replay one job in |", "|---:|---:|---:|"]
    for stake, reward in REPLAYING:
        lines.append(f"| {stake:g} | {reward:g} | {1 / least_watched(0.05, stake, reward):.1f} |")
    return lines
