"""What a node's record commits to of its log: a tree over the entries of blocks of elements, so that a contract can be
shown what the log says of one element. The form that the log travels in is no part of it.

    digest   H(ROUNDING_LOG, elements u64be, root)
    root     Tree(LOG_BLOCK_TREE, a leaf for each block of 1,024 elements, row-major)
    leaf     H(LOG_BLOCK, the block's entries); of a block without entries E_0, as if it were not there
    entries  ascending, each u16be: place in the block << 2 | kind; behind a written one its value, u32be

INVARIANT: a log has one digest, and `read_entry` is what a leaf says, canonical or not; the contract has the same rule
(contracts/commit/Logs.sol).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
from repops.hashing import TreeKind, sparse_root

from ..commit import Tag, depth_of, digest, empty, fold_path
from ..errors import InvalidProof
from .entries import I64, WRITTEN, Log, value_bits
from .primitives import DOWN, NOT_LOGGED, UP

BLOCK = 1024  # elements; so an entry's place and kind have 12 bits, and a block 6,144 bytes at most
_PART = 1 << 18  # entries that are written at a time, of each kind
_KIND = TreeKind(Tag.LOG_BLOCK, Tag.LOG_BLOCK_TREE, empty(Tag.LOG_BLOCK_TREE, 0))


def log_digest(log: Log) -> bytes:
    """What a node record commits to: 32 bytes, by a kernel. `LogTree` is the same to be read, and with paths."""
    data, ends, blocks = _blocks(log)
    root = sparse_root(data, ends, blocks, depth_of(block_count(log.elements)), _KIND)
    return _digest(log.elements, root)


class LogTree:
    """The tree of one log. Memory: two or six bytes an entry, and about 400 for each block that has entries.

    SAFETY: the number of elements may be anybody's; only what has entries costs anything.
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
        """What a node record commits to."""
        return _digest(self.elements, self.root)

    def block(self, index: int) -> bytes:
        """The entries of a block; no bytes if it has none."""
        return self._blocks.get(index, b"")

    def path(self, index: int) -> list[bytes]:
        """Siblings of a block's leaf, upwards."""
        return [self._node(height, (index >> height) ^ 1) for height in range(self.depth)]

    @property
    def root(self) -> bytes:
        """What the digest is of, besides the number of elements."""
        return self._node(self.depth, 0)

    def page(self, index: int, levels: int) -> tuple[list[bytes], list[bytes]]:
        """The entries of the `2^levels` blocks of a page, and siblings from the page's node upwards."""
        blocks = [self.block((index << levels) + k) for k in range(1 << levels)]
        return blocks, [self._node(h, (index >> (h - levels)) ^ 1) for h in range(levels, self.depth)]

    def _node(self, height: int, index: int) -> bytes:
        return self._levels[height].get(index) or empty(Tag.LOG_BLOCK_TREE, height)


def block_count(elements: int) -> int:
    """Blocks of so many elements."""
    return -(-elements // BLOCK)


def digest_of_block(elements: int, index: int, block: bytes, path: Sequence[bytes]) -> bytes:
    """The digest of the log that has this block and these siblings.

    Raises InvalidProof for a path of another length, or a block that so many elements do not have.
    """
    want = depth_of(block_count(elements))
    if len(path) != want:
        raise InvalidProof(f"a path of {len(path)}; a log of {elements} elements has a tree {want} deep")
    leaf = digest(Tag.LOG_BLOCK, block) if block else empty(Tag.LOG_BLOCK_TREE, 0)
    return _digest(elements, fold_path(Tag.LOG_BLOCK_TREE, leaf, index, path))


def read_entry(block: bytes, place: int, places: int) -> tuple[int, int]:
    """What a block of so many elements says of one of them: a kind, and the bits of a value if it is WRITTEN.

    A block that no log has says nothing of any: entries that do not ascend, of no element, of a kind that is none, or
    cut off.
    """
    return (entries_of(block, places) or {}).get(place, (NOT_LOGGED, 0))


def readable(block: bytes, places: int) -> bool:
    """Whether a log may have this block of so many elements."""
    return entries_of(block, places) is not None


def entries_of(block: bytes, places: int) -> dict[int, tuple[int, int]] | None:
    """Kind and bits by place; None for a block that no log has."""
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
    """The entries of all blocks that have any, where those of each end, and the blocks."""
    data, ends, blocks = [b""], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in _parts(log):
        found, its_ends, its_blocks = _written(part)
        before = ends[-1][-1] if len(ends) > 1 else 0
        data.append(found)
        ends.append(before + its_ends)
        blocks.append(its_blocks)
    return b"".join(data), np.concatenate(ends), np.concatenate(blocks)


def _written(log: Log) -> tuple[bytes, I64, I64]:
    """The same of a log that has entries."""
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
    """The log, a bounded number of entries and whole blocks at a time."""
    if log.count <= _PART:
        yield from [log] if log.count else []
        return
    edges = np.unique(np.concatenate([log.narrow[::_PART], log.wide[::_PART]]) // BLOCK * BLOCK)
    for edge in itertools.pairwise([*edges.tolist(), log.elements]):
        narrow = slice(*np.searchsorted(log.narrow, edge))
        wide = slice(*np.searchsorted(log.wide, edge))
        entries = log.narrow[narrow], log.up[narrow], log.wide[wide], log.values[wide]
        yield Log(log.elements, *entries)
