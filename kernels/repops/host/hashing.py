"""Merkle trees hashed by the C kernels (kernels/csrc/hash/hash_tree.c): over a tensor's bytes, and over a few leaves.

The caller chooses the tags and the empty leaf of a tree: the package that defines commitments depends on this module,
not the other way round.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..opset import ITEM_SIZE
from ..tensors import Array, spec_of
from . import cpu
from .library import LIBRARY
from .memory import address_of

LEAF_BYTES = 1024
HASH_BYTES = 32

HAS_SHA: int = LIBRARY.repops_has_sha()
"""1 if this machine has instructions for SHA-256."""

_tree_root = LIBRARY.repops_tree_root
_tree_root.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int),
]


_sparse_root = LIBRARY.repops_sparse_root
_sparse_root.argtypes = [
    *(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int),
    *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
]

MAX_DEPTH, MAX_LEAF_BYTES = 62, 8190


class TreeKind(NamedTuple):
    """Hashes of a tree: H(leaf_tag, up to 1024 bytes), H(node_tag, left, right), `empty_leaf` for an absent leaf."""

    leaf_tag: int
    node_tag: int
    empty_leaf: bytes

    def empty(self, height: int) -> bytes:
        """Return the root of the absent subtree of that height."""
        node = self.empty_leaf
        for _ in range(height):
            node = hashlib.sha256(bytes([self.node_tag]) + node + node).digest()
        return node


def tree_root(
    array: Array, kind: TreeKind, threads: int | None = None, isa: int | None = None, sha: int = HAS_SHA
) -> bytes:
    """Return the root of the tree over the bytes of an f32, bf16, i64 or bool array of any shape, with NaNs canonical.

    `sha=0` avoids the instructions for SHA-256 (FIPS 180-4). Raise OpError for any other array, or MemoryError.
    """
    dtype, _ = spec_of(array, "tree_root: array")
    root = ctypes.create_string_buffer(HASH_BYTES)
    tags = bytes((kind.leaf_tag, kind.node_tag))
    place = (
        address_of(array),
        array.nbytes,
        ITEM_SIZE[dtype] if dtype.is_float else 0,
        tags + kind.empty_leaf,
        root,
    )
    if _tree_root(*place, threads or cpu.get_num_threads(), cpu.get_isa() if isa is None else isa, sha):
        raise MemoryError("tree_root: no memory for the hashes of the leaves")
    return root.raw


def sparse_root(
    data: bytes,
    ends: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    depth: int,
    kind: TreeKind,
    isa: int | None = None,
    sha: int = HAS_SHA,
) -> bytes:
    """Return the root of a tree of this depth whose only leaves are at `places`, ascending; all others are absent.

    Leaf i is `data` from ends[i - 1] (from 0 for the first) to ends[i]; `ends` and `places` are i64 arrays of one
    length. Raise ValueError for other arguments, or MemoryError.
    """
    lengths = np.diff(ends, prepend=np.int64(0))
    if ends.dtype != np.int64 or places.dtype != np.int64 or ends.shape != places.shape or ends.ndim != 1:
        raise ValueError(
            f"{ends.dtype}{ends.shape} ends for {places.dtype}{places.shape} places; int64, one of each"
        )
    if (lengths < 0).any() or (ends[-1] if ends.size else 0) != len(data):
        raise ValueError(f"leaves do not divide {len(data)} bytes")
    if lengths.max(initial=0) > MAX_LEAF_BYTES:
        raise ValueError(f"a leaf of {lengths.max()} bytes; the limit is {MAX_LEAF_BYTES}")
    inside = not places.size or (places[0] >= 0 and places[-1] >> depth == 0)
    if not 0 <= depth <= MAX_DEPTH or not inside or (np.diff(places) <= 0).any():
        raise ValueError(f"places do not ascend in a tree of depth {depth}, at most {MAX_DEPTH}")
    root = ctypes.create_string_buffer(HASH_BYTES)
    ends, places = np.ascontiguousarray(ends), places.copy()
    tags = bytes((kind.leaf_tag, kind.node_tag))
    leaves = data, ends.ctypes.data, places.ctypes.data, places.size, int(lengths.max(initial=0))
    machine = cpu.get_isa() if isa is None else isa, sha
    if _sparse_root(*leaves, depth, tags + kind.empty_leaf, root, *machine):
        raise MemoryError("sparse_root: no memory for the hashes of the leaves")
    return root.raw
