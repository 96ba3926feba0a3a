"""The outbox: the signed transactions that we decided to send, on disk (:mod:`trainer_node.storage.database`)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from eth_account.signers.base import BaseAccount
from eth_utils.address import to_checksum_address
from sqlalchemy import delete, func, select
from web3.contract import Contract

from referee_py.errors import InvalidInput
from referee_py.program.playable import fitting

from ..errors import ChainError
from ..observe.metrics import Metrics
from ..storage.database import Database
from ..storage.tables import WANTED_UNTIL, Attempt, Progress, Transaction

_log = structlog.get_logger(__name__)


class Value(NamedTuple):
    """Wei to send with a call that credits the excess: ``wanted`` if the account has it, else what the account has,
    but no less than ``least``."""

    wanted: int
    least: int


_KNOWN = "transactions that were there when all jobs had been read, of"


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction to send. ``action``: its name in logs and metrics; ``to``: None creates a contract; ``value``: wei;
    ``least``: wei that are enough if the account does not have ``value``; ``until``: the last second, by the time of
    blocks and not of the contracts (which stops), in which it is wanted: what is not mined by then is taken back."""

    action: str
    to: str | None
    data: bytes
    value: int = 0
    least: int | None = None
    until: int | None = None

    @property
    def enough(self) -> int:
        """Least value with which the call is sent, in wei."""
        return self.value if self.least is None else min(self.least, self.value)

    @classmethod
    def of(
        cls, contract: Contract, function: str, *args: Any, value: int | Value = 0, action: str | None = None
    ) -> Call:
        """Return a call of a contract's function."""
        data = bytes.fromhex(str(contract.encode_abi(function, args)).removeprefix("0x"))
        wanted, least = (value.wanted, value.least) if isinstance(value, Value) else (value, None)
        return cls(action or function, str(contract.address), data, wanted, least)

    @classmethod
    def batch(
        cls,
        contract: Contract,
        *made: tuple[str, list[object]],
        value: int | Value = 0,
        inputs: int | None = None,
    ) -> Call:
        """Return one call that makes all of these calls, by function and arguments, in order.

        With ``inputs``, only the first of them that fit into a transaction about a node with so many inputs. Raises
        InvalidInput if there is none.
        """
        calls = [cls.of(contract, name, *given) for name, given in made]
        if inputs is not None:
            calls = calls[: fitting([(call.action, len(call.data)) for call in calls], inputs)]
        if not calls:
            raise InvalidInput("there is no move to make")
        if len(calls) == 1:
            name, given = made[0]
            return cls.of(contract, name, *given, value=value)
        action = "+".join(dict.fromkeys(call.action for call in calls))
        return cls.of(contract, "multicall", [call.data for call in calls], value=value, action=action)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A mined transaction. ``logs`` are raw, as the endpoint gave them; prices are wei per gas."""

    action: str
    tx_hash: bytes
    block: int
    gas_used: int
    gas_price: int
    contract: str | None
    logs: tuple[Any, ...]


class Outbox:
    """The transactions of one account. INVARIANT: the nonces of open ones are distinct, but for an empty one in the
    place of another."""

    def __init__(self, account: BaseAccount, database: Database, chain_id: int, metrics: Metrics) -> None:
        self._account = account
        self._database = database
        self._chain_id = chain_id
        self._metrics = metrics
        self._mine_and_open = Transaction.sender == account.address, Transaction.status == "open"

    def next_nonce(self, chain_nonce: int) -> int:
        """Return the lowest nonce, of those that the chain has not seen, that no open transaction has.

        NOTE: it may be lower than those of open ones, which wait for it: after a reorganisation, say.
        """
        with self._database.session() as session:
            ours = set(session.scalars(select(Transaction.nonce).where(*self._mine_and_open)))
        return next(nonce for nonce in itertools.count(chain_nonce) if nonce not in ours)

    def last_mined(self) -> int:
        """Return the highest nonce of a transaction that was mined; -1 if there is none."""
        return self._highest(Transaction.nonce)

    def last_block(self) -> int:
        """Return the newest block that has one of the transactions, as it was when that was seen; -1 if none has."""
        return self._highest(Transaction.block)

    @property
    def known(self) -> int:
        """The number of transactions of the account that were there when all of its jobs had been read."""
        return int(self._database.get(f"{_KNOWN} {self._account.address}", 0))

    @known.setter
    def known(self, count: int) -> None:
        self._database.put(f"{_KNOWN} {self._account.address}", count)

    def mined_rows(self, first: int, stop: int) -> Sequence[Transaction]:
        """Return the transactions that were mined, or failed, with nonces from ``first`` on and below ``stop``."""
        with self._database.session() as session:
            mine = Transaction.sender == self._account.address, Transaction.status.in_(("mined", "failed"))
            between = Transaction.nonce >= first, Transaction.nonce < stop
            return session.scalars(
                select(Transaction).where(*mine, *between).order_by(Transaction.nonce, Transaction.id)
            ).all()

    def open_again(self, rows: Collection[Transaction]) -> None:
        """Note that transactions that were mined may be mined again."""
        with self._database.session() as session:
            for row in session.scalars(
                select(Transaction).where(Transaction.id.in_([row.id for row in rows]))
            ):
                row.status, row.block, row.gas_used, row.gas_price = "open", None, None, None

    def open_rows(self) -> Sequence[Transaction]:
        """Return the transactions that may still be mined, by nonce."""
        with self._database.session() as session:
            return session.scalars(
                select(Transaction).where(*self._mine_and_open).order_by(Transaction.nonce)
            ).all()

    def same(self, call: Call) -> Transaction | None:
        """Return an open transaction with the same data to the same contract, with any value; None if there is none."""
        rows = (row for row in self.open_rows() if (row.to, row.data) == (call.to, call.data))
        return next(rows, None) if call.to is not None and call.data else None

    def rows(self, numbers: Collection[int]) -> Sequence[Transaction]:
        """Return those of these transactions that are there, by nonce."""
        with self._database.session() as session:
            among = select(Transaction).where(Transaction.id.in_(numbers))
            return session.scalars(among.order_by(Transaction.nonce)).all()

    def row(self, transaction_id: int) -> Transaction:
        """Return a transaction with its attempts. Raises ChainError if there is none."""
        with self._database.session() as session:
            row = session.get(Transaction, transaction_id)
        if row is None:
            raise ChainError(f"there is no transaction {transaction_id} in the outbox")
        return row

    def add(self, call: Call, nonce: int, gas: int, max_fee: int, priority_fee: int) -> Transaction:
        """Sign a new transaction and store it. Raises SignerUnavailable; nothing is stored then.

        NOTE: after a reorganisation it may be the very one that was mined before; that one is open again.
        """
        row = Transaction(
            action=call.action,
            sender=self._account.address,
            nonce=nonce,
            to=call.to,
            value=call.value,
            data=call.data,
            gas_limit=gas,
        )
        attempt = self._sign(row, max_fee, priority_fee)
        with self._database.session() as session:
            same = session.scalar(select(Attempt).where(Attempt.hash == attempt.hash))
            before = session.get(Transaction, same.transaction_id) if same is not None else None
            if before is not None:
                before.status, before.block, before.gas_used, before.gas_price = "open", None, None, None
            else:
                row.attempts.append(attempt)
                session.add(row)
            # SAFETY: in one write, or a transaction that was signed before a crash would be wanted for ever.
            if call.until is not None:
                kept = attempt if before is None else before.attempts[0]
                session.merge(Progress(name=_until_key(kept), value=json.dumps(call.until)))
        return row if before is None else self.row(before.id)

    def bump(self, row: Transaction, max_fee: int, priority_fee: int) -> Transaction:
        """Sign a transaction again with other fees and store the new attempt. Raises SignerUnavailable."""
        attempt = self._sign(row, max_fee, priority_fee)
        attempt.transaction_id = row.id
        with self._database.session() as session:
            session.add(attempt)
        return self.row(row.id)

    def until(self, row: Transaction) -> int | None:
        """Return the last second, by the time of blocks, in which an open transaction is wanted; None: always."""
        until = self._database.get(_until_key(row.attempts[0]))
        return None if until is None else int(until)

    def finish(self, row: Transaction, status: str, receipt: Receipt | None = None) -> None:
        """Store the outcome of a transaction, once."""
        with self._database.session() as session:
            kept = session.get(Transaction, row.id)
            if kept is None or kept.status != "open":
                return
            kept.status = status
            if receipt is not None:
                kept.block, kept.gas_used, kept.gas_price = receipt.block, receipt.gas_used, receipt.gas_price
            else:  # what was mined may be open again, and is wanted no longer than before
                session.execute(delete(Progress).where(Progress.name == _until_key(kept.attempts[0])))
        self._metrics.add("transactions", status)
        seen: dict[str, Any] = {}
        if receipt is not None:
            self._metrics.add("gas_used", row.action, by=receipt.gas_used)
            seen = {"gas_used": receipt.gas_used, "block": receipt.block}
        _log.info(f"transaction.{status}", action=row.action, nonce=row.nonce, **seen)

    def _highest(self, column: Any) -> int:
        """Return the highest value of a column among the transactions that were mined, or failed; -1 without any."""
        with self._database.session() as session:
            mine = Transaction.sender == self._account.address, Transaction.status.in_(("mined", "failed"))
            highest = session.scalar(select(func.max(column)).where(*mine))
        return -1 if highest is None else int(highest)

    def _sign(self, row: Transaction, max_fee: int, priority_fee: int) -> Attempt:
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": self._chain_id,
            "nonce": row.nonce,
            "value": row.value,
            "data": row.data,
            "gas": row.gas_limit,
            "maxFeePerGas": max_fee,
            "maxPriorityFeePerGas": priority_fee,
        }
        if row.to is not None:
            fields["to"] = to_checksum_address(row.to)
        signed = self._account.sign_transaction(fields)
        raw, digest = bytes(signed.raw_transaction), bytes(signed.hash)
        return Attempt(hash=digest, raw=raw, max_fee=max_fee, priority_fee=priority_fee)


def _until_key(attempt: Attempt) -> str:
    """Return the name under which the last second of a transaction is kept, by its first attempt."""
    return WANTED_UNTIL % attempt.hash.hex()
