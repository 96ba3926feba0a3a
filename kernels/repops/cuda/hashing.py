"""Plan of the Merkle tree over a tensor's bytes (kernels/cuda/sha256.cu)."""

from __future__ import annotations

import struct

from ..host.hashing import HASH_BYTES, LEAF_BYTES, TreeKind
from ..opset import ITEM_SIZE, Spec
from .plan import LaunchPlan, Ref, Target, Word, ceil_div, elements, grid, launch

THREADS = 128
LEVELS = 9  # levels of the tree per launch: a block reduces 512 nodes


def level_counts(size: int) -> list[int]:
    """Return the number of nodes in each level of the tree over `size` bytes, leaves first; the root is last."""
    counts = [max(1, ceil_div(size, LEAF_BYTES))]
    while counts[-1] > 1:
        counts.append(ceil_div(counts[-1], 2))
    return counts


def hash_plan(spec: Spec, kind: TreeKind, target: Target) -> LaunchPlan:
    """Return the plan. Buffer 0 is the tensor; buffer 1 holds the levels one after the other."""
    dtype, shape = spec
    size = elements(shape) * ITEM_SIZE[dtype]
    if size == 0:
        return LaunchPlan((launch("sha256.hash_nothing", 1, 32, [Ref(1), *_words(kind.empty_leaf)]),))
    counts = level_counts(size)
    starts = [HASH_BYTES * sum(counts[:level]) for level in range(len(counts))]
    blocks = grid(counts[0], THREADS, target)
    words: list[Word] = [
        size,
        counts[0],
        ITEM_SIZE[dtype] if dtype.is_float else 0,
        kind.leaf_tag,
        Ref(0),
        Ref(1),
    ]
    launches = [launch("sha256.hash_leaves", blocks, THREADS, words)]
    for height in range(0, len(counts) - 1, LEVELS):
        levels = min(LEVELS, len(counts) - 1 - height)
        out: list[Word] = [Ref(1, starts[height + 1 + i]) for i in range(levels)]
        empty = [word for i in range(LEVELS) for word in _words(kind.empty(height + i))]
        words = [counts[height], levels, kind.node_tag, Ref(1, starts[height])]
        words += [*out, *[0] * (LEVELS - levels), *empty]
        launches.append(launch("sha256.hash_nodes", ceil_div(counts[height], 1 << LEVELS), 256, words))
    return LaunchPlan(tuple(launches))


def _words(node: bytes) -> list[Word]:
    """Return a hash's bytes as the four words that kernels hold in memory."""
    return list(struct.unpack("<4Q", node))
