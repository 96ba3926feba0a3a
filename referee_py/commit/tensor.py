"""Tensor hashes: row-major little-endian bytes in 1024-byte leaves, typed (docs/protocol.md, section 2)."""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from repops.host.hashing import TreeKind, tree_root
from repops.opset import MAX_RANK, Dtype
from repops.tensors import DTYPE_CODE
from repops.tensors import canonical as canonical_nans

from ..errors import InvalidInput
from .hashing import Tag, digest
from .merkle import Nodes, Tree, depth_of, empty

LEAF_BYTES = 1024
DATA = TreeKind(Tag.LEAF, Tag.DATA_TREE, empty(Tag.DATA_TREE, 0))

Array = npt.NDArray[Any]


def dtype_of(array: Array) -> Dtype:
    """Return the wire code of an array's dtype. Raises InvalidInput for any other dtype."""
    code = DTYPE_CODE.get(array.dtype)
    if code is None:
        raise InvalidInput(f"dtype {array.dtype} cannot be committed; use float32, bfloat16, int64 or bool")
    return code


def _plain(array: Array) -> Array:
    return np.asarray(np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]))


def canonical(array: Array) -> Array:
    """Return the array in its committed form: contiguous, little-endian, every f32 NaN replaced by 0x7FC00000,
    every bf16 NaN by 0x7FC0."""
    if sys.byteorder != "little":
        array = array.astype(array.dtype.newbyteorder("<"))
    return canonical_nans(_plain(array))


def describe(dtype: Dtype, shape: tuple[int, ...]) -> bytes:
    """Return ``dtype u8 ‖ rank u8 ‖ dims u64be each``, the part of a tensor's hash that is not data."""
    if len(shape) > MAX_RANK:
        raise InvalidInput(f"rank {len(shape)} is above the limit of {MAX_RANK}")
    return struct.pack(f">BB{len(shape)}Q", dtype, len(shape), *shape)


def data_tree(data: bytes | memoryview) -> Tree:
    """Return the tree over the LEAF hashes of a tensor's bytes; a kernel gives its root to :func:`tensor_hash`."""
    view = memoryview(data).cast("B")
    prefix = bytes([Tag.LEAF])
    leaves = []
    for start in range(0, len(view), LEAF_BYTES):
        h = hashlib.sha256(prefix)
        h.update(view[start : start + LEAF_BYTES])
        leaves.append(h.digest())
    return Tree(Tag.DATA_TREE, leaves)


def data_node(data: bytes | memoryview, height: int) -> bytes:
    """Return the node at a height over a tensor's bytes, which have at most ``2^height`` leaves. Uses one thread."""
    # NOTE: bytes of bools are hashed as they are.
    return _node(np.frombuffer(data, np.bool_), height, threads=1)


def _node(part: Array, height: int, threads: int | None = None) -> bytes:
    node = tree_root(part, DATA, threads)
    # NOTE: the last piece of a tree may be short, and its own tree is only as deep as its leaves need.
    for level in range(depth_of(-(-part.nbytes // LEAF_BYTES)), height):
        node = digest(Tag.DATA_TREE, node, empty(Tag.DATA_TREE, level))
    return node


class DataTree(Nodes):
    """The data tree of an array. Its nodes are hashed natively, on request.

    Memory: 32 bytes for each requested node, and for each node that covers more than 64 MiB. ``rest`` is called
    between pieces of that size, and may raise.
    """

    _PIECE = 16  # height of a node over 2^16 leaves

    def __init__(self, array: Array, rest: Callable[[], None] = lambda: None) -> None:
        self.tag = Tag.DATA_TREE
        self._data = _plain(array).reshape(-1)
        self._rest = rest
        self._nodes: dict[tuple[int, int], bytes] = {}
        self._count = -(-self._data.nbytes // LEAF_BYTES)
        self.depth = depth_of(self._count)

    def leaf(self, index: int) -> bytes:
        """Return the bytes of a leaf in their committed form."""
        step = LEAF_BYTES // self._data.itemsize
        return canonical(self._data[index * step : (index + 1) * step]).tobytes()

    def node(self, height: int, index: int) -> bytes:
        self._check(height, index)
        if index << height >= self._count:
            return empty(self.tag, height)
        if (height, index) not in self._nodes:
            self._nodes[height, index] = self._hash(height, index)
        return self._nodes[height, index]

    def _hash(self, height: int, index: int) -> bytes:
        if height > self._PIECE:
            below = height - 1, 2 * index
            return digest(self.tag, self.node(*below), self.node(below[0], below[1] + 1))
        self._rest()
        step = (LEAF_BYTES << height) // self._data.itemsize
        return _node(self._data[index * step : (index + 1) * step], height)


def tensor_hash(array: Array) -> bytes:
    """Return the TENSOR hash of an array (float32, bfloat16, int64 or bool, any shape of rank <= 8).

    Raises InvalidInput for any other array. Uses as many threads as the kernels may (``repops.set_num_threads``).
    """
    return typed_hash(dtype_of(array), array.shape, tree_root(_plain(array), DATA))


def typed_hash(dtype: Dtype, shape: tuple[int, ...], root: bytes) -> bytes:
    """Return the TENSOR hash of data whose tree has this root."""
    return digest(Tag.TENSOR, describe(dtype, shape), root)
