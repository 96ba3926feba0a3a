"""Sends calls whose outcome no caller needs: the next look at the chain decides anew."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.errors import AssayError

from .chain import Call, Receipt, Snapshot, TransactionManager
from .errors import Reverted
from .patience import Market

ACT_TIMEOUT_S = 60.0
"""Seconds that a round waits for a transaction to be mined; after that the outbox takes care of it."""

_log = structlog.get_logger(__name__)


def act(transactions: TransactionManager, call: Call) -> Receipt | None:
    """Send a call and log the outcome. Returns None if it failed or is not mined yet; raises no AssayError."""
    try:
        receipt = transactions.send(call, timeout_s=ACT_TIMEOUT_S)
        _log.info("act.done", act=call.action, gas=receipt.gas_used)
        return receipt
    except Reverted as error:
        # NOTE: another party was faster, or the phase has ended.
        _log.info("act.refused", act=call.action, reason=str(error))
    except AssayError as error:
        _log.warning("act.failed", act=call.action, reason=str(error))
    return None


class Teller:
    """Withdraws what contracts owe the key of ``transactions``. It waits while gas is dear (`patience`), unless
    ``need`` returns True."""

    def __init__(
        self,
        transactions: TransactionManager,
        market: Callable[[int], Market],
        need: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transactions = transactions
        self._market = market
        self._need = need
        self._since: dict[str, int] = {}
        """By contract: the instant since which we have seen that it owes us something."""

    def draw(self, snapshot: Snapshot) -> None:
        """Withdraw what is due. Raises RpcUnavailable and RpcCorrupt."""
        owed = snapshot.credits(self._transactions.address)
        self._since = {
            str(escrow.address): self._since.get(str(escrow.address), snapshot.now) for escrow, _ in owed
        }
        for escrow, wei in owed:
            patience = self._market(snapshot.block.base_fee).about(wei, snapshot.stake_gas)
            if not patience.lingers(snapshot.now - self._since[str(escrow.address)]) or self._need():
                act(self._transactions, Call.of(escrow, "withdraw"))
