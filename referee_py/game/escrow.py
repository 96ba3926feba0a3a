"""Credits: the contract `Escrow` in Python. Money is never sent along the way; it is drawn by whom it belongs to."""

from __future__ import annotations

from . import refusals
from .refusals import require

BURNED = "0x000000000000000000000000000000000000dEaD"
"""Whose credit is burned ether."""
PRIZE_DIVISOR = 2
"""The share of what is lost that goes to whose work it was. NOTE: at most half, so that nobody profits from losing to
himself."""


class Escrow:
    """What every account can draw, and what has been drawn in all."""

    def __init__(self) -> None:
        self.credits: dict[str, int] = {}
        self.withdrawn = 0

    def credit(self, account: str, amount: int) -> None:
        if amount:
            self.credits[account] = self.credits.get(account, 0) + amount

    def withdraw(self, sender: str) -> int:
        """The amount that is sent."""
        amount = self.credits.pop(sender, 0)
        require(amount > 0, refusals.NothingToPay, sender)
        self.withdrawn += amount
        return amount
