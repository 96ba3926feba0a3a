"""Means of an account: what of its ether no open transaction may take, and whether all that it has sent is ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from ..errors import DiskFailed, InsufficientFunds, RpcCorrupt, RpcUnavailable
from ..storage.tables import Transaction
from .account import AccountReader
from .fees import FeeRule, Offered, short_of
from .outbox import Call, Outbox
from .pending import Pending


class Means:
    """Of the account of ``outbox``, as ``reader`` shows it. Methods raise RpcUnavailable and RpcCorrupt."""

    def __init__(self, outbox: Outbox, reader: AccountReader, fees: FeeRule) -> None:
        self._outbox, self._reader, self._fees = outbox, reader, fees
        self._pending = Pending(self.waiting)

    def simulate(self, call: Call) -> bytes:
        """Return the result of a call. Raises Reverted."""
        return self._pending.asked(call, lambda block: self._reader.simulate(call, block))

    def gas_cost(self, call: Call) -> int:
        """Return the wei that the call's gas may cost at the price that would be offered now. Raises Reverted."""
        gas, base = self._pending.asked(call, lambda block: self._reader.cost(call, block))
        return gas * self._fees.enough(base)

    def free(self) -> int:
        """Return the wei of the account that no open transaction may take."""
        rows = self._waiting()
        return self._reader.balance() - _most(rows)

    def priced(self, call: Call) -> tuple[int, int, Offered]:
        """Simulate a call. Returns its gas, the wei that it may take, and what to offer for the gas."""
        rows = self._waiting()
        have, gas, base = self._pending.asked(call, lambda block: self._reader.quote(call, block))
        free = have - _most(rows)
        offered = self._fees.first(base, gas, free - call.enough)
        if offered is None:
            # NOTE: open transactions may cost less than they offer. SAFETY: but their values are as good as spent, also
            # where an endpoint simulates without them: one that is not covered holds up all that come after it.
            free = have - _taken(rows, lambda _: base)
            offered = self._fees.first(base, gas, free - call.enough)
        if offered is None:
            needs = gas * self._fees.enough(base)
            raise InsufficientFunds(short_of(call.action, self._reader.address, have, call.enough, needs))
        return gas, free, offered

    def lacks_sent(self) -> bool:
        """Return whether the account has sent what the outbox does not know: of a database that was lost or restored,
        or of another program."""
        ours = max([self._outbox.last_mined(), *(row.nonce for row in self._outbox.open_rows())])
        return self._count() > max(ours + 1, self._outbox.known)

    def know_sent(self) -> None:
        """Note that all is known that the account has sent until now, also by other programs. It never raises."""
        with contextlib.suppress(RpcUnavailable, RpcCorrupt, DiskFailed):
            self._outbox.known = self._reader.nonce("latest")  # NOTE: the lower one, of two

    def _count(self) -> int:
        counts = self._reader.nonces("latest")
        return counts[-2 if len(counts) > 2 else -1]  # NOTE: of three, one alone is not believed

    def waiting(self) -> list[int]:
        """Return the ids of open transactions whose numbers are not used yet."""
        return [row.id for row in self._waiting()]

    def _waiting(self) -> list[Transaction]:
        """Return the open transactions that are not mined. SAFETY: they are asked for before the balance, or the ether
        of one that is mined in between would be free."""
        nonce = self._reader.nonce("latest")
        return [row for row in self._outbox.open_rows() if row.nonce >= nonce]


def _taken(rows: Sequence[Transaction], price: Callable[[Transaction], int]) -> int:
    """Return the wei that these take: their values, and their gas at a ``price`` of a unit."""
    return sum(row.value + row.gas_limit * price(row) for row in rows)


def _most(rows: Sequence[Transaction]) -> int:
    """Return the most wei that these may take."""
    return _taken(rows, lambda row: row.attempts[-1].max_fee)
