"""Views and events of a contract, coded by what is worked out once for its ABI.

Structs are named tuples, arrays lists, and addresses have a checksum, as from web3 with `decode_tuples`.

NOTE: web3's own objects search and check the ABI and make new classes for structs at each call. A node reads the same
few views and events all day, and most of its processor time went there.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from eth_abi.grammar import TupleType, parse
from eth_utils.abi import collapse_if_tuple, event_abi_to_log_topic, function_abi_to_4byte_selector
from eth_utils.address import to_checksum_address
from web3.contract import Contract
from web3.types import RPCResponse

from ..errors import ConfigError, RpcCorrupt
from .refusals import result_of

_Reads = Callable[[Any], Any]
_checksummed = lru_cache(1 << 12)(to_checksum_address)


class ViewCoder:
    """A function that only reads."""

    def __init__(self, contract: Contract, entry: Any) -> None:
        self._address, self._codec = str(contract.address), contract.w3.codec
        self._selector = bytes(function_abi_to_4byte_selector(entry))
        self._takes = [collapse_if_tuple(one) for one in entry["inputs"]]
        self._gives = [collapse_if_tuple(one) for one in entry["outputs"]]
        self._read = _struct(entry["outputs"])
        self._words = _words(self._gives)

    def request(self, args: Sequence[Any], block: int) -> list[Any]:
        """Return the parameters of an eth_call at a block. Raises errors of eth_abi."""
        data = self._selector + self._codec.encode(self._takes, args)
        return [{"to": self._address, "data": "0x" + data.hex()}, hex(block)]

    def result(self, answer: RPCResponse) -> Any:
        """Return the result in an answer: the only output, or a named tuple of all. Raises errors of web3 and eth_abi,
        TypeError and ValueError."""
        text = result_of(answer)
        data = bytes.fromhex(text.removeprefix("0x"))
        if len(text) != 2 + 2 * len(data):
            raise ValueError("the result is not hexadecimal digits after 0x")
        if len(data) % 32 or (self._words and len(data) != 32 * self._words):
            raise ValueError(
                f"the result has {len(data)} bytes, not {32 * self._words or 'a multiple of 32'}"
            )
        found = self._read(self._codec.decode(self._gives, data))
        return found[0] if len(self._gives) == 1 else found


class EventCoder:
    """An event. ``name``: what the contract calls it."""

    def __init__(self, contract: Contract, entry: Any) -> None:
        self.name = str(entry["name"])
        self._codec = contract.w3.codec
        self._indexed = [one for one in entry["inputs"] if one["indexed"]]
        self._others = [one for one in entry["inputs"] if not one["indexed"]]
        self._types = (
            [collapse_if_tuple(one) for one in self._indexed],
            [collapse_if_tuple(one) for one in self._others],
        )
        self._read = _struct(self._indexed), _struct(self._others)

    def args(self, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
        """Return the parameters in a log, by name: first those in ``topics``, of which the first one is the event's.

        Raises RpcCorrupt for another number of topics, and errors of eth_abi.
        """
        if len(topics) != len(self._indexed) + 1:
            raise RpcCorrupt(f"a log of {self.name} with {len(topics)} topics, not {len(self._indexed) + 1}")
        words = [
            self._codec.decode([type_], topic)[0]
            for type_, topic in zip(self._types[0], topics[1:], strict=True)
        ]
        found = self._read[0](words), self._read[1](self._codec.decode(self._types[1], data))
        names = [one["name"] for one in (*self._indexed, *self._others)]
        return dict(zip(names, (*found[0], *found[1]), strict=True))


class _Coders:
    def __init__(self, contract: Contract) -> None:
        self.views: dict[str, ViewCoder] = {}
        events = [entry for entry in contract.abi if entry["type"] == "event"]
        self.events = {bytes(event_abi_to_log_topic(one)): EventCoder(contract, one) for one in events}


_made: WeakKeyDictionary[Contract, _Coders] = WeakKeyDictionary()


def view_coder(contract: Contract, name: str) -> ViewCoder:
    """Return the coder of a view. Raises ConfigError if the contract has no function of the name, or several."""
    made = _of(contract).views
    if name not in made:
        found = [entry for entry in contract.abi if (entry["type"], entry.get("name")) == ("function", name)]
        if len(found) != 1:
            raise ConfigError(f"{contract.address} has not one function {name}, but {len(found)}")
        made[name] = ViewCoder(contract, found[0])
    return made[name]


def event_coders(contract: Contract) -> Mapping[bytes, EventCoder]:
    """Return the coders of a contract's events, by topic."""
    return _of(contract).events


def _of(contract: Contract) -> _Coders:
    found = _made.get(contract)
    if found is None:
        found = _made[contract] = _Coders(contract)
    return found


def _words(types: Sequence[str]) -> int:
    """Return of how many words of 32 bytes the encoding of values consists; 0 if that depends on them."""
    count = 0
    for parsed in map(parse, types):
        if parsed.is_dynamic:
            return 0
        each = (
            _words([one.to_type_str() for one in parsed.components]) if isinstance(parsed, TupleType) else 1
        )
        count += each * math.prod(length for (length,) in parsed.arrlist or ())
    return count


def _struct(entries: Sequence[Mapping[str, Any]]) -> _Reads:
    """Return what makes named tuples of a struct's decoded fields."""
    made = _named(tuple(entry["name"] for entry in entries))
    reads = [_reads(entry, entry["type"]) for entry in entries]
    return lambda raw: made._make([read(one) if read else one for read, one in zip(reads, raw, strict=True)])


@cache
def _named(fields: tuple[str, ...]) -> Any:
    """Return the named tuple of these fields: one class in a process, for Python compiles each that is made."""
    return namedtuple("Struct", fields, rename=True)


def _reads(entry: Mapping[str, Any], type_: str) -> _Reads | None:
    """Return what makes a value of a decoded one of some type; None if it is one already."""
    if type_.endswith("]"):
        inner = _reads(entry, type_.rpartition("[")[0])
        return list if inner is None else lambda raw: [inner(one) for one in raw]
    if type_ == "tuple":
        return _struct(entry["components"])
    return _checksummed if type_ == "address" else None
