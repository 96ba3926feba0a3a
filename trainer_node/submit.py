"""Sending what was decided, when nobody waits for the answer: the next look at the chain decides anew."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.errors import AssayError

from .chain import Call, Receipt, Snapshot, TransactionManager
from .errors import Reverted
from .patience import Market

ACT_TIMEOUT_S = 60.0
"""How long a round waits for a block; the outbox goes on with the rest."""

_log = structlog.get_logger(__name__)


def act(transactions: TransactionManager, call: Call) -> Receipt | None:
    """Send it, and log how that ended; None if it is not mined by now. Raises nothing that Assay knows."""
    try:
        receipt = transactions.send(call, timeout_s=ACT_TIMEOUT_S)
        _log.info("act.done", act=call.action, gas=receipt.gas_used)
        return receipt
    except Reverted as error:
        # NOTE: somebody was faster, or the phase has ended.
        _log.info("act.refused", act=call.action, reason=str(error))
    except AssayError as error:
        _log.warning("act.failed", act=call.action, reason=str(error))
    return None


class Teller:
    """Draws what contracts owe the key of ``transactions``; while gas is dear, later (`patience`), unless we ``need``
    it."""

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
        """By contract: from when on it has owed us something, as far as we have seen."""

    def draw(self, snapshot: Snapshot) -> None:
        """Draw what is due. Raises RpcUnavailable and RpcCorrupt."""
        owed = snapshot.credits(self._transactions.address)
        self._since = {
            str(escrow.address): self._since.get(str(escrow.address), snapshot.now) for escrow, _ in owed
        }
        for escrow, wei in owed:
            patience = self._market(snapshot.block.base_fee).about(wei, snapshot.stake_gas)
            if not patience.lingers(snapshot.now - self._since[str(escrow.address)]) or self._need():
                act(self._transactions, Call.of(escrow, "withdraw"))
