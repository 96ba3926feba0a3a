"""Reading program files from strangers: canonical CBOR as plain values, each checked before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cbor2
from repops.opset import OPSET_VERSION, Dtype

from ..errors import InvalidEncoding, UnknownVersion
from .structure import Structure, TensorType

MAX_FILE_BYTES = 256 << 20
"""About two million nodes. A reader refuses more before it parses anything."""


def load(data: bytes, what: str, version: int, keys: set[str]) -> dict[str, Any]:
    """The top map of a file. Its format number stands under `format`, or under the name of what it is.

    Raises InvalidEncoding, or UnknownVersion for another format or operator set.
    """
    if len(data) > MAX_FILE_BYTES:
        raise InvalidEncoding(f"a {what} file of {len(data)} bytes; the limit is {MAX_FILE_BYTES}")
    try:
        top = cbor2.loads(data, max_depth=4, allow_indefinite=False, allow_duplicate_keys=False)
    except Exception as error:  # NOTE: hostile bytes reach constructors of many types inside the decoder
        raise InvalidEncoding(f"the {what} file is not CBOR: {error}") from error
    if type(top) is not dict or set(top) != keys:
        raise InvalidEncoding(f"a {what} file is a map with exactly the keys {sorted(keys)}")
    found = top["format" if "format" in keys else what]
    if type(found) is not int or found != version:
        raise UnknownVersion(f"{what} file format {found!r}; this build reads {version}")
    check_opset(top["opset"])
    return top


def check_opset(version: object) -> None:
    """Raises UnknownVersion unless this build implements exactly that operator set."""
    if type(version) is not int or version != OPSET_VERSION:
        raise UnknownVersion(
            f"operator set {version!r}; this build implements exactly {OPSET_VERSION}: "
            "install the release that implements it, or capture the program again with this one"
        )


def items(value: object) -> list[Any]:
    if type(value) is not list:
        raise InvalidEncoding(f"a list is expected, not {type(value).__name__}")
    return value


def octets(value: object) -> bytes:
    if type(value) is not bytes:
        raise InvalidEncoding(f"a byte string is expected, not {type(value).__name__}")
    return value


def ints(value: object, limits: Sequence[int]) -> list[int]:
    """A list of ints, one for each limit (exclusive)."""
    given = items(value)
    if len(given) != len(limits):
        raise InvalidEncoding(f"a list of {len(limits)} ints is expected, not of {len(given)}")
    for item, limit in zip(given, limits, strict=True):
        if type(item) is not int or not 0 <= item < limit:
            raise InvalidEncoding(f"an int below {limit} is expected, not {item!r}")
    return given


def nodes(value: object) -> tuple[Structure, ...]:
    return tuple(Structure.decode(octets(item)) for item in items(value))


def places(value: object) -> list[list[int]]:
    """Node and output of each slot source."""
    return [ints(item, (1 << 32, 1 << 8)) for item in items(value)]


def tensor_type(value: object) -> TensorType:
    """From [dtype, [dims]]."""
    given = items(value)
    if len(given) != 2:
        raise InvalidEncoding(f"a type is [dtype, [dims]], not a list of {len(given)}")
    dims = items(given[1])
    (code,) = ints([given[0]], [256])
    shape = tuple(ints(dims, [1 << 64] * len(dims)))
    if code not in set(Dtype):
        raise InvalidEncoding(f"dtype code {code} is none of {[int(d) for d in Dtype]}")
    return TensorType(Dtype(code), shape)
