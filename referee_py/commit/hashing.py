"""SHA-256 with a tag byte for each kind of preimage (docs/protocol.md, section 2)."""

from __future__ import annotations

import hashlib
from enum import IntEnum

HASH_BYTES = 32


class Tag(IntEnum):
    """First byte of every preimage. The zero tag is illegal; tags from 0x10 are inner nodes of trees."""

    LEAF = 0x01
    TENSOR = 0x02
    STRUCTURE = 0x03
    RECORD = 0x04
    SLOT = 0x05
    PROGRAM = 0x06
    COMMITMENT = 0x07
    EMPTY = 0x08
    ROUNDING_LOG = 0x09
    LOG_BLOCK = 0x0A
    DATA_TREE = 0x10
    STRUCTURE_TREE = 0x11
    SLOT_TREE = 0x12
    CONSTANT_TREE = 0x13
    INITIAL_TREE = 0x14
    STEP_TREE = 0x15
    RUN_TREE = 0x16
    LOG_TREE = 0x17
    LOG_RUN_TREE = 0x18
    LOG_BLOCK_TREE = 0x19


_PREFIX = {tag: bytes([tag]) for tag in Tag}


def digest(tag: Tag, *parts: bytes | memoryview) -> bytes:
    """Return H(tag ‖ parts...), 32 bytes. INVARIANT: no hash of one kind is a hash of another."""
    h = hashlib.sha256(_PREFIX[tag])
    for part in parts:
        h.update(part)
    return h.digest()
