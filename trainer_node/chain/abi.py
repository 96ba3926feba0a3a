"""The compiled contracts as package data, which scripts/build_contracts.py builds, and the codec of their arguments and
results.

    referee_py/abi/<Name>.json             the standard build
    referee_py/abi/portable/<Name>.json    the same sources without the opcode CLZ, for chains that lack it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from eth_abi.codec import ABICodec
from eth_abi.decoding import ContextFramesBytesIO, StringDecoder
from eth_abi.exceptions import DecodingError
from eth_abi.registry import BaseEquals
from web3._utils.abi import build_strict_registry

from ..errors import ConfigError

READINGS, SPARE_BYTES = 4, 1024
"""Most readings of data while they are decoded, and bytes more. eth_abi reads offsets twice, and arrays of a fixed
length inside structs up to four times; no contract of ours has more (tests/trainer_node/chain/test_coders.py)."""


class _Bounded(ContextFramesBytesIO):
    """SAFETY: offsets may all point to one place, so that small data are a value that fills the memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)  # type: ignore[no-untyped-call]
        self._left = READINGS * len(data) + SPARE_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self._left -= len(found)
        if self._left < 0:
            raise DecodingError("values share their bytes")
        return found


class Codec(ABICodec):
    """web3's strict codec, except that a string may hold any bytes, and that decoding takes time and memory in
    proportion to the data.

    SAFETY: the contracts accept any bytes as a URI. If a URI that is not UTF-8 were an error here, a liar's claim could
    make a whole job unreadable for everybody else.
    """

    stream_class = _Bounded

    def __init__(self) -> None:
        registry = build_strict_registry()
        registry.unregister_decoder("string")
        decoder = StringDecoder(handle_string_errors="replace")  # type: ignore[no-untyped-call]
        registry.register_decoder(BaseEquals("string"), decoder, label="string")  # type: ignore[no-untyped-call]
        super().__init__(registry)


CODEC = Codec()
"""The codec of all connections: what it works out for a type is worked out once in a process."""


class Build(StrEnum):
    """A build of the contracts. All do the same, by the same ABI; the portable one takes more gas."""

    STANDARD = "standard"
    PORTABLE = "portable"


@dataclass(frozen=True)
class ContractArtifact:
    """A compiled contract. ``immutables``: the places of each immutable in ``runtime``, where it has 32 zero bytes; in
    the order in which the compiler numbers their declarations: by file, then by line."""

    name: str
    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes
    immutables: tuple[tuple[int, ...], ...]


@cache
def load_artifact(name: str, build: Build = Build.STANDARD) -> ContractArtifact:
    """Return the compiled contract from package data. Raises ConfigError if it was never built."""
    file = f"{name}.json" if build is Build.STANDARD else f"{build}/{name}.json"
    path = resources.files("referee_py") / "abi" / file
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(
            f"referee_py/abi/{file} is missing; build the contracts with `make setup`"
        ) from None
    if "immutables" not in data:
        raise ConfigError(
            f"referee_py/abi/{file} is of an older build; build the contracts with `make setup`"
        )
    places = tuple(tuple(map(int, of)) for of in data["immutables"])
    return ContractArtifact(
        name, data["abi"], _code(data["bytecode"]), _code(data["deployedBytecode"]), places
    )


def abi_entry(contract: str, kind: str, name: str) -> dict[str, Any]:
    """Return the entry of a contract's function or event. Raises ConfigError if the contract has none or several."""
    entries = load_artifact(contract).abi
    found = [entry for entry in entries if (entry["type"], entry.get("name")) == (kind, name)]
    if len(found) != 1:
        raise ConfigError(
            f"{contract} has not one {kind} {name}, but {len(found)}; build it with `make setup`"
        )
    return found[0]


def _code(value: Any) -> bytes:
    text = value["object"] if isinstance(value, dict) else value
    return bytes.fromhex(text.removeprefix("0x"))
