"""The Merkle tree over a tensor's bytes, hashed by the C kernels (kernels/csrc/hash_tree.c).

Which tags and which empty subtrees a tree has is for the caller to say: the package that defines commitments builds
on this one, not the other way round.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import NamedTuple

from . import cpu
from .library import LIBRARY
from .memory import address_of
from .opset import F32
from .tensors import Array, spec_of

LEAF_BYTES = 1024
HASH_BYTES = 32

HAS_SHA: int = LIBRARY.repops_has_sha()
"""1 if this machine has instructions for SHA-256."""

_tree_root = LIBRARY.repops_tree_root
_tree_root.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int),
]


class TreeKind(NamedTuple):
    """H(leaf_tag, up to 1024 bytes), H(node_tag, left, right); an absent leaf is `empty_leaf`."""

    leaf_tag: int
    node_tag: int
    empty_leaf: bytes

    def empty(self, height: int) -> bytes:
        """Root of the absent subtree of that height."""
        node = self.empty_leaf
        for _ in range(height):
            node = hashlib.sha256(bytes([self.node_tag]) + node + node).digest()
        return node


def tree_root(
    array: Array, kind: TreeKind, threads: int | None = None, isa: int | None = None, sha: int = HAS_SHA
) -> bytes:
    """The root of the tree over the bytes of an f32, i64 or bool array of any shape, NaNs hashed as the canonical one.

    `sha=0` leaves the instructions for SHA-256 alone. Raises an OpError for any other array; MemoryError.
    """
    dtype, _ = spec_of(array, "tree_root: array")
    root = ctypes.create_string_buffer(HASH_BYTES)
    tags = bytes((kind.leaf_tag, kind.node_tag))
    place = address_of(array), array.nbytes, dtype == F32, tags + kind.empty_leaf, root
    if _tree_root(*place, threads or cpu.get_num_threads(), cpu.get_isa() if isa is None else isa, sha):
        raise MemoryError("tree_root: no memory for the hashes of the leaves")
    return root.raw
