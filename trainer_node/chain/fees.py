"""What to offer for a transaction's gas, at first and when it is not mined (EIP-1559). Pure functions, in wei."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..errors import FeeTooHigh

GWEI = 10**9
LEAST_BUMP = 1.125
"""Nodes of the network take no replacement whose fees are not so many times what they were."""
MOST_TIPS = 10
"""How many times the tip that is set is offered while the base fee is no hindrance: blocks may be late for all."""


def next_base_fee(base: int) -> int:
    """What the next block may ask for a unit of gas at most, after one that asks ``base`` wei (EIP-1559)."""
    return base + max(-(-base // 8), 1)


class Offered(NamedTuple):
    """The most that is paid, and the tip within it."""

    max_fee: int
    priority_fee: int


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """How much to pay. Wei per gas; ``bump`` must satisfy the network's rule of 10 to 12.5 % for replacements."""

    max_fee: int = 200 * GWEI
    priority_fee: int = 1 * GWEI
    bump: float = 1.25
    gas_margin: float = 1.25
    """SAFETY: an estimate is the least that works; the margin covers state that changes before inclusion."""

    def enough(self, base: int) -> int:
        """What the next block takes, after one that asks ``base``. Raises FeeTooHigh if that one asks too much."""
        if base + self.priority_fee > self.max_fee:
            raise FeeTooHigh(
                f"base fee {base} plus tip {self.priority_fee} wei is above max_fee, {self.max_fee}; wait or raise it"
            )
        return min(next_base_fee(base) + self.priority_fee, self.max_fee)

    def first(self, base: int, gas: int, have: int) -> Offered | None:
        """Room for the base fee to double, as far as ``have`` wei go for so much gas; None if the next block would not
        take what they do for. Raises FeeTooHigh."""
        if have < gas * self.enough(base):
            return None
        return Offered(min(2 * base + self.priority_fee, self.max_fee, have // gas), self.priority_fee)

    def raised(self, old: Offered, base: int, cap: int) -> Offered | None:
        """What to offer in place of what was not mined, ``cap`` at most; None if the network takes no such replacement.

        The tip rises more slowly than the rest, and to a limit while the base fee is not what keeps it waiting.
        """
        max_fee = min(max(2 * base + self.priority_fee, int(old.max_fee * self.bump) + 1), cap)
        priority = max(self.priority_fee, int(old.priority_fee * LEAST_BUMP) + 1)
        if base + old.priority_fee <= old.max_fee:
            priority = min(priority, MOST_TIPS * max(self.priority_fee, GWEI // 10))
        priority = min(priority, max_fee)
        taken = max_fee >= old.max_fee * LEAST_BUMP and priority >= old.priority_fee * LEAST_BUMP
        taken = taken and priority > old.priority_fee
        return Offered(max_fee, priority) if taken else None
