"""Calls of view functions, coded by what is worked out once for each function of an ABI.

NOTE: `contract.functions[name](*args).call()` of web3 searches and checks the ABI and makes new classes for structs at
each call. A node reads the same few views all day, and most of its processor time went there.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from eth_utils.abi import collapse_if_tuple, function_abi_to_4byte_selector
from eth_utils.address import to_checksum_address
from web3.contract import Contract
from web3.types import RPCResponse

from ..errors import ConfigError
from .rpc import result_of

_Reads = Callable[[Any], Any]
_checksummed = lru_cache(1 << 12)(to_checksum_address)


class ViewFunction:
    """A function of a contract that only reads. Raises ConfigError if the contract has none or several of the name."""

    def __init__(self, contract: Contract, name: str) -> None:
        found = [entry for entry in contract.abi if (entry["type"], entry.get("name")) == ("function", name)]
        if len(found) != 1:
            raise ConfigError(f"{contract.address} has not one function {name}, but {len(found)}")
        entry: Any = found[0]
        self._address, self._codec = str(contract.address), contract.w3.codec
        self._selector = bytes(function_abi_to_4byte_selector(entry))
        self._takes = [collapse_if_tuple(one) for one in entry["inputs"]]
        self._gives = [collapse_if_tuple(one) for one in entry["outputs"]]
        self._read = _struct(entry["outputs"])

    def request(self, args: Sequence[Any], block: int) -> list[Any]:
        """Return the parameters of an eth_call at a block. Raises errors of eth_abi."""
        data = self._selector + self._codec.encode(self._takes, args)
        return [{"to": self._address, "data": "0x" + data.hex()}, hex(block)]

    def result(self, answer: RPCResponse) -> Any:
        """Return the result in an answer: the only output, or a named tuple of all; a struct is a named tuple, an array
        a list, an address has a checksum. Raises errors of web3 and eth_abi."""
        data = bytes.fromhex(result_of(answer).removeprefix("0x"))
        found = self._read(self._codec.decode(self._gives, data))
        return found[0] if len(self._gives) == 1 else found


def _struct(entries: Sequence[Mapping[str, Any]]) -> _Reads:
    """Return what makes named tuples of a struct's decoded fields."""
    made: Any = namedtuple("Struct", [entry["name"] for entry in entries], rename=True)  # type: ignore[misc]
    reads = [_reads(entry, entry["type"]) for entry in entries]
    return lambda raw: made._make([read(one) if read else one for read, one in zip(reads, raw, strict=True)])


def _reads(entry: Mapping[str, Any], type_: str) -> _Reads | None:
    """Return what makes a value of a decoded one of some type; None if it is one already."""
    if type_.endswith("]"):
        inner = _reads(entry, type_.rpartition("[")[0])
        return list if inner is None else lambda raw: [inner(one) for one in raw]
    if type_ == "tuple":
        return _struct(entry["components"])
    return _checksummed if type_ == "address" else None
