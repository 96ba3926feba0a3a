"""Event logs, decoded and checked: of the right contract, about the right thing, in the right blocks, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eth_utils.abi import event_abi_to_log_topic
from web3 import Web3
from web3.contract import Contract

from ..errors import RpcCorrupt
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
    RpcUnavailable or RpcCorrupt.
    """
    known = {event_abi_to_log_topic(abi): abi["name"] for abi in contract.abi if abi["type"] == "event"}
    wanted = [topic for topic, name in known.items() if names is None or name in names]
    words = [None if word is None else word.to_bytes(32, "big") for word in topics[1:]]
    count = 0
    for start in range(first, last + 1, span):
        end = min(start + span - 1, last)
        with guarded("eth_getLogs"):
            raw_logs = web3.eth.get_logs(
                {
                    "address": contract.address,
                    "topics": [
                        ["0x" + topic.hex() for topic in wanted],
                        *(None if word is None else "0x" + word.hex() for word in words),
                    ],
                    "fromBlock": start,
                    "toBlock": end,
                }
            )
            count += len(raw_logs)
            if count > most:
                raise RpcCorrupt(f"eth_getLogs gave {count} logs; more than {most} cannot be")
            events = [_decode(contract, known, words, raw, start, end) for raw in raw_logs]
        yield from sorted(events, key=lambda event: (event.block, event.index))


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
