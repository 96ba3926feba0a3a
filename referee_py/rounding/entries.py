"""The content of a rounding log, independent of its form, and the encodings that both forms share.

    narrow   the radius is less than an eighth of a quantum: a direction, 1 bit, names the neighbour that was taken
    wide     the result is mostly cancellation; its error spans whole cells, so the rounded value itself is written

    varint      little-endian groups of 7 bits; the high bit of a byte says that another follows; no longer than needed
    positions   varints: the first position, then each one's distance from the one before, less 1
    values      binary32, little-endian; a NaN is 0x7FC00000

Decoding checks the structure only. Each entry is judged with its element (`grid.decide`): there a value that is not on
the grid is ignored, and the other entries stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidEncoding, InvalidInput
from .environment import sound
from .primitives import DOWN, F64, NOT_LOGGED, U8, UP, Bool

I64 = npt.NDArray[np.int64]
MAX_LOG_ELEMENTS = 1 << 40  # exclusive, as for tensors (docs/opset.md, section 1)
MAX_VARINT_BYTES = 6  # 42 bits: every count and position is below 2^40
_PIECE = 1 << 18  # varints that are read at a time, which bounds the memory for reading
_NAN = 0x7FC00000
WRITTEN = 3  # the kind of a wide entry, besides DOWN, NOT_LOGGED and UP


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of some elements: a kind of each, and a value, any binary32, where the kind is WRITTEN."""

    kinds: U8
    values: F64

    @classmethod
    def none(cls, count: int) -> Entries:
        """Return the entries of elements that have none."""
        return cls(np.full(count, NOT_LOGGED, dtype=np.uint8), np.zeros(count))


@dataclass(frozen=True, slots=True)
class Log:
    """Entries of a node with `elements` elements. Positions ascend and no position is both narrow and wide."""

    elements: int
    narrow: I64
    up: Bool  # one for each narrow position
    wide: I64
    values: F64  # one for each wide position

    @classmethod
    def empty(cls, elements: int) -> Log:
        """Return a log without entries."""
        none = np.zeros(0, dtype=np.int64)
        return cls(elements, none, np.zeros(0, dtype=np.bool_), none, np.zeros(0))

    @property
    def count(self) -> int:
        """Number of elements that have an entry."""
        return self.narrow.size + self.wide.size

    def at(self, positions: I64) -> Entries:
        """Return the entries of these elements, which may have none."""
        entries = Entries.none(positions.size)
        has, place = _found(positions, self.narrow)
        entries.kinds[has] = np.where(self.up[place], UP, DOWN)
        has, place = _found(positions, self.wide)
        entries.kinds[has] = WRITTEN
        entries.values[has] = self.values[place]
        return entries


def check(log: Log, error: type[InvalidInput]) -> None:
    """Check the rules of every log; raise `error` for the first broken one."""
    check_elements(log.elements)
    if log.narrow.shape != log.up.shape or log.wide.shape != log.values.shape:
        raise error(
            f"{log.narrow.size} positions for {log.up.size} directions, {log.wide.size} for {log.values.size}"
        )
    for name, positions in (("narrow", log.narrow), ("wide", log.wide)):
        inside = positions.size == 0 or (positions[0] >= 0 and positions[-1] < log.elements)
        if not inside or (np.diff(positions) <= 0).any():
            raise error(f"{name} positions do not ascend within {log.elements} elements")
    twice, _ = _found(log.wide, log.narrow)
    if twice.size:
        raise error(f"element {int(log.wide[twice[0]])} is both narrow and wide; it has one entry")


def check_elements(elements: int) -> None:
    """Raise InvalidInput for more elements than a tensor may have."""
    if not 0 <= elements < MAX_LOG_ELEMENTS:
        raise InvalidInput(f"{elements} elements; a log has 0 to 2^40 - 1")


def pack_positions(positions: I64) -> bytes:
    """Return ascending positions as varints."""
    return pack_varints(np.diff(positions, prepend=np.int64(-1)) - 1)


def read_positions(data: U8, start: int, count: int, elements: int) -> tuple[I64, int]:
    """Return `count` positions from `start`, and their end. Raises InvalidEncoding.

    SAFETY: there may be many gaps, each below 2^42, so their int64 sum could wrap; the float64 sum is checked first.
    """
    gaps, end = read_varints(data, start, count)
    if gaps.size and float(gaps.sum(dtype=np.float64)) + gaps.size > 2.0 * elements + 2:
        raise InvalidEncoding(f"positions run past the last of {elements} elements")
    gaps += 1
    np.cumsum(gaps, out=gaps)
    gaps -= 1
    return gaps, end


def pack_values(values: F64) -> bytes:
    """Return values as binary32 bytes."""
    return value_bits(values).astype("<u4").tobytes()


def value_bits(values: F64) -> npt.NDArray[np.uint32]:
    """Return the bits of binary32 values; NaN is 0x7FC00000."""
    with sound("a conversion"):
        return np.where(np.isnan(values), np.uint32(_NAN), values.astype(np.float32).view(np.uint32))


def values_of(bits: npt.NDArray[np.uint32]) -> F64:
    """Return the values of binary32 bits."""
    with sound("a conversion"):
        return bits.view(np.float32).astype(np.float64)


def read_values(data: U8) -> F64:
    """Return all values of these bytes, four bytes each. Raises InvalidEncoding for a NaN other than 0x7FC00000."""
    bits = np.frombuffer(data.tobytes(), dtype="<u4").astype(np.uint32)
    values = values_of(bits)
    if (bits[np.isnan(values)] != _NAN).any():
        raise InvalidEncoding(f"a value is a NaN that is not {_NAN:#x}; the form is not canonical")
    return values


def pack_varints(numbers: I64) -> bytes:
    """Return all numbers as varints, one after the other."""
    shifts = np.arange(MAX_VARINT_BYTES, dtype=np.int64) * 7
    groups = numbers[:, None] >> shifts  # [n, 6]; byte k exists if number >> 7 k is not 0, or k is 0
    exists = (groups > 0) | (shifts == 0)
    more = np.concatenate([exists[:, 1:], np.zeros((numbers.size, 1), dtype=np.bool_)], axis=1)
    groups8: U8 = ((groups & 0x7F) | (more * 0x80)).astype(np.uint8)[exists]
    return groups8.tobytes()


def read_varints(data: U8, start: int, count: int) -> tuple[I64, int]:
    """Return `count` varints from `start`, and their end. Raises InvalidEncoding."""
    parts = [np.zeros(0, dtype=np.int64)]
    while count:
        part, start = _read_some(data, start, min(count, _PIECE))
        parts.append(part)
        count -= part.size
    return np.concatenate(parts), start


def _read_some(data: U8, start: int, count: int) -> tuple[I64, int]:
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


def _found(positions: I64, logged: I64) -> tuple[I64, I64]:
    """Return the indices of the positions that are in the ascending list, and their places in it."""
    if not logged.size:
        return logged, logged
    place = np.minimum(np.searchsorted(logged, positions), logged.size - 1)
    has = np.flatnonzero(logged[place] == positions)
    return has, place[has]
