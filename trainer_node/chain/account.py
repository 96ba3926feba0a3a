"""An account as most endpoints see it: its money and nonces, and the cost and the fate of its calls.

An endpoint can lie in any answer, and a transaction that is sent on a lie costs money, or blocks all that are sent
after it. So where there are several, no answer of one alone counts: numbers are medians, a call works if more endpoints
say so than that it does not, and a receipt is what most of those that answer show. On a tie, as between two, the
endpoint that serves decides; see docs/operating.md, "Several endpoints".
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import TransactionNotFound

from referee_py.gas_schedule import SCHEDULES

from ..errors import ChainError, InsufficientFunds, Reverted, RpcCorrupt, RpcRefused, RpcUnavailable
from ..storage.tables import Attempt, Transaction
from .block import block_request, quantity
from .endpoints import endpoints_of
from .fees import short_of
from .majority import answers, high, low
from .outbox import Call, Receipt
from .pending import LATEST
from .recorded_reads import BLOCK
from .refusals import result_of
from .rpc import Decoder, guarded

T = TypeVar("T")
Shown = tuple[Receipt, bool, bytes]
"""A receipt, whether the transaction succeeded, and the hash of its block."""
_MAX_WEI = 1 << 128
_MAX_GAS = 1 << 40
_MAX_COUNT = 1 << 63
_REMEDY = {
    "baseFeePerGas": ": the chain has no base fee (EIP-1559), which transactions here name; use another"
}
_BISECTED = 256
"""Blocks before the newest in which the transaction is looked for that has used a nonce: full nodes have no older
states at hand."""
REPLACED = 256
"""Blocks that a reorganisation may replace."""
LEAST_GAS, BARE_GAS = (of(schedule.base for schedule in SCHEDULES) for of in (min, max))
"""Gas that every transaction takes, under the cheapest of the schedules, and that a bare one takes under any."""


class Quote(NamedTuple):
    """Means of sending a call: the account's wei, units of gas with the margin, and wei for a unit of gas."""

    balance: int
    gas: int
    base_fee: int


class AccountReader:
    """Reads one account. Safe for several threads. Every method raises RpcUnavailable or RpcCorrupt."""

    def __init__(self, web3: Web3, address: str, decode: Decoder | None, gas_margin: float) -> None:
        self._web3, self.address = web3, address
        self._endpoints = endpoints_of(web3)
        self._decode = decode
        self._gas_margin = gas_margin
        self.seen = 0
        """The newest block that counts, as the last look has shown it; 0 before. SAFETY: most endpoints have it."""

    # ------------------------------------------------------------------ what most say

    def simulate(self, call: Call, block: str) -> bytes:
        """Return the result of the call on top of a block. Raises Reverted."""
        return self._most(lambda: self._simulated(call, block))[0]

    def quote(self, call: Call, block: str) -> Quote:
        """Simulate a call. Raises Reverted, and InsufficientFunds if the account has not what the call takes."""
        have = self.balance()
        if have < call.enough:
            raise InsufficientFunds(short_of(call.action, self.address, have, call.enough))
        probe = call if have >= call.value else replace(call, value=call.enough)
        self.simulate(probe, block)
        return Quote(have, *self.cost(probe, block))

    def cost(self, call: Call, block: str) -> tuple[int, int]:
        """Return the units of gas of a call on top of a block, with the margin and within the block's limit, and the
        base fee. Raises Reverted.

        SAFETY: on top of the latest block it may take more, and what waits in the pools may never be mined.
        """
        gas = high(self._most(lambda: self._estimate(call, block)))
        if block != LATEST:
            with contextlib.suppress(ChainError):  # NOTE: it may need what we have sent just now
                gas = max(gas, high(self._most(lambda: self._estimate(call, LATEST))))
        limit = high(self._most(lambda: self._of_block("gasLimit", _MAX_GAS)))
        return min(int(gas * self._gas_margin), limit), self.base_fee()

    def balance(self) -> int:
        """Return the wei of the account in the latest block."""
        return low(self._most(self._balance))

    def base_fee(self) -> int:
        """Return the base fee of the latest block, in wei for a unit of gas."""
        return high(self._most(lambda: self._of_block("baseFeePerGas", _MAX_WEI)))

    def head(self) -> int:
        """Return the number of the latest block, which is not older than what counts."""
        return max(self.seen, low(self._most(lambda: self._of_block("number", _MAX_COUNT))))

    def time(self) -> int:
        """Return the unix time of the latest block, in seconds."""
        return low(self._most(lambda: self._of_block("timestamp", _MAX_COUNT)))

    def nonces(self, block: str) -> list[int]:
        """Return how many transactions of the account the endpoints know at a block, ascending."""
        return sorted(self._most(lambda: self._nonce(block)))

    def nonce(self, block: str) -> int:
        """Return the count that most have reached."""
        return low(self.nonces(block))

    def used(self, nonce: int, block: int) -> bool:
        """Return whether the account has used a nonce by the block of this number, as the endpoint that is asked
        says."""
        return self._nonce(block) > nonce

    def known(self, attempt: Attempt) -> bool:
        """Return whether most know the transaction; False where they cannot say, and to send it again does no harm."""
        try:
            return bool(low(self._most(lambda: int(self._known(attempt)))))
        except RpcUnavailable:
            return False

    def mined(self, row: Transaction) -> bool:
        """Return whether an endpoint shows a receipt of one of the attempts."""
        return any(
            self._any(lambda attempt=attempt: self._receipt(row, attempt) is not None)  # type: ignore[misc]
            for attempt in row.attempts
        )

    def arrived(self, row: Transaction) -> bool:
        """Return whether an endpoint shows a receipt of one of the attempts, or knows one that waits."""
        return self.mined(row) or any(
            self._any(lambda attempt=attempt: self._known(attempt))  # type: ignore[misc]
            for attempt in row.attempts
        )

    def taken_by_us(self, row: Transaction) -> bool | None:
        """Return whether the block in which the transaction's nonce was used has one of its attempts; None if that
        cannot be found out. NOTE: some endpoints have a receipt much later than the block that it is of."""
        ours = {"0x" + attempt.hash.hex() for attempt in row.attempts}

        def shown() -> bool | None:
            used = self._hashes_of_use(row.nonce)
            return None if used is None else not ours.isdisjoint(used)

        try:
            found = self._most(shown)
        except ChainError:
            return None
        if any(found):
            return True
        return False if 2 * found.count(False) > len(found) else None

    def _any(self, act: Callable[[], bool]) -> bool:
        """Return whether one says so; all are heard."""
        return any(answers(self._endpoints, act, None))

    def receipt(self, row: Transaction, *, used: bool) -> tuple[Receipt, bool] | None:
        """Return the receipt of one of the attempts and whether it succeeded; None unless most show the same one, and,
        while its number is not ``used``, where they cannot say, or show it in an old block. Raises RpcRefused if they
        cannot say of one of them, and no other one has a receipt.

        SAFETY: Geth says "transaction indexing is in progress" for hours after a restart, of just those that are not
        mined. Who waited for that would send none of them again, and all later ones wait behind them. Nor does it know
        more of a newest attempt in whose place an older one was mined.
        """
        refused: RpcUnavailable | None = None
        for attempt in reversed(row.attempts):
            try:
                found = self._most(lambda attempt=attempt: self._receipt(row, attempt), _place)  # type: ignore[misc]
            except RpcUnavailable as error:
                if used and not isinstance(error, RpcRefused):
                    raise
                refused = error
                continue
            winner = _shown_by_most(found)
            if winner is not None and (used or self._may_be_taken_back(winner[0].block)):
                return winner[:2]
        if used and refused is not None:
            raise refused
        return None

    def _may_be_taken_back(self, block: int) -> bool:
        """Return whether what a receipt shows in a block is open again if its number turns out to be free.

        SAFETY: one lie could show a block so old that nobody would look at it again: its fee would never be raised, and
        all later ones wait behind it. Half of the blocks are left for the number to be found free, and the higher of
        two heads counts: one that is low would make any block new. But one that is far ahead of what counts would make
        any block old.
        """
        head = high(self._most(lambda: self._of_block("number", _MAX_COUNT)))
        if self.seen:
            head = min(head, self.seen + REPLACED // 4)
        return block >= head - REPLACED // 2

    def _most(self, act: Callable[[], T], mark: Callable[[T], Any] | None = lambda answer: answer) -> list[T]:
        return answers(self._endpoints, act, mark)

    # ------------------------------------------------------------------ what one says

    def _request(self, call: Call) -> Any:
        request: dict[str, Any] = {"from": self.address, "data": "0x" + call.data.hex(), "value": call.value}
        if call.to is not None:
            request["to"] = to_checksum_address(call.to)
        return request

    def _simulated(self, call: Call, block: int | str) -> bytes:
        with guarded(call.action, self._decode):
            return bytes(self._web3.eth.call(self._request(call), block))  # type: ignore[arg-type]

    def _balance(self) -> int:
        with guarded("balance"):
            return _bounded(
                self._web3.eth.get_balance(to_checksum_address(self.address)), _MAX_WEI, "balance"
            )

    def _estimate(self, call: Call, block: str) -> int:
        with guarded(call.action, self._decode):
            estimate = self._web3.eth.estimate_gas(self._request(call), block)  # type: ignore[arg-type]
            return _bounded(estimate, _MAX_GAS, "gas", LEAST_GAS)

    def _of_block(self, name: str, limit: int) -> int:
        # NOTE: not by web3, which refuses blocks whose extraData have more bytes than Ethereum's.
        with guarded("latest block"):
            block = result_of(self._endpoints.make_request(BLOCK, block_request("latest")))
            if block is None or name not in block:
                raise RpcCorrupt(f"the newest block has no {name}{_REMEDY.get(name, '')}")
            return _bounded(quantity(block[name]), limit, name)

    def _nonce(self, block: int | str) -> int:
        with guarded("nonce"):
            count = self._web3.eth.get_transaction_count(to_checksum_address(self.address), block)  # type: ignore[arg-type]
            return _bounded(count, _MAX_COUNT, "nonce")

    def _hashes_of_use(self, nonce: int) -> list[str] | None:
        """Return the hashes of all transactions in the block in which the account has used a nonce; None if that was
        long ago."""
        last = self._of_block("number", _MAX_COUNT)
        first = max(last - _BISECTED, 0)
        if self._nonce(first) > nonce:
            return None
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if self._nonce(middle) > nonce else (middle, last)
        with guarded(f"block {last}"):
            block = result_of(self._endpoints.make_request(BLOCK, block_request(last)))
            return [str(one).lower() for one in block["transactions"]]

    def _known(self, attempt: Attempt) -> bool:
        with guarded("eth_getTransactionByHash"):
            try:
                return self._web3.eth.get_transaction(attempt.hash) is not None  # type: ignore[arg-type]
            except TransactionNotFound:
                return False

    def _receipt(self, row: Transaction, attempt: Attempt) -> Shown | None:
        with guarded("eth_getTransactionReceipt"):
            try:
                raw: Any = self._web3.eth.get_transaction_receipt(attempt.hash)  # type: ignore[arg-type]
            except TransactionNotFound:
                return None
            if raw is None or raw["blockNumber"] is None:
                return None
            ours = all(bytes(one["transactionHash"]) == attempt.hash for one in (raw, *raw["logs"]))
            if not ours or raw["status"] not in (0, 1):
                raise RpcCorrupt(f"{row.action}: the receipt is not of this transaction")
            receipt = Receipt(
                action=row.action,
                tx_hash=attempt.hash,
                block=_bounded(raw["blockNumber"], _MAX_COUNT, "block number"),
                gas_used=min(_bounded(raw["gasUsed"], _MAX_GAS, "gas used"), row.gas_limit),
                gas_price=min(
                    _bounded(raw.get("effectiveGasPrice", 0), _MAX_WEI, "gas price"), attempt.max_fee
                ),
                contract=str(raw["contractAddress"]) if raw.get("contractAddress") else None,
                logs=tuple(raw["logs"]),
            )
            return receipt, raw["status"] == 1, bytes(raw["blockHash"])

    def cause(self, call: Call, block: int) -> Reverted | None:
        """Return why a mined transaction reverted, from the same call on the states after and before its block."""
        for number in (block, block - 1):
            try:
                self._most(lambda number=number: self._simulated(call, number))  # type: ignore[misc]
            except Reverted as error:
                return error
            except ChainError:
                return None
        return None


def _shown_by_most(found: list[Shown | None]) -> Shown | None:
    """Return what most endpoints show of a transaction, that of the serving one first."""
    place, count = Counter(_place(one) for one in found).most_common(1)[0]
    if 2 * count == len(found):
        place = _place(found[0])
    elif 2 * count < len(found):
        return None
    return next(one for one in found if _place(one) == place)


def _place(found: Shown | None) -> object:
    """Return what must be equal in two endpoints' receipts."""
    if found is None:
        return None
    receipt, ok, block_hash = found
    logs = [(log["address"], log["data"], *log["topics"]) for log in receipt.logs]
    shown = str(logs).lower(), (receipt.contract or "").lower()
    return block_hash, ok, receipt.block, receipt.gas_used, receipt.gas_price, *shown


def _bounded(value: Any, limit: int, name: str, least: int = 0) -> int:
    """Return ``value`` if it is an integer from ``least`` to below ``limit``. Raises RpcCorrupt."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < limit:
        # NOTE: str() refuses a number of 4,301 digits.
        shown = hex(value) if isinstance(value, int) else str(value)
        raise RpcCorrupt(f"{name} {shown[:80]} is not an integer from {least} to below {limit}")
    return value
