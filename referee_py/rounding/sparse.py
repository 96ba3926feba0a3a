"""The sparse format: entries only for elements in a proven band around a rounding midpoint.

    narrow   the band is less than half a rounding cell wide: a direction, 1 bit, says which neighbour was taken
    wide     a result that is mostly cancellation; its error spans whole cells, so the rounded value itself is written

The canonical form, with positions in row-major order of the elements:

    varint narrow count ‖ varint wide count ‖ narrow positions ‖ wide positions ‖ directions ‖ wide values

    varint      little-endian groups of 7 bits, the high bit of a byte says that another follows; no longer than needed
    positions   varints: the first position, then each one's distance from the one before, less 1
    directions  1 = up (towards +inf), bit i mod 8 of byte i div 8, zeros after the last
    values      binary32, little-endian, each on the grid; no NaN, and zero is +0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidEncoding, InvalidInput
from .packing import MAX_LOG_ELEMENTS, SPARSE, compress, decompress, log_digest
from .primitives import F64, U8, Bool, rnd

I64 = npt.NDArray[np.int64]
MAX_VARINT_BYTES = 6  # 42 bits: every count and position is below 2^40


@dataclass(frozen=True, slots=True)
class SparseLog:
    """Entries of a node with `elements` elements. Positions ascend and no position is both narrow and wide."""

    elements: int
    narrow: I64
    up: Bool  # one for each narrow position
    wide: I64
    values: F64  # one for each wide position


def pack(log: SparseLog) -> bytes:
    """The canonical form. Raises InvalidInput for a log that has none."""
    _check(log, InvalidInput)
    counts = np.array([log.narrow.size, log.wide.size], dtype=np.int64)
    numbers = np.concatenate([counts, _deltas(log.narrow), _deltas(log.wide)])
    bits = np.packbits(log.up, bitorder="little")
    return _varints(numbers) + bits.tobytes() + log.values.astype("<f4").tobytes()


def unpack(canonical: bytes, elements: int, b: int) -> SparseLog:
    """The log of a node with that many elements, values on grid(b).

    Raises InvalidEncoding for bytes that `pack` does not give.
    """
    _check_elements(elements)
    data = np.frombuffer(canonical, dtype=np.uint8)
    (narrow_count, wide_count), start = _read_varints(data, 0, 2)
    if narrow_count + wide_count > elements:
        raise InvalidEncoding(f"{narrow_count} + {wide_count} entries for {elements} elements")
    narrow_gaps, start = _read_varints(data, start, int(narrow_count))
    wide_gaps, start = _read_varints(data, start, int(wide_count))
    bit_bytes = -(-int(narrow_count) // 8)
    if data.size - start != bit_bytes + 4 * int(wide_count):
        raise InvalidEncoding(
            f"{data.size - start} bytes after the positions; {narrow_count} directions and {wide_count} values "
            f"take {bit_bytes + 4 * int(wide_count)}"
        )
    bits = np.unpackbits(data[start : start + bit_bytes], bitorder="little")
    if bits[int(narrow_count) :].any():
        raise InvalidEncoding("bits after the last direction are set; the form is not canonical")
    words = data[start + bit_bytes :].tobytes()
    values = np.frombuffer(words, dtype="<f4").astype(np.float64)
    log = SparseLog(
        elements,
        _positions(narrow_gaps, elements),
        bits[: int(narrow_count)].astype(np.bool_),
        _positions(wide_gaps, elements),
        values,
    )
    _check(log, InvalidEncoding)
    off_grid = rnd(values, b) != values
    if off_grid.any():
        first = int(np.flatnonzero(off_grid)[0])
        raise InvalidEncoding(f"wide value {first}, {values[first]!r}, is not on the grid of b = {b}")
    return log


def encode(log: SparseLog) -> bytes:
    """The canonical form in a zstd frame."""
    return compress(pack(log))


def decode(frame: bytes, elements: int, b: int, max_entries: int | None = None) -> SparseLog:
    """The log in a frame from a stranger.

    Raises InvalidEncoding; decompresses no more than `max_entries` entries can need (default: one an element).
    """
    _check_elements(elements)
    entries = elements if max_entries is None else min(elements, max_entries)
    largest = 2 * MAX_VARINT_BYTES + entries * (MAX_VARINT_BYTES + 4)
    return unpack(decompress(frame, 2, largest), elements, b)


def digest(log: SparseLog) -> bytes:
    """The 32 bytes that commit to this log."""
    return log_digest(SPARSE, log.elements, pack(log))


def _check_elements(elements: int) -> None:
    if not 0 <= elements < MAX_LOG_ELEMENTS:
        raise InvalidInput(f"{elements} elements; a log has 0 to 2^40 - 1")


def _check(log: SparseLog, error: type[InvalidInput]) -> None:
    """What holds for every log; `error` says whose fault it is."""
    _check_elements(log.elements)
    if log.narrow.shape != log.up.shape or log.wide.shape != log.values.shape:
        raise error(
            f"{log.narrow.size} positions for {log.up.size} directions, {log.wide.size} for {log.values.size}"
        )
    for name, positions in (("narrow", log.narrow), ("wide", log.wide)):
        inside = positions.size == 0 or (positions[0] >= 0 and positions[-1] < log.elements)
        if not inside or (np.diff(positions) <= 0).any():
            raise error(f"{name} positions do not ascend within {log.elements} elements")
    twice = np.intersect1d(log.narrow, log.wide, assume_unique=True)
    if twice.size:
        raise error(f"element {int(twice[0])} is both narrow and wide; it has one entry")
    bad = np.isnan(log.values) | ((log.values == 0) & np.signbit(log.values))
    if bad.any():
        raise error(f"wide value {int(np.flatnonzero(bad)[0])} is NaN or -0; neither is ambiguous")


def _deltas(positions: I64) -> I64:
    return np.diff(positions, prepend=np.int64(-1)) - 1


def _positions(gaps: I64, elements: int) -> I64:
    """SAFETY: gaps are below 2^42 and many, so their int64 sum could wrap; the float64 sum is looked at first."""
    if gaps.size and float(gaps.astype(np.float64).sum()) + gaps.size > 2.0 * elements + 2:
        raise InvalidEncoding(f"positions run past the last of {elements} elements")
    return np.cumsum(gaps + 1) - 1


def _varints(numbers: I64) -> bytes:
    """All numbers as varints, one after the other."""
    shifts = np.arange(MAX_VARINT_BYTES, dtype=np.int64) * 7
    groups = numbers[:, None] >> shifts  # [n, 6]; byte k exists if what is left at k is not zero, or k is 0
    exists = (groups > 0) | (shifts == 0)
    more = np.concatenate([exists[:, 1:], np.zeros((numbers.size, 1), dtype=np.bool_)], axis=1)
    groups8: U8 = ((groups & 0x7F) | (more * 0x80)).astype(np.uint8)[exists]
    return groups8.tobytes()


def _read_varints(data: U8, start: int, count: int) -> tuple[I64, int]:
    """`count` varints from `start`, and where they end."""
    if count == 0:
        return np.zeros(0, dtype=np.int64), start
    window = data[start : start + count * MAX_VARINT_BYTES]
    ends = np.flatnonzero(window < 0x80)[:count]
    if ends.size < count:
        raise InvalidEncoding(
            f"{count} varints of at most {MAX_VARINT_BYTES} bytes are expected at byte {start}"
        )
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > MAX_VARINT_BYTES:
        raise InvalidEncoding(f"a varint of {int(lengths.max())} bytes; the limit is {MAX_VARINT_BYTES}")
    if ((lengths > 1) & (window[ends] == 0)).any():
        raise InvalidEncoding("a varint is longer than needed; the form is not canonical")
    used = window[: int(ends[-1]) + 1].astype(np.int64)
    place = np.arange(used.size, dtype=np.int64) - np.repeat(starts, lengths)
    numbers = np.add.reduceat((used & 0x7F) << (7 * place), starts)
    return numbers, start + int(ends[-1]) + 1
