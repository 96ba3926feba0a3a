"""The dense form (section 5.5 of the paper): every element has a digit, five digits per byte; wide entries follow.

    byte j = d[5j] + 3 d[5j + 1] + 9 d[5j + 2] + 27 d[5j + 3] + 81 d[5j + 4]          each d is 0, 1 or 2: at most 242
    ceil(n / 5) bytes ‖ varint wide count ‖ wide positions ‖ wide values

A digit is 0 (down), 1 (no narrow entry) or 2 (up). Digits are in row-major order of the elements; places after the
last one are 1. Varints, positions and values are those of `entries.py`.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidEncoding, InvalidInput
from .entries import (
    Log,
    check,
    check_elements,
    pack_positions,
    pack_values,
    pack_varints,
    read_positions,
    read_values,
    read_varints,
)
from .primitives import DOWN, NOT_LOGGED, U8, UP

PER_BYTE = 5
_LARGEST_BYTE = 3**PER_BYTE - 1
_POWERS = np.array([1, 3, 9, 27, 81], dtype=np.uint8)


def pack(log: Log) -> bytes:
    """Return the canonical bytes. Raises InvalidInput if the log is malformed."""
    check(log, InvalidInput)
    digits = np.full((_bytes(log.elements), PER_BYTE), NOT_LOGGED, dtype=np.uint8)
    digits.reshape(-1)[log.narrow] = np.where(log.up, UP, DOWN)
    packed: U8 = (digits * _POWERS).sum(axis=1, dtype=np.uint8)
    count = pack_varints(np.array([log.wide.size], dtype=np.int64))
    return packed.tobytes() + count + pack_positions(log.wide) + pack_values(log.values)


def unpack(canonical: bytes, elements: int) -> Log:
    """Return the log of a node with this many elements. Raises InvalidEncoding for bytes that `pack` does not give.

    SAFETY: it holds nine bytes for each entry, and ten bytes for each byte of digits.
    """
    check_elements(elements)
    data, size = np.frombuffer(canonical, dtype=np.uint8), _bytes(elements)
    if data.size <= size:
        raise InvalidEncoding(
            f"{data.size} bytes for {elements} elements; five digits per byte make {size}, and a count follows"
        )
    packed = data[:size]
    if packed.size and int(packed.max()) > _LARGEST_BYTE:
        first = int(np.flatnonzero(packed > _LARGEST_BYTE)[0])
        raise InvalidEncoding(f"byte {first} is {packed[first]}; five digits make at most {_LARGEST_BYTE}")
    digits = (packed[:, None] // _POWERS % 3).reshape(-1)
    if (digits[elements:] != NOT_LOGGED).any():
        raise InvalidEncoding(
            f"the digits after the last of {elements} elements are not 1; the form is not canonical"
        )
    count, start = read_varints(data, size, 1)
    wide_count = int(count[0])
    if wide_count > elements:
        raise InvalidEncoding(f"{wide_count} wide entries for {elements} elements")
    wide, start = read_positions(data, start, wide_count, elements)
    if data.size != start + 4 * wide_count:
        raise InvalidEncoding(
            f"{data.size - start} bytes after the positions; {wide_count} values take {4 * wide_count}"
        )
    narrow = np.flatnonzero(digits[:elements] != NOT_LOGGED)
    log = Log(elements, narrow, digits[narrow] == UP, wide, read_values(data[start:]))
    check(log, InvalidEncoding)
    return log


def _bytes(elements: int) -> int:
    return -(-elements // PER_BYTE)
