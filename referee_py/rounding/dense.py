"""The dense format (the paper's, section 5.5): every element has an entry, five entries a byte.

    byte j = e[5j] + 3 e[5j + 1] + 9 e[5j + 2] + 27 e[5j + 3] + 81 e[5j + 4]          each e is 0, 1 or 2: at most 242

Entries are in row-major order of the elements. Places after the last element are 1, "not logged". The canonical form is
these ceil(n / 5) bytes; its length follows from the node's shape.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidEncoding, InvalidInput
from .packing import DENSE, MAX_LOG_ELEMENTS, compress, decompress, log_digest
from .primitives import NOT_LOGGED, U8, UP

PER_BYTE = 5
_LARGEST_BYTE = 3**PER_BYTE - 1
_POWERS = np.array([1, 3, 9, 27, 81], dtype=np.uint8)


def pack(entries: U8) -> bytes:
    """The canonical form of entries (uint8 0, 1 or 2, any shape). Raises InvalidInput for any other."""
    flat = entries.ravel()
    if entries.dtype != np.uint8 or (flat.size and int(flat.max()) > UP):
        raise InvalidInput(f"entries are {entries.dtype} up to {flat.max(initial=0)}; use uint8 0, 1 or 2")
    padded = np.full((-(-flat.size // PER_BYTE), PER_BYTE), NOT_LOGGED, dtype=np.uint8)
    padded.reshape(-1)[: flat.size] = flat
    packed: U8 = (padded * _POWERS).sum(axis=1, dtype=np.uint8)
    return packed.tobytes()


def unpack(canonical: bytes, shape: tuple[int, ...]) -> U8:
    """The entries of a node of that shape. Raises InvalidEncoding for bytes that `pack` does not give for it."""
    count = _elements(shape)
    if len(canonical) != -(-count // PER_BYTE):
        raise InvalidEncoding(
            f"{len(canonical)} bytes for {count} entries; five entries a byte make {-(-count // PER_BYTE)}"
        )
    packed = np.frombuffer(canonical, dtype=np.uint8)
    if packed.size and int(packed.max()) > _LARGEST_BYTE:
        first = int(np.flatnonzero(packed > _LARGEST_BYTE)[0])
        raise InvalidEncoding(f"byte {first} is {packed[first]}; five entries make at most {_LARGEST_BYTE}")
    entries = (packed[:, None] // _POWERS % 3).reshape(-1)
    if (entries[count:] != NOT_LOGGED).any():
        raise InvalidEncoding(
            f"the entries after the last of {count} elements are not 1; the form is not canonical"
        )
    return entries[:count].reshape(shape)


def encode(entries: U8) -> bytes:
    """The canonical form in a zstd frame."""
    return compress(pack(entries))


def decode(frame: bytes, shape: tuple[int, ...]) -> U8:
    """The entries of a frame from a stranger. Raises InvalidEncoding; allocates no more than the shape needs."""
    size = -(-_elements(shape) // PER_BYTE)
    return unpack(decompress(frame, size, size), shape)


def digest(entries: U8) -> bytes:
    """The 32 bytes that commit to these entries."""
    return log_digest(DENSE, entries.size, pack(entries))


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    if any(size < 0 for size in shape) or count >= MAX_LOG_ELEMENTS:
        raise InvalidInput(f"shape {shape}; a log has 0 to 2^40 - 1 elements")
    return count
