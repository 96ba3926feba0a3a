"""Withdraws what the contracts owe an account."""

from __future__ import annotations

from collections.abc import Callable

from ..chain import Call, Snapshot
from ..stake.gas_patience import Market, Slack
from .due import Due


class Teller:
    """Withdraws to the account ``me``. It waits while gas is dear (`gas_patience`), unless ``pressed`` returns True."""

    def __init__(self, me: str, market: Callable[[int], Market], pressed: Callable[[], bool]) -> None:
        self._me = me
        self._market = market
        self._pressed = pressed
        self.owed = 0
        """Wei that the contracts owe the account, when we last looked."""
        self._since: dict[str, int] = {}
        """By contract: the instant since which we have seen that it owes us something."""

    def due(self, snapshot: Snapshot) -> list[Due]:
        """Return the withdrawals that are due. Raises RpcUnavailable and RpcCorrupt."""
        owed = snapshot.credits(self._me)
        self.owed = sum(wei for _, wei in owed)
        self._since = {
            str(escrow.address): self._since.get(str(escrow.address), snapshot.now) for escrow, _ in owed
        }
        found = []
        for escrow, wei in owed:
            patience = self._market(snapshot.block.base_fee).about(wei, snapshot.stake_gas)
            if not patience.waits(Slack(self._since[str(escrow.address)] - snapshot.now)) or self._pressed():
                found.append(Due(Call.of(escrow, "withdraw")))
        return found
