"""Event logs, decoded and checked: of the right contract, about the right thing, in the right blocks, in order.

How many logs are in a range of blocks, and how long, is for strangers to say. So a range that is too much for the
endpoint or for us is read in halves, down to single blocks, which hold no more than the chain lets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils.abi import event_abi_to_log_topic
from web3 import Web3
from web3.contract import Contract

from ..errors import RpcCorrupt, RpcRefused, RpcTooLong
from .rpc import guarded

MAX_EVENTS = 100_000
"""More than any match or job can cause; an endpoint that sends more is refused."""


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded log. ``args`` are by the contract's parameter names; structs are named tuples."""

    name: str
    args: dict[str, Any]
    block: int
    tx_hash: bytes
    index: int


def read_events(
    web3: Web3,
    contract: Contract,
    topics: list[int | None],
    names: tuple[str, ...] | None,
    first: int,
    last: int,
    span: int,
    most: int = MAX_EVENTS,
) -> Iterator[Event]:
    """Events of a contract in the blocks ``first..last``, in order.

    ``topics`` are the indexed words (None is any; the first is the event's own and filled in from ``names``). Raises
    RpcUnavailable or RpcCorrupt; if it is one block that the endpoint refuses, or that is too long, they say so.
    """
    known = {event_abi_to_log_topic(abi): abi["name"] for abi in contract.abi if abi["type"] == "event"}
    wanted = [topic for topic, name in known.items() if names is None or name in names]
    words = [None if word is None else word.to_bytes(32, "big") for word in topics[1:]]
    every: list[Any] = [
        ["0x" + topic.hex() for topic in wanted],
        *(None if word is None else "0x" + word.hex() for word in words),
    ]
    count = 0
    for start, end, raw_logs in _logs(web3, contract, every, first, last, span):
        with guarded("eth_getLogs"):
            count += len(raw_logs)
            if count > most:
                raise RpcCorrupt(f"eth_getLogs gave {count} logs; more than {most} cannot be")
            events = [_decode(contract, known, words, raw, start, end) for raw in raw_logs]
        yield from sorted(events, key=lambda event: (event.block, event.index))


def _logs(
    web3: Web3, contract: Contract, topics: list[Any], first: int, last: int, span: int
) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """What the endpoint gives for ``first..last``, in ranges of at most ``span`` blocks, in order: from, to, logs."""
    for start in range(first, last + 1, span):
        ranges = [(start, min(start + span - 1, last))]
        while ranges:
            begin, end = ranges.pop()
            try:
                with guarded("eth_getLogs"):
                    found = web3.eth.get_logs(
                        {"address": contract.address, "topics": topics, "fromBlock": begin, "toBlock": end}
                    )
            # NOTE: each endpoint has an error of its own for a range that is too much. Of an error that means something
            # else there is one more for each time that the span can be halved, and then it is raised all the same.
            except (RpcRefused, RpcTooLong) as error:
                if begin == end:
                    remedy = (
                        "raise limits.rpc_bytes" if isinstance(error, RpcTooLong) else "set another rpc_url"
                    )
                    raise type(error)(f"{error}, for block {begin} alone; {remedy}") from error
                middle = (begin + end) // 2
                ranges += [(middle + 1, end), (begin, middle)]
            else:
                yield begin, end, found


def _decode(
    contract: Contract,
    known: dict[bytes, str],
    words: list[bytes | None],
    raw: Any,
    start: int,
    end: int,
) -> Event:
    topics = [bytes(topic) for topic in raw["topics"]]
    matches = len(topics) > len(words) and all(
        word is None or word == topic for word, topic in zip(words, topics[1:], strict=False)
    )
    if str(raw["address"]).lower() != str(contract.address).lower() or not matches or topics[0] not in known:
        raise RpcCorrupt("eth_getLogs gave a log that was not asked for")
    block, index = raw["blockNumber"], raw["logIndex"]
    if (
        not isinstance(block, int)
        or not isinstance(index, int)
        or not start <= block <= end
        or raw.get("removed")
    ):
        raise RpcCorrupt(f"eth_getLogs gave a log of block {block}; asked for {start} to {end}")
    name = known[topics[0]]
    decoded = contract.events[name]().process_log(raw)
    return Event(name, dict(decoded["args"]), block, bytes(raw["transactionHash"]), index)
