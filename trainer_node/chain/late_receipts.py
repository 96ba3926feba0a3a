"""A nonce of ours is used and no receipt is shown: is the receipt late, or has another transaction used the nonce?

The block in which the nonce was used says so, where an endpoint still shows it. Else time decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ..storage.tables import Transaction
from .account import AccountReader

LOST_LOOKS, LOST_S = 3, 60.0
"""Looks until a transaction is called lost, because an endpoint may count a nonce before it has the receipt; and
seconds, while one endpoint alone shows a receipt, or none shows the block that has used the nonce."""
LOOK_S = 10.0
"""Seconds between two looks at that block."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Missing:
    """Time of the first look, number of looks; whether the block has our transaction (None: unknown), and when that was
    looked for."""

    since: float
    looks: int = 0
    ours: bool | None = None
    looked_at: float = float("-inf")


class LateReceipts:
    """Transactions whose nonce is used and whose receipt is not shown. ``clock`` counts seconds."""

    def __init__(self, reader: AccountReader, clock: Callable[[], float]) -> None:
        self._reader, self._clock = reader, clock
        self._missing: dict[int, _Missing] = {}

    def forget(self, row: Transaction) -> None:
        """Forget what was seen of a transaction."""
        self._missing.pop(row.id, None)

    def may_come(self, row: Transaction) -> bool:
        """Note a look that has shown no receipt. Return False once the nonce was used by another transaction."""
        now = self._clock()
        missing = self._missing.setdefault(row.id, _Missing(since=now))
        missing.looks += 1
        if missing.looks < LOST_LOOKS:
            return True
        if now - missing.looked_at >= LOOK_S:
            missing.ours, missing.looked_at = self._reader.taken_by_us(row), now
            if missing.ours:
                waited_s = round(now - missing.since, 1)
                _log.warning(
                    "transaction.receipt_late", action=row.action, nonce=row.nonce, waited_s=waited_s
                )
        if missing.ours:
            return True
        return now - missing.since < LOST_S and (missing.ours is None or self._reader.mined(row))
