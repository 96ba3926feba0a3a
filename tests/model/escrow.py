"""Credits: the contract `Escrow` in Python. No move sends money: an account withdraws its own credit."""

from __future__ import annotations

from referee_py.walk.refusals import NothingToPay, require


class Escrow:
    """The credit of each account, and the sum of all withdrawals, in wei."""

    def __init__(self) -> None:
        self.credits: dict[str, int] = {}
        self.withdrawn = 0

    def credit(self, account: str, amount: int) -> None:
        if amount:
            self.credits[account] = self.credits.get(account, 0) + amount

    def withdraw(self, sender: str) -> int:
        """Withdraw the sender's credit; return it, in wei. Raises NothingToPay."""
        amount = self.credits.pop(sender, 0)
        require(amount > 0, NothingToPay, sender)
        self.withdrawn += amount
        return amount
