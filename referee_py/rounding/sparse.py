"""The sparse form: entries by position, only for elements in a proven (or probable) band around a rounding midpoint.

    varint narrow count ‖ varint wide count ‖ narrow positions ‖ wide positions ‖ directions ‖ wide values

    directions  1 = up (towards +inf), bit i mod 8 of byte i div 8, zeros after the last

Positions are in row-major order of the elements; varints, positions and values are those of `entries.py`.
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


def pack(log: Log) -> bytes:
    """Return the canonical bytes. Raises InvalidInput if the log is malformed."""
    check(log, InvalidInput)
    counts = np.array([log.narrow.size, log.wide.size], dtype=np.int64)
    bits = np.packbits(log.up, bitorder="little").tobytes()
    positions = pack_positions(log.narrow) + pack_positions(log.wide)
    return pack_varints(counts) + positions + bits + pack_values(log.values)


def unpack(canonical: bytes, elements: int) -> Log:
    """Return the log of a node with this many elements. Raises InvalidEncoding for bytes that `pack` does not give."""
    check_elements(elements)
    data = np.frombuffer(canonical, dtype=np.uint8)
    counts, start = read_varints(data, 0, 2)
    narrow_count, wide_count = counts.tolist()
    if narrow_count + wide_count > elements:
        raise InvalidEncoding(f"{narrow_count} + {wide_count} entries for {elements} elements")
    narrow, start = read_positions(data, start, narrow_count, elements)
    wide, start = read_positions(data, start, wide_count, elements)
    end = start + -(-narrow_count // 8)
    if data.size != end + 4 * wide_count:
        raise InvalidEncoding(
            f"{data.size - start} bytes after the positions; {narrow_count} directions and {wide_count} values "
            f"take {end - start + 4 * wide_count}"
        )
    bits = np.unpackbits(data[start:end], bitorder="little")
    if bits[narrow_count:].any():
        raise InvalidEncoding("bits after the last direction are set; the form is not canonical")
    log = Log(elements, narrow, bits[:narrow_count].astype(np.bool_), wide, read_values(data[end:]))
    check(log, InvalidEncoding)
    return log
