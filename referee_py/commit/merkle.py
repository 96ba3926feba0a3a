"""Perfect binary Merkle trees, padded with a per-level empty hash (docs/protocol.md, section 2).

              root            height = depth = 2
            /      \\
          n0        n1        height 1, index 0 and 1
         /  \\      /  \\
        L0  L1    L2  E_0     height 0: leaf k has index k; missing leaves are E_0

A path lists the siblings from the leaf upwards. SAFETY: its length must be exactly the depth and the index
below 2^depth, so a proof is bound to one place of one tree, and an inner node can never pass for a leaf.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache

from ..errors import InvalidProof
from .hashing import HASH_BYTES, Tag, digest


def depth_of(leaves: int) -> int:
    """Return ceil(log2(max(leaves, 1))), the depth of a tree with this many leaves."""
    return max(leaves - 1, 0).bit_length()


@cache
def empty(tag: Tag, height: int) -> bytes:
    """Return the root of an absent subtree of this height in a tree of kind ``tag``."""
    if height == 0:
        return digest(Tag.EMPTY, bytes([tag]))
    below = empty(tag, height - 1)
    return digest(tag, below, below)


class Nodes(ABC):
    """A tree with access to each of its nodes."""

    tag: Tag
    depth: int

    @abstractmethod
    def node(self, height: int, index: int) -> bytes:
        """Return the node ``index`` (from the left) at ``height`` (leaves: 0); InvalidProof if there is none."""

    @property
    def root(self) -> bytes:
        """The 32-byte root; ``E_0`` for a tree without leaves."""
        return self.node(self.depth, 0)

    def path(self, index: int, height: int = 0, top: int | None = None) -> list[bytes]:
        """Return the siblings from the node ``(height, index)`` up to height ``top`` (default: the root)."""
        top = self.depth if top is None else top
        return [self.node(h, (index >> (h - height)) ^ 1) for h in range(height, top)]

    def descendants(self, height: int, index: int, generations: int) -> list[bytes]:
        """Return the ``2^generations`` descendants of the node ``(height, index)``, left to right."""
        first = index << generations
        return [self.node(height - generations, first + i) for i in range(1 << generations)]

    def _check(self, height: int, index: int) -> None:
        if not 0 <= height <= self.depth or not 0 <= index < 1 << (self.depth - height):
            raise InvalidProof(f"no node ({height}, {index}) in a tree of depth {self.depth}")


class Tree(Nodes):
    """All nodes of one tree.

    Memory: 2 hashes of 32 bytes per leaf. Leaves are copied; the tree never changes.
    """

    def __init__(self, tag: Tag, leaves: Sequence[bytes]) -> None:
        for k, leaf in enumerate(leaves):
            if len(leaf) != HASH_BYTES:
                raise InvalidProof(f"leaf {k} has {len(leaf)} bytes; a leaf is a hash of {HASH_BYTES}")
        self.tag = tag
        self.leaves = tuple(leaves)
        self.depth = depth_of(len(leaves))
        # NOTE: only nodes that cover a real leaf are stored; every other node is the empty hash of its height.
        self._levels: list[list[bytes]] = [list(leaves)]
        for height in range(self.depth):
            below = self._levels[-1]
            if len(below) % 2:
                below = [*below, empty(tag, height)]
            self._levels.append([digest(tag, below[i], below[i + 1]) for i in range(0, len(below), 2)])

    def node(self, height: int, index: int) -> bytes:
        self._check(height, index)
        row = self._levels[height]
        return row[index] if index < len(row) else empty(self.tag, height)


def fold_path(tag: Tag, node: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """Return the ancestor of ``node`` at ``index`` with these siblings, ``len(path)`` levels above.

    Raises InvalidProof if the index does not fit the path or a sibling is not a hash.
    """
    if not 0 <= index < 1 << len(path):
        raise InvalidProof(f"index {index} does not fit a path of {len(path)} siblings")
    for level, sibling in enumerate(path):
        if len(sibling) != HASH_BYTES:
            raise InvalidProof(f"sibling {level} has {len(sibling)} bytes, not {HASH_BYTES}")
        node = digest(tag, sibling, node) if index >> level & 1 else digest(tag, node, sibling)
    return node


def fold_descendants(tag: Tag, nodes: Sequence[bytes]) -> bytes:
    """Return the common ancestor of ``2^r`` neighbouring nodes. Raises InvalidProof for any other number of nodes."""
    if not nodes or len(nodes) & (len(nodes) - 1):
        raise InvalidProof(f"{len(nodes)} nodes have no common ancestor; their number must be a power of two")
    row = list(nodes)
    while len(row) > 1:
        row = [digest(tag, row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]
