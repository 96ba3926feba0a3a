"""Empty transactions of our own: with nonces that nobody has, and in the place of one that is not wanted any more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import structlog

from ..errors import DiskFailed, RpcCorrupt, RpcUnavailable, SignerUnavailable, TransactionLost
from ..storage.tables import Transaction
from .account import BARE_GAS, REPLACED, AccountReader
from .fees import FeeRule, Offered
from .majority import low
from .outbox import Call, Outbox

TAKE_BACK = "take back"
MAX_GAP = 64
"""Missing nonces before one of ours that are filled; with more it is given up."""
RESENT = 8
"""Transactions that were mined, and are sent again at once; more of them follow when these are mined."""

_log = structlog.get_logger(__name__)


class EmptyTransactions:
    """Signs them into the outbox, and sends them with ``broadcast``, which returns why an endpoint refuses one."""

    def __init__(
        self,
        outbox: Outbox,
        reader: AccountReader,
        fees: FeeRule,
        broadcast: Callable[[Transaction], str | None],
    ) -> None:
        self._outbox, self._reader, self._fees = outbox, reader, fees
        self._broadcast = broadcast

    def fill_gap(self, row: Transaction) -> None:
        """Send empty transactions with the nonces before this one that nobody has, or give it up if they are too many:
        an endpoint that was alone has reported a nonce that was too high, and it would never be mined.

        What a reorganisation has taken back is sent again as it was: whoever needs it may not do it again. What pools
        have of a database that was lost is replaced: nobody offers more for it.
        """
        # SAFETY: both counts, because an answer that is too low once must not give up what others will mine.
        counts = self._reader.nonces("latest")
        reached = max(self._reader.nonce("pending"), low(counts))
        ours, mined = {one.nonce for one in self._outbox.open_rows()}, self._outbox.last_mined()
        if reached <= mined:
            # SAFETY: an endpoint that shows an old count must not have sent again, for each that is open, all that was
            # ever mined. Refused, at no cost, where the endpoints are just behind.
            # NOTE: one whose number is used may be open for hours, until its receipt is shown.
            if row.nonce == min((nonce for nonce in ours if nonce >= reached), default=row.nonce):
                for one in self._outbox.mined_rows(reached, min(row.nonce, reached + RESENT)):
                    self._broadcast(one)
            return
        if row.nonce - reached > MAX_GAP + len(ours):
            self._outbox.finish(row, "lost")
            raise TransactionLost(
                f"{row.action} has nonce {row.nonce}, but the account has come to {reached}: it would not be mined"
            )
        # SAFETY: a high count, or one that shows an old one would have nonces filled that were used long ago; of three
        # not that of one alone, or it would keep us from replacing what pools have.
        first = min(reached, max(counts[-2 if len(counts) > 2 else -1], mined + 1))
        missing = [nonce for nonce in range(first, row.nonce) if nonce not in ours][:MAX_GAP]
        offered = self._offered() if missing else None
        if offered is None:
            return
        for nonce in missing:
            if not self._send("fill a gap", nonce, offered):
                return

    def taken_back(self, seen: int) -> Sequence[Transaction]:
        """Open those transactions again which a reorganisation has taken back, at most `RESENT` of them, and return
        them. ``seen``: the block that counts. It never raises.

        SAFETY: pools have them still, where neither outbox nor head show them: the same would be sent twice, and if
        their fee is too low by now, all that is sent later waits behind them.
        """
        with contextlib.suppress(RpcUnavailable, RpcCorrupt, DiskFailed):
            self._reader.seen, since = seen, seen - REPLACED
            if self._outbox.last_block() < since:
                return []
            counts = self._reader.nonces("latest")
            # SAFETY: of three, one alone is not believed; of two, one that is behind, or lies, opens nothing.
            count = counts[-2 if len(counts) > 2 else -1]
            ours = {one.nonce for one in self._outbox.open_rows()}
            mined = self._outbox.mined_rows(count, count + RESENT)
            again = {row.nonce: row for row in mined if row.nonce not in ours and (row.block or 0) >= since}
            self._outbox.open_again(list(again.values()))
            for row in again.values():
                _log.warning("transaction.open_again", action=row.action, nonce=row.nonce, block=row.block)
            return list(again.values())
        return []

    def is_late(self, row: Transaction) -> bool:
        """Return whether a transaction that is open is not wanted any more."""
        until = self._outbox.until(row)
        return until is not None and self._reader.time() > until

    def is_beside(self, row: Transaction) -> bool:
        """Return whether an empty transaction in the place of this one is open: until it is confirmed, this one may be
        mined after a reorganisation."""
        return row.action != TAKE_BACK and any(
            (one.nonce, one.action) == (row.nonce, TAKE_BACK) for one in self._outbox.open_rows()
        )

    def send_instead(self, row: Transaction) -> None:
        """Send an empty transaction with the nonce of one that is not wanted any more, unless one is on its way.

        SAFETY: one that was signed long ago, before an outage, was decided by what was so then. An endpoint may have it
        already, so the empty one offers more than it does. It may be mined all the same, so it stays open, and what it
        stakes is kept, until its nonce is used. Where the empty one would be refused for its fee, it is waited for.
        """
        if self.is_beside(row):
            return
        last = row.attempts[-1]
        offered = self._fees.raised(
            Offered(last.max_fee, last.priority_fee), self._reader.base_fee(), self._fees.max_fee
        )
        if offered is None and not self._reader.known(last):
            offered = self._offered()
        if offered is not None and self._send(TAKE_BACK, row.nonce, offered):
            _log.warning("transaction.taken_back", action=row.action, nonce=row.nonce)

    # ------------------------------------------------------------------ inside

    def _offered(self) -> Offered | None:
        return self._fees.first(self._reader.base_fee(), BARE_GAS, self._reader.balance())

    def _send(self, action: str, nonce: int, offered: Offered) -> bool:
        """Sign an empty transaction and send it; return False if it cannot be signed."""
        call = Call(action, self._reader.address, b"", 0)
        try:
            row = self._outbox.add(call, nonce, BARE_GAS, *offered)
        except SignerUnavailable as error:
            _log.warning("transaction.not_signed", action=action, nonce=nonce, reason=str(error))
            return False
        self._broadcast(row)
        return True
