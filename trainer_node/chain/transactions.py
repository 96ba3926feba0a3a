"""ONE transaction manager per key: simulate, price, sign, remember, send, replace, confirm.

                                      ┌──── replace: fee too low for replace_after_s ────┐
    simulate ─> outbox (signed) ─> sent ──────────────────────────────────────────────> mined | failed
        └ Reverted                    ├──── rebroadcast: the node forgot it ────────────> lost (nonce used elsewhere)
                                      └──── not wanted any more: an empty one instead ──> lost

SAFETY: a transaction is on disk before it is sent. A daemon that dies in between finds it again (`recover`) and sends
the same bytes: no action is done twice, and no nonce is skipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog
from eth_account.signers.base import BaseAccount
from web3 import Web3
from web3.exceptions import Web3RPCError

from referee_py.errors import AssayError

from ..errors import (
    FeeTooHigh,
    InsufficientFunds,
    Reverted,
    RpcCorrupt,
    RpcRefused,
    RpcUnavailable,
    SignerUnavailable,
    TransactionFailed,
    TransactionLost,
    TransactionPending,
)
from ..observe.metrics import Metrics
from ..storage.database import Database
from ..storage.tables import Attempt, Transaction
from .account import AccountReader
from .empty_transactions import EmptyTransactions
from .endpoints import endpoints_of
from .fees import FeeRule, Offered
from .late_receipts import LateReceipts
from .majority import low
from .outbox import Call, Outbox, Receipt
from .own_ether import Means
from .refusals import for_now, has_it_already
from .rpc import Decoder, guarded

_STOP_GRACE_S = 5.0
"""Seconds that a process that must stop still waits for a transaction; the outbox keeps the rest."""
_UNDERPRICED_S = 5.0
"""Seconds after which a transaction is replaced that the endpoint has forgotten and refuses for its low fee."""
_NONCE_TRIES = 4

_log = structlog.get_logger(__name__)


class TransactionManager:
    """Sends for one account. Safe for several threads; two managers with one key are not (see `process.exclusive`)."""

    def __init__(
        self,
        web3: Web3,
        account: BaseAccount,
        database: Database,
        *,
        chain_id: int,
        decode: Decoder | None = None,
        fees: FeeRule | None = None,
        confirmations: int = 0,
        poll_s: float = 0.5,
        replace_after_s: float = 45.0,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        stop: threading.Event | None = None,
    ) -> None:
        self.account = account
        self.address: str = account.address
        self._web3 = web3
        self._fees = fees or FeeRule()
        self._reader = AccountReader(web3, account.address, decode, self._fees.gas_margin)
        self._several = endpoints_of(web3).several
        self._confirmations = confirmations
        self._poll_s = poll_s
        self._replace_after_s = replace_after_s
        self._metrics = metrics or Metrics()
        self._outbox = Outbox(account, database, chain_id, self._metrics)
        self.means = Means(self._outbox, self._reader, self._fees)
        self._clock = clock
        self._sleep = sleep
        self._stop = stop or threading.Event()
        self._lock = threading.RLock()
        self._sent_at: dict[int, float] = {}
        """By transaction id: time of its newest attempt, or of its first sending by this process."""
        self._used = -1
        """Highest nonce of a transaction of ours that was lost."""
        self._receipts = LateReceipts(self._reader, clock)
        self._empties = EmptyTransactions(self._outbox, self._reader, self._fees, self._broadcast)

    # ------------------------------------------------------------------ actions

    def send(self, call: Call, *, timeout_s: float = 300.0) -> Receipt:
        """Submit a call and wait until it is mined.

        Raises Reverted and SignerUnavailable (nothing was sent), TransactionFailed, InsufficientFunds, FeeTooHigh,
        TransactionLost, TransactionPending after ``timeout_s``, RpcUnavailable, RpcCorrupt.
        """
        return self.wait(self.submit(call), timeout_s=timeout_s)

    def simulate(self, call: Call) -> bytes:
        """Return the result of the call. Raises Reverted."""
        return self.means.simulate(call)

    def gas_cost(self, call: Call) -> int:
        """Return the wei that the call's gas may cost at the price that would be offered now. Raises as `submit`."""
        return self.means.gas_cost(call)

    def submit(self, call: Call) -> int:
        """Simulate, price, sign, store, send. Returns the outbox id for :meth:`wait`. If the same call is still open,
        returns its id and sends nothing."""
        with self._lock:
            if (open_one := self._outbox.same(call)) is not None:
                return open_one.id
            gas, free, offered = self.means.priced(call)
            call = replace(call, value=max(call.enough, min(call.value, free - gas * offered.max_fee)))
            least = 0
            for _ in range(_NONCE_TRIES):
                row = self._outbox.add(call, self._next_nonce(least), gas, *offered)
                self._sent_at.pop(row.id, None)
                self._receipts.forget(row)
                # SAFETY: the process may have stood still since it was decided, or waited for a signature.
                if call.until is not None and (now := self._reader.time()) >= call.until:
                    self._outbox.finish(row, "refused")
                    raise TransactionLost(f"{call.action} was wanted until {call.until}, and it is {now}")
                if self._first_broadcast(row):
                    return row.id
                least = row.nonce + 1
            told = "nonces are used as fast as we take them; is this key used elsewhere?"
            raise TransactionLost(f"{call.action}: {told}")

    def wait(self, transaction_id: int, *, timeout_s: float = 300.0) -> Receipt:
        """Wait for one of our transactions; also advances those with lower nonces. Raises like :meth:`send`."""
        deadline = self._clock() + timeout_s
        while True:
            row = self._outbox.row(transaction_id)
            try:
                if (receipt := self._advance(row)) is not None:
                    return receipt
                for other in self._outbox.open_rows():
                    if other.nonce <= row.nonce and other.id != row.id:
                        self._outcome(other)
            except RpcUnavailable as error:
                if self._clock() >= deadline:
                    raise
                _log.warning("transaction.rpc_unavailable", action=row.action, reason=str(error))
            if self._stop.is_set():
                deadline = min(deadline, self._clock() + _STOP_GRACE_S)
            if self._clock() >= deadline:
                raise TransactionPending(
                    f"{row.action} (nonce {row.nonce}) was not mined within {timeout_s:.0f} s; it stays in the outbox"
                )
            self._sleep(self._poll_s)

    def wait_all(self, ids: Sequence[int], *, timeout_s: float) -> dict[int, Receipt | AssayError]:
        """Wait for several of our transactions at once. Returns how those have ended that have.

        SAFETY: each open one is looked at once a poll, however many are waited for, and only while there is time.
        """
        deadline, ended = self._clock() + timeout_s, dict[int, Receipt | AssayError]()
        while True:
            open_rows = self._outbox.open_rows()
            closed = set(ids) - {row.id for row in open_rows} - ended.keys()
            others = self._outbox.rows(closed)
            gone = closed - {row.id for row in others}
            ended |= dict.fromkeys(gone, TransactionLost("it is so old that the database has dropped it"))
            ended |= self._look((*others, *open_rows), deadline if timeout_s else float("inf"))
            if self._stop.is_set():
                deadline = min(deadline, self._clock() + _STOP_GRACE_S)
            if ended.keys() >= set(ids) or self._clock() >= deadline:
                return ended
            self._sleep(self._poll_s)

    def recover(self, seen: int | None = None) -> list[int]:
        """After a start, confirm what was mined meanwhile, and send the rest again; with the block that counts, also
        what a reorganisation has taken back. Returns ids that are still open.

        SAFETY: whoever does not answer about our transactions may show the chain, and keeps nobody from what is due.
        """
        for row in [] if seen is None else self._empties.taken_back(seen):
            self._sent_at.pop(row.id, None)
            self._receipts.forget(row)
        rows = self._outbox.open_rows()
        self._look(rows, float("inf"))
        for row in self._outbox.rows([row.id for row in rows]):
            _log.info("transaction.recovered", action=row.action, nonce=row.nonce, status=row.status)
        return self.open()

    def confirm(self, *, timeout_s: float = 300.0) -> None:
        """Wait until none of our transactions is open. Logs failed and lost ones. Raises TransactionPending."""
        deadline = self._clock() + timeout_s
        for transaction_id in self.recover():
            try:
                self.wait(transaction_id, timeout_s=max(deadline - self._clock(), 0.0))
            except (TransactionFailed, TransactionLost) as error:
                _log.warning("transaction.confirmed", reason=str(error))

    def open(self, to: str | None = None) -> list[int]:
        """Return the ids of transactions that may still be mined, by nonce; ``to``: only those to this contract."""
        return [row.id for row in self._outbox.open_rows() if to is None or row.to == to]

    def counts_at(self, transaction_id: int, block: int) -> bool:
        """Return whether the endpoint that is asked has what came of one of our transactions at that block."""
        # NOTE: one so old that the database has dropped it has come, too.
        kept = self._outbox.rows([transaction_id])
        if kept and kept[0].status == "open":
            return self._reader.used(kept[0].nonce, block)
        return all(row.block is None or row.block <= block for row in kept)

    def balance(self) -> int:
        """Return the wei of the account in the latest block."""
        return self._reader.balance()

    def nonce(self) -> int:
        """Return how many transactions of the account the endpoints know, those that wait included."""
        return self._reader.nonce("pending")

    def _next_nonce(self, least: int) -> int:
        """Return the nonce to send with: that which most endpoints would take next, ``least`` or higher.

        SAFETY: one that is too high is never mined, and what is sent later waits for it. One that is too low is
        refused, or lost, and the next attempt leaves it out. So of several endpoints one that answers alone is
        believed, at first, only as far as our own transactions go.
        """
        nonces, first = self._reader.nonces("pending"), not least
        if first and nonces[-1] > self._used:
            least = self._used + 1  # NOTE: most may lag behind a transaction that was lost
        reached = [nonce for nonce in nonces if nonce >= least]
        agreed = low(reached) if 2 * len(reached) >= len(nonces) else least
        ours = self._outbox.last_mined() + 1 + len({row.nonce for row in self._outbox.open_rows()})
        if first and ours and self._several and len(nonces) == 1:
            agreed = min(agreed, max(ours, least))
        return self._outbox.next_nonce(agreed)

    # ------------------------------------------------------------------ sending

    def _first_broadcast(self, row: Transaction) -> bool:
        """Send a new transaction. Returns False if its nonce is used already; raises if the endpoint refuses it."""
        try:
            refusal = self._broadcast(row)
            # SAFETY: an endpoint may have taken it and lost its answer, or refuse what it has taken; then others say
            # that its nonce is used: by itself. Sent once more with the next nonce, it would be two.
            if refusal is None or self._reader.arrived(row):
                return True
        except (RpcUnavailable, RpcCorrupt) as error:
            # NOTE: nobody knows whether it arrived. It stays open, and `wait` sends it again.
            _log.warning("transaction.unsent", action=row.action, nonce=row.nonce, reason=str(error))
            return True
        if for_now(refusal) and any(one.nonce < row.nonce for one in self._outbox.open_rows()):
            return True  # NOTE: it waits for those before it, and is sent again then
        self._outbox.finish(row, "refused")
        if "nonce" in refusal.lower():
            return False
        if "insufficient funds" in refusal.lower():
            raise InsufficientFunds(f"{row.action}: {refusal}")
        raise RpcUnavailable(f"{row.action}: the node refuses the transaction: {refusal}")

    def _broadcast(self, row: Transaction) -> str | None:
        """Send the newest attempt that the endpoint accepts. Returns None if it accepts one or already has it, else why
        it refuses the newest."""
        self._sent_at.setdefault(row.id, self._clock())
        newest: str | None = None
        for attempt in reversed(row.attempts):
            refusal = self._send_raw(attempt)
            if refusal is None:
                _log.debug("transaction.sent", action=row.action, nonce=row.nonce, hash=attempt.hash.hex())
                return None
            newest = newest or refusal
        return newest

    def _send_raw(self, attempt: Attempt) -> str | None:
        """Send an attempt. Returns why the endpoint refuses it; None if the endpoint accepts it or already has it."""
        try:
            with guarded("eth_sendRawTransaction"):
                try:
                    self._web3.eth.send_raw_transaction(attempt.raw)
                except Web3RPCError as error:
                    message = str(error.message)[:300]
                    return None if has_it_already(message) else message
        except Reverted as error:
            return str(error)
        return None

    # ------------------------------------------------------------------ confirming

    def _look(self, rows: Sequence[Transaction], until: float) -> dict[int, Receipt | AssayError]:
        """Look at each once, until endpoints do not answer or time is up. Return how those have ended that have."""
        ended = dict[int, Receipt | AssayError]()
        for row in rows:
            if self._clock() > until:
                break
            try:
                if (outcome := self._outcome(row)) is not None:
                    ended[row.id] = outcome
            except (RpcUnavailable, RpcCorrupt) as error:
                _log.warning("transactions.rpc_unavailable", action=row.action, reason=str(error))
                if isinstance(error, RpcUnavailable):
                    break
        return ended

    def _outcome(self, row: Transaction) -> Receipt | AssayError | None:
        """Look at a transaction once. Return how it has ended; None while it is open."""
        try:
            return self._advance(row)
        except (TransactionFailed, TransactionLost, FeeTooHigh, RpcRefused) as error:
            # SAFETY: what is refused is refused of this one. Who did not look at those behind it would neither raise
            # their fees nor know of any that it was mined, for as long as Geth indexes.
            _log.warning("transaction.advance", action=row.action, reason=str(error))
            return None if isinstance(error, FeeTooHigh | RpcRefused) else error

    def _advance(self, row: Transaction) -> Receipt | None:
        """Look at a transaction once: confirm, replace or rebroadcast it. Returns None while it is open."""
        with self._lock:
            # SAFETY: the nonce is read before the receipts, so a transaction mined in between is not called lost.
            used = self._reader.nonce("latest") > row.nonce
            if (found := self._reader.receipt(row, used=used)) is not None:
                return self._confirm(row, *found)
            if row.status == "lost":
                raise self._lost(row)
            if used:
                if not self._empties.is_beside(row):
                    self._missed(row)
                return None
            if self._empties.is_late(row):
                self._empties.send_instead(row)
                return None
            if row.id not in self._sent_at:
                self._broadcast(row)  # from an earlier process: its time until the fee is raised starts again
                return None
            waited = self._clock() - self._sent_at[row.id]
            due = waited >= self._replace_after_s
            if not due and not self._reader.known(row.attempts[-1]):
                refusal = self._broadcast(row) or ""
                due = waited >= _UNDERPRICED_S and "underpriced" in refusal.lower()
            if due:
                self._empties.fill_gap(row)
                self._replace(row)
            return None

    def _confirm(self, row: Transaction, receipt: Receipt, ok: bool) -> Receipt | None:
        # SAFETY: one endpoint of two could make up a block that never comes, for which later acts would wait.
        head = self._reader.head()
        if receipt.block > head + 2 or (self._confirmations and head - receipt.block < self._confirmations):
            return None
        self._outbox.finish(row, "mined" if ok else "failed", receipt)
        if ok:
            return receipt
        cause = self._reader.cause(Call(row.action, row.to, row.data, row.value), receipt.block)
        raise TransactionFailed(row.action, receipt.tx_hash, receipt.gas_used, cause)

    def _missed(self, row: Transaction) -> None:
        """Note that a nonce is used, and most endpoints have no receipt of ours; call it lost in the end."""
        if self._receipts.may_come(row):
            return
        self._used = max(self._used, row.nonce)
        lost = self._lost(row)
        self._outbox.finish(row, "lost")
        raise lost

    def _lost(self, row: Transaction) -> TransactionLost:
        if self._empties.is_late(row):
            told = "was not mined as long as it was wanted, and is taken back"
            return TransactionLost(f"{row.action} (nonce {row.nonce}) {told}")
        return TransactionLost(
            f"nonce {row.nonce} of {self.address} was used by a transaction that is not {row.action}; "
            "make sure that no other program uses this key"
        )

    def _replace(self, row: Transaction) -> None:
        """Send it again with a higher fee, within cap and balance, or unchanged if they allow no replacement."""
        old, self._sent_at[row.id] = row.attempts[-1], self._clock()
        cap = min(self._fees.max_fee, (self.balance() - row.value) // row.gas_limit)
        raised = self._fees.raised(Offered(old.max_fee, old.priority_fee), self._reader.base_fee(), cap)
        if raised is None:
            _log.warning("transaction.fee_cap", action=row.action, nonce=row.nonce, cap=cap)
            self._broadcast(row)
            return
        try:
            row = self._outbox.bump(row, *raised)
        except SignerUnavailable as error:
            _log.warning("transaction.not_signed", action=row.action, nonce=row.nonce, reason=str(error))
            self._broadcast(row)  # with the fee that it has
            return
        refusal = self._broadcast(row)
        self._metrics.add("replacements", row.action)
        told = {"action": row.action, "nonce": row.nonce, "max_fee": raised.max_fee}
        _log.info("transaction.replaced", **told, refusal=refusal)
