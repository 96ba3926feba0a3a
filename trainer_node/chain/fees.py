"""Computes the fees to offer for a transaction, at first and in replacements (EIP-1559). Pure functions, in wei."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from ..errors import FeeTooHigh

GWEI, ETHER = 10**9, 10**18
"""In wei."""
LEAST_BUMP = 1.125
"""Least factor between the fees of a transaction and its replacement that Ethereum nodes accept."""
MOST_TIPS = 10
"""Limit of the tip, in configured tips, while the base fee is no hindrance: blocks may be late for everybody."""


def short_of(action: str, address: str, have: int, value: int, gas: int = 0) -> str:
    """Return what an account lacks for an action, in words; amounts in wei."""
    needs = f"{in_ether(value)} and up to {in_ether(gas)} for gas" if gas else in_ether(value)
    return f"{action} needs {needs}; {address} has {in_ether(have)}; send it {in_ether(value + gas - have)} or more"


def in_ether(wei: int) -> str:
    """Return an amount for people: in ether, but a small one in wei."""
    return f"{wei} wei" if 0 < wei < GWEI else f"{(Decimal(wei) / ETHER).normalize():f} ether"


def next_base_fee(base: int) -> int:
    """Return the highest base fee of the next block, after a block with ``base`` wei (EIP-1559)."""
    return base + max(-(-base // 8), 1)


class Offered(NamedTuple):
    """The highest price for a unit of gas, and the tip within it."""

    max_fee: int
    priority_fee: int


@dataclass(frozen=True, slots=True)
class FeeRule:
    """Fees in wei per gas; ``bump`` must satisfy the network's rule of 10 to 12.5 % for replacements."""

    max_fee: int = 200 * GWEI
    priority_fee: int = 1 * GWEI
    bump: float = 1.25
    gas_margin: float = 1.25
    """SAFETY: an estimate is the least gas that works; the margin covers state that changes before inclusion."""

    def enough(self, base: int) -> int:
        """Return a fee that the next block accepts, after one with ``base``. Raises FeeTooHigh if that is too much."""
        if base + self.priority_fee > self.max_fee:
            raise FeeTooHigh(
                f"base fee {base} plus tip {self.priority_fee} wei is above max_fee, {self.max_fee}; wait or raise it"
            )
        return min(next_base_fee(base) + self.priority_fee, self.max_fee)

    def first(self, base: int, gas: int, have: int) -> Offered | None:
        """Return an offer that lets the base fee double, as far as ``have`` wei pay for ``gas``; None if they do not
        pay for the next block. Raises FeeTooHigh."""
        if have < gas * self.enough(base):
            return None
        return Offered(min(2 * base + self.priority_fee, self.max_fee, have // gas), self.priority_fee)

    def raised(self, old: Offered, base: int, cap: int) -> Offered | None:
        """Return the offer of a replacement, at most ``cap``; None if the network does not accept such a replacement.

        The tip rises more slowly than the rest, and up to a limit while the base fee is not the reason for the wait.
        """
        max_fee = min(max(2 * base + self.priority_fee, int(old.max_fee * self.bump) + 1), cap)
        priority = max(self.priority_fee, int(old.priority_fee * LEAST_BUMP) + 1)
        if base + old.priority_fee <= old.max_fee:
            priority = min(priority, MOST_TIPS * max(self.priority_fee, GWEI // 10))
        priority = min(priority, max_fee)
        taken = max_fee >= old.max_fee * LEAST_BUMP and priority >= old.priority_fee * LEAST_BUMP
        taken = taken and priority > old.priority_fee
        return Offered(max_fee, priority) if taken else None
