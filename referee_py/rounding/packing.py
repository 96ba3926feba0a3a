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
from ..errors import InvalidEncoding

DENSE, SPARSE = 1, 2  # format numbers in the digest
MAX_LOG_ELEMENTS = 1 << 40  # exclusive, as for tensors (docs/opset.md, section 1)
_LEVEL = 3
_MAX_FRAME = 1 << 33  # bytes that one decompression may give, whatever the caller allows


def compress(canonical: bytes) -> bytes:
    """One zstd frame that states its content size and carries a checksum."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(canonical)


def decompress(frame: bytes, smallest: int, largest: int) -> bytes:
    """The content of exactly one zstd frame, between `smallest` and `largest` bytes.

    SAFETY: the size that the frame states is checked before anything is allocated, and the decoder stops there.
    Raises InvalidEncoding for anything else: no frame, no stated size, another size, damage, bytes after the frame.
    """
    largest = min(largest, _MAX_FRAME)
    try:
        stated = zstandard.frame_content_size(frame)
        if stated < 0:
            raise InvalidEncoding("the zstd frame does not state its content size; compress in one piece")
        if not smallest <= stated <= largest:
            raise InvalidEncoding(
                f"the zstd frame states {stated} bytes of rounding log; {smallest} to {largest} are possible here"
            )
        content = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except (zstandard.ZstdError, ValueError) as error:
        raise InvalidEncoding(f"not one whole zstd frame: {error}") from error
    if len(content) != stated:
        raise InvalidEncoding(f"the zstd frame states {stated} bytes and holds {len(content)}")
    return content


def log_digest(form: int, elements: int, canonical: bytes) -> bytes:
    """What a node record commits to: 32 bytes over the canonical form, whatever it was compressed with."""
    return digest_over(form, elements, len(canonical), data_tree(canonical).root)


def digest_over(form: int, elements: int, length: int, root: bytes) -> bytes:
    """The same from the root of the canonical form's data tree, for whoever sees the form in pieces only."""
    return digest(Tag.ROUNDING_LOG, struct.pack(">BQQ", form, elements, length), root)
