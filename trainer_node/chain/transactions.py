"""ONE transaction manager per key: simulate, price, sign, remember, send, replace, confirm.

                                      ┌──── replace: fee too low for replace_after_s ────┐
    simulate ─> outbox (signed) ─> sent ──────────────────────────────────────────────> mined | failed
        └ Reverted                    └──── rebroadcast: the node forgot it ────────────> lost (nonce used elsewhere)

SAFETY: a transaction is on disk before it is sent. A daemon that dies in between finds it again (`recover`) and sends
the same bytes: no action is done twice, and no nonce is skipped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import structlog
from eth_account.signers.base import BaseAccount
from web3 import Web3
from web3.exceptions import Web3RPCError

from ..db import Database
from ..db_tables import Attempt, Transaction
from ..errors import (
    ChainError,
    FeeTooHigh,
    InsufficientFunds,
    Reverted,
    RpcCorrupt,
    RpcUnavailable,
    SignerUnavailable,
    TransactionFailed,
    TransactionLost,
    TransactionPending,
)
from ..metrics import Metrics
from .account import MAX_COUNT, AccountReader
from .endpoints import endpoints_of
from .fees import FeePolicy, Offered, short_of
from .outbox import Call, Outbox, Receipt
from .rpc import Decoder, guarded

T = TypeVar("T")
_STOP_GRACE_S = 5.0
"""Seconds that a process that is told to stop still waits for a transaction; the outbox keeps the rest."""
_UNDERPRICED_S = 5.0
"""Seconds after which a transaction is replaced that the endpoint has forgotten and refuses for its low fee."""
_LOST_POLLS = 3
"""Looks at a used nonce until a transaction is called lost: an endpoint may count a nonce before it has the receipt."""

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
        fees: FeePolicy | None = None,
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
        self._fees = fees or FeePolicy()
        self._reader = AccountReader(web3, account.address, decode, self._fees.gas_margin)
        self._confirmations = confirmations
        self._poll_s = poll_s
        self._replace_after_s = replace_after_s
        self._metrics = metrics or Metrics()
        self._outbox = Outbox(account, database, chain_id, self._metrics)
        self._clock = clock
        self._sleep = sleep
        self._stop = stop or threading.Event()
        self._lock = threading.RLock()
        # By transaction id: time of its newest attempt, or of its first sending by this process.
        self._sent_at: dict[int, float] = {}
        self._used = -1
        """Highest nonce that an endpoint has told to be free, and that was not."""
        self._missing: dict[int, int] = {}  # by transaction id: looks at a used nonce without a receipt

    # ------------------------------------------------------------------ actions

    def send(self, call: Call, *, timeout_s: float = 300.0) -> Receipt:
        """Submit a call and wait until it is mined.

        Raises Reverted and SignerUnavailable (nothing was sent), TransactionFailed, InsufficientFunds, FeeTooHigh,
        TransactionLost, TransactionPending after ``timeout_s``, RpcUnavailable, RpcCorrupt.
        """
        return self.wait(self.submit(call), timeout_s=timeout_s)

    def simulate(self, call: Call) -> bytes:
        """Return the result of the call on top of the pending block. Raises Reverted."""
        return self._reader.simulate(call)

    def gas_cost(self, call: Call) -> int:
        """Return the wei that the call's gas may cost at the price that would be offered now. Raises as `submit`."""
        gas, base = self._reader.estimate(call), self._reader.base_fee()
        return gas * self._fees.enough(base)

    def submit(self, call: Call) -> int:
        """Simulate, price, sign, store, send. Returns the outbox id for :meth:`wait`.

        If the same call is still open, returns its id and sends nothing.
        """
        with self._lock:
            open_one = self._outbox.same(call)
            if open_one is not None:
                return open_one.id
            gas, free, offered = self._by_majority(lambda: self._priced(call))
            call = replace(call, value=max(call.enough, min(call.value, free - gas * offered.max_fee)))
            for counted in (self._agreed_nonce, self._highest_nonce):
                row = self._outbox.add(call, self._outbox.next_nonce(counted()), gas, *offered)
                self._sent_at.pop(row.id, None)
                self._missing.pop(row.id, None)
                if self._first_broadcast(row):
                    return row.id
            raise TransactionLost(
                f"{call.action}: nonces are used as fast as we take them; is this key used elsewhere?"
            )

    def wait(self, transaction_id: int, *, timeout_s: float = 300.0) -> Receipt:
        """Wait for one of our transactions; also advances those with lower nonces. Raises like :meth:`send`."""
        deadline = self._clock() + timeout_s
        while True:
            row = self._outbox.row(transaction_id)
            try:
                receipt = self._advance(row)
                if receipt is not None:
                    return receipt
                for other in self._outbox.open_rows():
                    if other.nonce < row.nonce:
                        self._advance_quietly(other)
            except (RpcUnavailable, RpcCorrupt) as error:
                lost = isinstance(error, RpcCorrupt) and not endpoints_of(self._web3).pass_on()
                if lost or self._clock() >= deadline:
                    raise
                _log.warning("transaction.rpc_unavailable", action=row.action, reason=str(error))
            if self._stop.is_set():
                deadline = min(deadline, self._clock() + _STOP_GRACE_S)
            if self._clock() >= deadline:
                raise TransactionPending(
                    f"{row.action} (nonce {row.nonce}) was not mined within {timeout_s:.0f} s; it stays in the outbox"
                )
            self._sleep(self._poll_s)

    def recover(self) -> list[int]:
        """After a start, confirm what was mined meanwhile, and send the rest again. Returns ids that are still open."""
        for row in self._outbox.open_rows():
            self._advance_quietly(row)
            _log.info(
                "transaction.recovered",
                action=row.action,
                nonce=row.nonce,
                status=self._outbox.row(row.id).status,
            )
        return self.open()

    def confirm(self, *, timeout_s: float = 300.0) -> None:
        """Wait until none of our transactions is open. Logs failed and lost ones. Raises TransactionPending."""
        deadline = self._clock() + timeout_s
        for transaction_id in self.recover():
            try:
                self.wait(transaction_id, timeout_s=max(deadline - self._clock(), 0.0))
            except (TransactionFailed, TransactionLost) as error:
                _log.warning("transaction.confirmed", reason=str(error))

    def open(self) -> list[int]:
        """Return the ids of transactions that may still be mined, by nonce."""
        return [row.id for row in self._outbox.open_rows()]

    def balance(self) -> int:
        """Return the wei of the account in the latest block."""
        return self._reader.balance()

    def nonce(self) -> int:
        """Return how many transactions of the account the endpoint knows, those that wait included."""
        return self._reader.nonce("pending")

    def free(self) -> int:
        """Return the wei of the account that no open transaction may take. Raises RpcUnavailable and RpcCorrupt."""
        nonce = self._reader.nonce("latest")
        rows = [row for row in self._outbox.open_rows() if row.nonce >= nonce]
        return self.balance() - sum(row.value + row.gas_limit * row.attempts[-1].max_fee for row in rows)

    # ------------------------------------------------------------------ pricing

    def _priced(self, call: Call) -> tuple[int, int, Offered]:
        """Simulate a call. Returns its gas, the wei that it may take, and what to offer for the gas."""
        have = self.balance()
        if have < call.enough:
            raise InsufficientFunds(short_of(call.action, self.address, have, call.enough))
        probe = call if have >= call.value else replace(call, value=call.enough)
        self.simulate(probe)
        gas = self._reader.estimate(probe)
        base, free = self._reader.base_fee(), self.free()
        offered = self._fees.first(base, gas, free - call.enough)
        if offered is None:  # open transactions may cost less than they offer
            free, offered = have, self._fees.first(base, gas, have - call.enough)
        if offered is None:
            needs = gas * self._fees.enough(base)
            raise InsufficientFunds(short_of(call.action, self.address, have, call.enough, needs))
        return gas, free, offered

    def _by_majority(self, act: Callable[[], T]) -> T:
        """Return what `act` gives by the endpoint that serves or, if it raises, by another of those that do not raise,
        if these are most of all. SAFETY: one endpoint that lies cannot stop what an honest node has to do."""
        try:
            return act()
        except ChainError:
            endpoints = endpoints_of(self._web3)
            others = [one for one in endpoints.ranked() if one is not endpoints.serving]
            found = endpoints.each(lambda _: act(), others) if others else {}
            given = [found[one] for one in others if not isinstance(found[one], ChainError)]
            if 2 * len(given) <= len(endpoints.every):
                raise
            return given[0]  # type: ignore[return-value]

    def _nonces(self) -> list[int]:
        """Return the nonces that the endpoints would take next, highest first. Raises RpcUnavailable or RpcCorrupt."""
        endpoints = endpoints_of(self._web3)
        if not endpoints.several:
            return [self._reader.nonce("pending")]
        asked = [endpoint for endpoint in endpoints.every if not endpoint.waits] or endpoints.every
        found = endpoints.each(lambda _: self._reader.nonce("pending"), asked)
        nonces = sorted((nonce for nonce in found.values() if isinstance(nonce, int)), reverse=True)
        if not nonces:
            raise next(error for error in found.values() if isinstance(error, ChainError))
        return [nonce for nonce in nonces if nonce > self._used] or nonces

    def _agreed_nonce(self) -> int:
        """Return the highest nonce that a majority of those endpoints has reached.

        SAFETY: a nonce that is too high is never mined, and everything that is sent later waits for it. One that is too
        low is refused, or lost, and the next attempt leaves it out.
        """
        nonces = self._nonces()
        return nonces[len(nonces) // 2]

    def _highest_nonce(self) -> int:
        return self._nonces()[0]

    # ------------------------------------------------------------------ sending

    def _first_broadcast(self, row: Transaction) -> bool:
        """Send a new transaction. Returns False if its nonce is used already; raises if the endpoint refuses it."""
        try:
            refusal = self._broadcast(row)
        except (RpcUnavailable, RpcCorrupt) as error:
            # NOTE: nobody knows whether it arrived. It stays open, and `wait` sends it again.
            _log.warning("transaction.unsent", action=row.action, nonce=row.nonce, reason=str(error))
            return True
        if refusal is None:
            return True
        # SAFETY: an endpoint may have taken it and lost its answer. If it is mined since, the others say that its nonce
        # is used: by itself. Sent once more with the next nonce, it would be two.
        if "nonce" in refusal.lower() and any(self._reader.receipt(row, attempt) for attempt in row.attempts):
            return True
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
                    known = any(words in message.lower() for words in ("already known", "already imported"))
                    return None if known else message
        except Reverted as error:
            return str(error)
        return None

    # ------------------------------------------------------------------ confirming

    def _advance_quietly(self, row: Transaction) -> None:
        try:
            self._advance(row)
        except (TransactionFailed, TransactionLost, FeeTooHigh) as error:
            _log.warning("transaction.advance", action=row.action, reason=str(error))

    def _advance(self, row: Transaction) -> Receipt | None:
        """Look at a transaction once: confirm, replace or rebroadcast it. Returns None while it is open."""
        with self._lock:
            # SAFETY: the nonce is read before the receipts, so a transaction mined in between is not called lost.
            endpoints = endpoints_of(self._web3)
            used, source = self._reader.nonce("latest") > row.nonce, endpoints.source
            for attempt in reversed(row.attempts):
                found = self._reader.receipt(row, attempt)
                if found is not None:
                    return self._confirm(row, *found)
            if row.status == "lost":
                raise self._lost(row)
            # NOTE: an endpoint that took over in between may be behind the one that gave the nonce.
            if used and endpoints.source is source:
                return self._missed(row)
            if used:
                return None
            if row.id not in self._sent_at:
                self._broadcast(row)  # from an earlier process: its time until the fee is raised starts again
                return None
            waited = self._clock() - self._sent_at[row.id]
            due = waited >= self._replace_after_s
            if not due and not self._reader.known(row):
                refusal = self._broadcast(row) or ""
                due = waited >= _UNDERPRICED_S and "underpriced" in refusal.lower()
            if due:
                self._replace(row)
            return None

    def _confirm(self, row: Transaction, receipt: Receipt, ok: bool) -> Receipt | None:
        if self._confirmations:
            head = self._reader.of_block("number", MAX_COUNT)
            if head - receipt.block < self._confirmations:
                return None
        self._outbox.finish(row, "mined" if ok else "failed", receipt)
        if ok:
            return receipt
        raise TransactionFailed(
            row.action, receipt.tx_hash, receipt.gas_used, self._reader.cause(row, receipt.block)
        )

    def _missed(self, row: Transaction) -> Receipt | None:
        """Count a look at a used nonce while no attempt of ours has a receipt; in the end call the transaction lost,
        unless an endpoint has a receipt."""
        self._missing[row.id] = self._missing.get(row.id, 0) + 1
        if self._missing[row.id] < _LOST_POLLS:
            return None
        endpoints = endpoints_of(self._web3)
        for endpoint in endpoints.ranked() if endpoints.several else ():
            with endpoints.through(endpoint), contextlib.suppress(RpcUnavailable, RpcCorrupt):
                for attempt in reversed(row.attempts):
                    if (found := self._reader.receipt(row, attempt)) is not None:
                        return self._confirm(row, *found)
        self._used = max(self._used, row.nonce)
        self._outbox.finish(row, "lost")
        raise self._lost(row)

    def _lost(self, row: Transaction) -> TransactionLost:
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
