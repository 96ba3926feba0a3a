"""Attributes of an operator as bytes, in the order of its row in the operator table (docs/protocol.md, section 4).

    int    u64be (for a signed value: its two's complement)
    ints   count u8 ‖ u64be each
    dtype  u8

Every value has exactly one encoding, so two structures are the same operator if and only if their bytes are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from repops.opset import Dtype, Op, OpError

from ..errors import InvalidEncoding


def encode_attributes(op: Op, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of these attributes. Raises InvalidEncoding if they do not belong to the operator."""
    try:
        normal = op.normalize(values)
    except OpError as error:
        raise InvalidEncoding(str(error)) from error
    return b"".join(_ENCODE[kind](op, normal[name]) for name, kind in op.attrs)


def decode_attributes(op: Op, data: bytes) -> dict[str, Any]:
    """Decode the result of :func:`encode_attributes`. Raises InvalidEncoding for anything else."""
    values, at = {}, 0
    try:
        for name, kind in op.attrs:
            values[name], at = _DECODE[kind](data, at)
    except (struct.error, IndexError, ValueError) as error:
        raise InvalidEncoding(
            f"{op.name}: attributes end early or hold an unknown code: {data.hex()}"
        ) from error
    if at != len(data):
        raise InvalidEncoding(f"{op.name}: {len(data) - at} bytes follow the last attribute: {data.hex()}")
    return values


def _encode_ints(op: Op, values: tuple[int, ...]) -> bytes:
    if len(values) > 255:
        raise InvalidEncoding(f"{op.name}: a list of {len(values)} ints is above the limit of 255")
    return struct.pack(f">B{len(values)}Q", len(values), *values)


def _decode_int(data: bytes, at: int) -> tuple[int, int]:
    return struct.unpack_from(">Q", data, at)[0], at + 8


def _decode_ints(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count = data[at]
    return struct.unpack_from(f">{count}Q", data, at + 1), at + 1 + 8 * count


def _decode_dtype(data: bytes, at: int) -> tuple[Dtype, int]:
    return Dtype(data[at]), at + 1


_ENCODE: dict[str, Callable[[Op, Any], bytes]] = {
    "int": lambda _, value: struct.pack(">Q", value),
    "ints": _encode_ints,
    "dtype": lambda _, value: bytes([value]),
}

_DECODE: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {
    "int": _decode_int,
    "ints": _decode_ints,
    "dtype": _decode_dtype,
}
