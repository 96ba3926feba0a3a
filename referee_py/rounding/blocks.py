"""The commitment of a node's record to its log: a tree over the entries of blocks of elements. It lets a contract
check the entry of one element, and does not depend on the form that the log travels in.

    digest   H(ROUNDING_LOG, elements u64be, root)
    root     Tree(LOG_BLOCK_TREE, a leaf for each block of 1,024 elements, row-major)
    leaf     H(LOG_BLOCK, the block's entries); for a block without entries E_0, like a missing leaf
    entries  ascending, each u16be: place in the block << 2 | kind; behind a written one its value, u32be

INVARIANT: a log has one digest, and `read_entry` defines the entries of a leaf, canonical or not; the contract has the
same rule (contracts/commit/Logs.sol).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
from repops.host.hashing import TreeKind, sparse_root

from ..commit import Tag, depth_of, digest, empty, fold_path
from ..errors import InvalidProof
from .entries import I64, WRITTEN, Log, value_bits
from .primitives import DOWN, NOT_LOGGED, UP

BLOCK = 1024  # elements; so an entry's place and kind have 12 bits, and a block has at most 6,144 bytes
_PART = 1 << 18  # entries of each kind that are written at a time
_KIND = TreeKind(Tag.LOG_BLOCK, Tag.LOG_BLOCK_TREE, empty(Tag.LOG_BLOCK_TREE, 0))


def log_digest(log: Log) -> bytes:
    """Return the log hash in a node record, 32 bytes, by a kernel. `LogTree` is the readable version, with paths."""
    data, ends, blocks = _blocks(log)
    root = sparse_root(data, ends, blocks, depth_of(block_count(log.elements)), _KIND)
    return _digest(log.elements, root)


class LogTree:
    """The tree of one log. Memory: two or six bytes an entry, and about 400 for each block that has entries.

    SAFETY: a stranger may choose the number of elements; only blocks with entries cost anything.
    """

    def __init__(self, log: Log) -> None:
        self.elements = log.elements
        self.depth = depth_of(block_count(log.elements))
        data, ends, blocks = _blocks(log)
        starts = [0, *ends.tolist()]
        entries = (data[a:b] for a, b in itertools.pairwise(starts))
        self._blocks: dict[int, bytes] = dict(zip(blocks.tolist(), entries, strict=True))
        prefix = bytes([Tag.LOG_BLOCK])
        nodes = {index: sha256(prefix + block).digest() for index, block in self._blocks.items()}
        self._levels = [nodes]
        prefix = bytes([Tag.LOG_BLOCK_TREE])
        for height in range(self.depth):
            below, absent = nodes.get, empty(Tag.LOG_BLOCK_TREE, height)
            nodes = {
                k: sha256(prefix + below(2 * k, absent) + below(2 * k + 1, absent)).digest()
                for k in dict.fromkeys([index >> 1 for index in nodes])
            }
            self._levels.append(nodes)

    @property
    def digest(self) -> bytes:
        """The log hash in a node record."""
        return _digest(self.elements, self.root)

    def block(self, index: int) -> bytes:
        """Return the entries of a block; no bytes if it has none."""
        return self._blocks.get(index, b"")

    def path(self, index: int) -> list[bytes]:
        """Return the siblings of a block's leaf, upwards."""
        return [self._node(height, (index >> height) ^ 1) for height in range(self.depth)]

    @property
    def root(self) -> bytes:
        """Root that the digest covers, besides the number of elements."""
        return self._node(self.depth, 0)

    def page(self, index: int, levels: int) -> tuple[list[bytes], list[bytes]]:
        """Return the entries of the `2^levels` blocks of a page, and the siblings from the page's node upwards."""
        blocks = [self.block((index << levels) + k) for k in range(1 << levels)]
        return blocks, [self._node(h, (index >> (h - levels)) ^ 1) for h in range(levels, self.depth)]

    def _node(self, height: int, index: int) -> bytes:
        return self._levels[height].get(index) or empty(Tag.LOG_BLOCK_TREE, height)


def block_count(elements: int) -> int:
    """Return the number of blocks of a log of this many elements."""
    return -(-elements // BLOCK)


def digest_of_block(elements: int, index: int, block: bytes, path: Sequence[bytes]) -> bytes:
    """Return the digest of the log that has this block and these siblings.

    Raises InvalidProof for a path of another length, or a block that a log of this many elements does not have.
    """
    want = depth_of(block_count(elements))
    if len(path) != want:
        raise InvalidProof(f"a path of {len(path)}; a log of {elements} elements has a tree {want} deep")
    leaf = digest(Tag.LOG_BLOCK, block) if block else empty(Tag.LOG_BLOCK_TREE, 0)
    return _digest(elements, fold_path(Tag.LOG_BLOCK_TREE, leaf, index, path))


def read_entry(block: bytes, place: int, places: int) -> tuple[int, int]:
    """Return the entry of an element in a block of `places` elements: a kind, and bits if that is WRITTEN.

    A malformed block has no entry for any element: its entries do not ascend, name no element, have an unknown kind,
    or are cut off.
    """
    return (entries_of(block, places) or {}).get(place, (NOT_LOGGED, 0))


def readable(block: bytes, places: int) -> bool:
    """Return whether a log may have this block of `places` elements."""
    return entries_of(block, places) is not None


def entries_of(block: bytes, places: int) -> dict[int, tuple[int, int]] | None:
    """Return kind and bits by place, or None for a block that no log has."""
    found: dict[int, tuple[int, int]] = {}
    before, at = -1, 0
    while at < len(block):
        own, kind = divmod(int.from_bytes(block[at : at + 2], "big"), 4)
        end = at + (6 if kind == WRITTEN else 2)
        if kind == NOT_LOGGED or not before < own < places or end > len(block):
            return None
        found[own] = kind, int.from_bytes(block[at + 2 : end], "big")
        before, at = own, end
    return found


def _digest(elements: int, root: bytes) -> bytes:
    return digest(Tag.ROUNDING_LOG, struct.pack(">Q", elements), root)


def _blocks(log: Log) -> tuple[bytes, I64, I64]:
    """Return the entries of all blocks that have any, the end of each block's entries, and the blocks' numbers."""
    data, ends, blocks = [b""], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in _parts(log):
        found, its_ends, its_blocks = _written(part)
        before = ends[-1][-1] if len(ends) > 1 else 0
        data.append(found)
        ends.append(before + its_ends)
        blocks.append(its_blocks)
    return b"".join(data), np.concatenate(ends), np.concatenate(blocks)


def _written(log: Log) -> tuple[bytes, I64, I64]:
    """Return the same values for a log that has entries."""
    at = np.searchsorted(log.narrow, log.wide)
    positions = np.insert(log.narrow, at, log.wide)
    kinds = np.insert(np.where(log.up, UP, DOWN), at, WRITTEN)
    sizes = np.where(kinds == WRITTEN, 3, 1)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    words = np.empty(int(ends[-1]), dtype=">u2")
    words[starts] = positions % BLOCK << 2 | kinds
    written, bits = starts[at + np.arange(at.size)], value_bits(log.values)
    words[written + 1], words[written + 2] = bits >> 16, bits & 0xFFFF
    blocks = positions // BLOCK
    last = np.flatnonzero(np.append(np.diff(blocks), 1))
    return words.tobytes(), 2 * ends[last], blocks[last]


def _parts(log: Log) -> Iterator[Log]:
    """Split the log into parts of whole blocks, with a bounded number of entries each."""
    if log.count <= _PART:
        yield from [log] if log.count else []
        return
    edges = np.unique(np.concatenate([log.narrow[::_PART], log.wide[::_PART]]) // BLOCK * BLOCK)
    for edge in itertools.pairwise([*edges.tolist(), log.elements]):
        narrow = slice(*np.searchsorted(log.narrow, edge))
        wide = slice(*np.searchsorted(log.wide, edge))
        entries = log.narrow[narrow], log.up[narrow], log.wide[wide], log.values[wide]
        yield Log(log.elements, *entries)
