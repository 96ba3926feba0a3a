"""A block of the chain, from an endpoint's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import RpcCorrupt, RpcUnavailable

MAX_BLOCK = 1 << 63
TAGS = ("latest", "safe", "finalized")


@dataclass(frozen=True, slots=True)
class Block:
    """The block of a snapshot. ``timestamp`` is the chain's time, in unix seconds; ``base_fee`` is the least price of a
    unit of gas in the block, in wei."""

    number: int
    hash: bytes
    timestamp: int
    base_fee: int

    def __str__(self) -> str:
        return f"0x{self.hash.hex()[:16]} of {self.timestamp} with base fee {self.base_fee}"


def block_request(at: int | str) -> list[Any]:
    """Return the parameters of eth_getBlockByNumber for a number or one of `TAGS`."""
    return [at if isinstance(at, str) else hex(at), False]


def block_of(answer: Any, at: int | str) -> Block:
    """Return the block of an answer to :func:`block_request`.

    Raises RpcUnavailable if the endpoint does not have the block, RpcCorrupt if the answer is not a block.
    """
    failure, raw = answer.get("error"), answer.get("result")
    if failure is not None or raw is None:
        said = f": {str(failure.get('message'))[:200]}" if failure else ""
        remedy = '; set finality = "confirmations"' if at in TAGS[1:] else ""
        raise RpcUnavailable(f"the RPC endpoint does not have block {at}{said}{remedy}")
    try:
        # NOTE: a chain without EIP-1559 has no base fee.
        numbers = [quantity(raw[name]) for name in ("number", "timestamp")]
        base_fee = quantity(raw.get("baseFeePerGas") or "0x0")
        digest = bytes.fromhex(raw["hash"].removeprefix("0x"))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise RpcCorrupt(
            f"eth_getBlock({at}): the answer makes no sense ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    found = Block(numbers[0], digest, numbers[1], base_fee)
    if len(digest) != 32 or (isinstance(at, int) and found.number != at):
        raise RpcCorrupt(f"eth_getBlock({at}) gave block {found.number} at {found.timestamp}")
    return found


def quantity(text: Any) -> int:
    """Return a JSON-RPC quantity below 2^63. Raises TypeError or ValueError."""
    if not isinstance(text, str) or not text.startswith("0x") or len(text) > 66:
        raise ValueError(f"{str(text)[:80]!r} is not a quantity")
    value = int(text, 16)
    if not 0 <= value < MAX_BLOCK:
        raise ValueError(f"{value} is not below {MAX_BLOCK}")
    return value
