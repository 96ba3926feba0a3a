"""What both log formats share: zstd around a canonical form, and the digest of that form.

    digest = H(ROUNDING_LOG, format u8, number of elements u64be, length of the form u64be, root of its data tree)

The tree has leaves of 1024 bytes, as a tensor's has, so a piece of a log can be opened by a path. What is committed
is the canonical form; the compressed bytes are only a way to send it, and any zstd frame of it serves.
"""

from __future__ import annotations

import struct

import zstandard

from ..commit.hashing import Tag, digest
from ..commit.tensor import data_tree

DENSE, SPARSE = 1, 2  # format numbers in the digest
MAX_LOG_ELEMENTS = 1 << 40  # exclusive, as for tensors (docs/opset.md, section 1)
_LEVEL = 3


def compress(canonical: bytes) -> bytes:
    """One zstd frame that states its content size and carries a checksum."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(canonical)


def log_digest(form: int, elements: int, canonical: bytes) -> bytes:
    """What a node record commits to: 32 bytes over the canonical form, whatever it was compressed with."""
    return digest_over(form, elements, len(canonical), data_tree(canonical).root)


def digest_over(form: int, elements: int, length: int, root: bytes) -> bytes:
    """The same from the root of the canonical form's data tree, for whoever sees the form in pieces only."""
    return digest(Tag.ROUNDING_LOG, struct.pack(">BQQ", form, elements, length), root)
