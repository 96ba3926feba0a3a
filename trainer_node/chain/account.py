"""What the chain says of one account: its money and nonces, what a call of it costs, and what became of it."""

from __future__ import annotations

from typing import Any

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import TransactionNotFound

from ..db_tables import Attempt, Transaction
from ..errors import ChainError, Reverted, RpcCorrupt
from .outbox import Call, Receipt
from .rpc import Decoder, guarded

_MAX_WEI = 1 << 128
_MAX_GAS = 1 << 40
MAX_COUNT = 1 << 63


class AccountReader:
    """Reads one account through a connection. Every method raises RpcUnavailable or RpcCorrupt."""

    def __init__(self, web3: Web3, address: str, decode: Decoder | None, gas_margin: float) -> None:
        self.address = address
        self._web3 = web3
        self._decode = decode
        self._gas_margin = gas_margin

    def simulate(self, call: Call) -> bytes:
        """Return the result of the call on top of the pending block. Raises Reverted."""
        with guarded(call.action, self._decode):
            return bytes(self._web3.eth.call(self._request(call), "pending"))

    def balance(self) -> int:
        """Return the wei of the account in the latest block."""
        with guarded("balance"):
            return _bounded(
                self._web3.eth.get_balance(to_checksum_address(self.address)), _MAX_WEI, "balance"
            )

    def estimate(self, call: Call) -> int:
        """Return the units of gas of a call, with the margin and within the block's limit. Raises Reverted."""
        with guarded(call.action, self._decode):
            estimate = _bounded(self._web3.eth.estimate_gas(self._request(call), "pending"), _MAX_GAS, "gas")
        limit = self.of_block("gasLimit", _MAX_GAS)
        return min(int(estimate * self._gas_margin), limit)

    def base_fee(self) -> int:
        """Return the base fee of the latest block, in wei for a unit of gas."""
        return self.of_block("baseFeePerGas", _MAX_WEI)

    def of_block(self, name: str, limit: int) -> int:
        """Return a number in the latest block."""
        with guarded("latest block"):
            return _bounded(self._web3.eth.get_block("latest")[name], limit, name)  # type: ignore[literal-required]

    def nonce(self, block: str) -> int:
        """Return how many transactions of the account are known at a block."""
        with guarded("nonce"):
            count = self._web3.eth.get_transaction_count(to_checksum_address(self.address), block)  # type: ignore[arg-type]
        return _bounded(count, MAX_COUNT, "nonce")

    def known(self, row: Transaction) -> bool:
        """Return whether the newest attempt is known."""
        with guarded("eth_getTransactionByHash"):
            try:
                return self._web3.eth.get_transaction(row.attempts[-1].hash) is not None  # type: ignore[arg-type]
            except TransactionNotFound:
                return False

    def receipt(self, row: Transaction, attempt: Attempt) -> tuple[Receipt, bool] | None:
        """Return the receipt of an attempt and whether it succeeded; None while there is none."""
        with guarded("eth_getTransactionReceipt"):
            try:
                raw: Any = self._web3.eth.get_transaction_receipt(attempt.hash)  # type: ignore[arg-type]
            except TransactionNotFound:
                return None
            if raw is None or raw["blockNumber"] is None:
                return None
            if bytes(raw["transactionHash"]) != attempt.hash or raw["status"] not in (0, 1):
                raise RpcCorrupt(f"{row.action}: the receipt is not of this transaction")
            receipt = Receipt(
                action=row.action,
                tx_hash=attempt.hash,
                block=_bounded(raw["blockNumber"], MAX_COUNT, "block number"),
                gas_used=_bounded(raw["gasUsed"], _MAX_GAS, "gas used"),
                gas_price=_bounded(raw.get("effectiveGasPrice", 0), _MAX_WEI, "gas price"),
                contract=str(raw["contractAddress"]) if raw.get("contractAddress") else None,
                logs=tuple(raw["logs"]),
            )
            return receipt, raw["status"] == 1

    def cause(self, row: Transaction, block: int) -> Reverted | None:
        """Return why a mined transaction reverted, from the same call on the states after and before its block."""
        call = Call(row.action, row.to, row.data, row.value)
        for number in (block, block - 1):
            try:
                with guarded(row.action, self._decode):
                    self._web3.eth.call(self._request(call), number)
            except Reverted as error:
                return error
            except ChainError:
                return None
        return None

    def _request(self, call: Call) -> Any:
        request: dict[str, Any] = {"from": self.address, "data": "0x" + call.data.hex(), "value": call.value}
        if call.to is not None:
            request["to"] = to_checksum_address(call.to)
        return request


def _bounded(value: Any, limit: int, name: str) -> int:
    """Return ``value`` if it is an integer from 0 to below ``limit``. Raises RpcCorrupt."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        # NOTE: str() refuses a number of 4,301 digits.
        shown = hex(value) if isinstance(value, int) else str(value)
        raise RpcCorrupt(f"{name} {shown[:80]} is not an integer below {limit}")
    return value
