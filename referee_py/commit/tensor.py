"""Tensor hashes: row-major little-endian bytes in 1024-byte leaves, typed (docs/protocol.md, section 2)."""

from __future__ import annotations

import hashlib
import struct
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from repops.hashing import TreeKind, tree_root
from repops.opset import MAX_RANK, Dtype
from repops.tensors import DTYPE_CODE
from repops.tensors import canonical as canonical_nans

from ..errors import InvalidInput
from .hashing import Tag, digest
from .merkle import Tree, empty

LEAF_BYTES = 1024
DATA = TreeKind(Tag.LEAF, Tag.DATA_TREE, empty(Tag.DATA_TREE, 0))

Array = npt.NDArray[Any]


def dtype_of(array: Array) -> Dtype:
    """The wire code of an array's dtype. Raises InvalidInput for any other dtype."""
    code = DTYPE_CODE.get(array.dtype)
    if code is None:
        raise InvalidInput(f"dtype {array.dtype} cannot be committed; use float32, int64 or bool")
    return code


def _plain(array: Array) -> Array:
    return np.asarray(np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]))


def canonical(array: Array) -> Array:
    """The array as it is committed: contiguous, little-endian, every f32 NaN replaced by 0x7FC00000."""
    if sys.byteorder != "little":
        array = array.astype(array.dtype.newbyteorder("<"))
    return canonical_nans(_plain(array))


def describe(dtype: Dtype, shape: tuple[int, ...]) -> bytes:
    """``dtype u8 ‖ rank u8 ‖ dims u64be each``: the part of a tensor's hash that is not data."""
    if len(shape) > MAX_RANK:
        raise InvalidInput(f"rank {len(shape)} is above the limit of {MAX_RANK}")
    return struct.pack(f">BB{len(shape)}Q", dtype, len(shape), *shape)


def data_tree(data: bytes | memoryview) -> Tree:
    """The tree over the LEAF hashes of a tensor's bytes; :func:`tensor_hash` has its root from a kernel."""
    view = memoryview(data).cast("B")
    prefix = bytes([Tag.LEAF])
    leaves = []
    for start in range(0, len(view), LEAF_BYTES):
        h = hashlib.sha256(prefix)
        h.update(view[start : start + LEAF_BYTES])
        leaves.append(h.digest())
    return Tree(Tag.DATA_TREE, leaves)


def tensor_hash(array: Array) -> bytes:
    """The TENSOR hash of an array (float32, int64 or bool, any shape of rank <= 8).

    Raises InvalidInput for any other. Uses as many threads as the kernels may (``repops.set_num_threads``).
    """
    return typed_hash(dtype_of(array), array.shape, tree_root(_plain(array), DATA))


def typed_hash(dtype: Dtype, shape: tuple[int, ...], root: bytes) -> bytes:
    """The TENSOR hash of data whose tree has this root, wherever that was computed."""
    return digest(Tag.TENSOR, describe(dtype, shape), root)
