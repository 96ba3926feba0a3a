"""Proof that a row belongs to a data set, for a verifier that holds only the root.

    root ── TENSOR hash k ── data root ── leaves that cover the row ── the row's bytes
         path of k           siblings left and right of those leaves

Tensors are little-endian bytes in leaves of 1024 (docs/protocol.md, section 2), so a row is a range of bytes in a
range of leaves. Its proof carries those leaves and the hashes beside them. The root is that of a data set, or the
constant root of a program: both are trees over TENSOR hashes.

The file is canonical CBOR, a map with the keys `format` (1), `row` and `tensors`, a list of
`[number, dtype, [dims], leaves, siblings, path]` in ascending number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cbor2
import numpy as np
from repops.opset import ITEM_SIZE, MAX_ELEMENTS, MAX_RANK, Dtype

from referee_py.commit import (
    HASH_BYTES,
    LEAF_BYTES,
    Tag,
    Tree,
    canonical,
    data_tree,
    depth_of,
    describe,
    digest,
    empty,
    fold_path,
)
from referee_py.commit.tensor import Array, dtype_of
from referee_py.errors import InvalidEncoding, InvalidInput, InvalidProof, UnknownVersion
from trainer_node.storage.artifacts import NUMPY_DTYPE

FORMAT = 1
MAX_PROOF_BYTES = 256 << 20
MAX_TENSORS = 1 << 20
"""Limit on the number of constants of a program."""


@dataclass(frozen=True)
class TensorRow:
    """The part of a proof about one tensor: its `number` in the tree, its type, and the hashes."""

    number: int
    dtype: Dtype
    shape: tuple[int, ...]
    leaves: tuple[bytes, ...]
    siblings: tuple[bytes, ...]
    path: tuple[bytes, ...]

    def row_bytes(self) -> int:
        return ITEM_SIZE[self.dtype] * math.prod(self.shape[1:])


@dataclass(frozen=True)
class RowProof:
    """Proof of row `row` of some tensors under one root."""

    row: int
    tensors: tuple[TensorRow, ...]

    def verify(self, root: bytes, row: int) -> dict[int, Array]:
        """Return the row of each tensor, by its number. Raises InvalidProof unless all of them are under `root`.

        `row` is the requested row: a proof of another row is refused.
        """
        if self.row != row:
            raise InvalidProof(f"the proof is of row {self.row}, not of row {row}")
        if not self.tensors:
            raise InvalidProof("the proof covers no tensor")
        return {tensor.number: _verify(tensor, row, root) for tensor in self.tensors}

    def to_bytes(self) -> bytes:
        tensors = [
            [t.number, int(t.dtype), list(t.shape), list(t.leaves), list(t.siblings), list(t.path)]
            for t in self.tensors
        ]
        return cbor2.dumps({"format": FORMAT, "row": self.row, "tensors": tensors}, canonical=True)

    @classmethod
    def from_bytes(cls, data: bytes) -> RowProof:
        """Read an untrusted proof. Raises InvalidEncoding or UnknownVersion."""
        if len(data) > MAX_PROOF_BYTES:
            raise InvalidEncoding(f"a proof of {len(data)} bytes; the limit is {MAX_PROOF_BYTES}")
        try:
            top = cbor2.loads(data, max_depth=4, allow_indefinite=False, allow_duplicate_keys=False)
        except Exception as error:  # NOTE: hostile bytes reach constructors of many types inside the decoder
            raise InvalidEncoding(f"the proof is not CBOR: {error}") from error
        if type(top) is not dict or set(top) != {"format", "row", "tensors"}:
            raise InvalidEncoding("a proof is a map with exactly the keys format, row and tensors")
        if type(top["format"]) is not int or top["format"] != FORMAT:
            raise UnknownVersion(f"proof format {top['format']!r}; this build reads {FORMAT}")
        if type(top["tensors"]) is not list:
            raise InvalidEncoding("the tensors of a proof are a list")
        proof = cls(_int(top["row"], MAX_ELEMENTS), tuple(_tensor(item) for item in top["tensors"]))
        numbers = [tensor.number for tensor in proof.tensors]
        if numbers != sorted(set(numbers)):
            raise InvalidEncoding(f"the tensors of a proof ascend, each once, unlike {numbers[:20]}")
        if proof.to_bytes() != data:
            raise InvalidEncoding("the proof is not canonical CBOR")
        return proof


def prove(tensors: Mapping[int, Array], hashes: Sequence[bytes], row: int) -> RowProof:
    """Prove a row of these tensors, given by number, under the tree over `hashes`. Raises InvalidInput."""
    tree = Tree(Tag.CONSTANT_TREE, hashes)
    return RowProof(row, tuple(_prove(tensors[k], k, tree, row) for k in sorted(tensors)))


def _prove(array: Array, number: int, tree: Tree, row: int) -> TensorRow:
    if not array.ndim or not 0 <= row < len(array):
        raise InvalidInput(
            f"row {row} of tensor {number}, whose shape is {list(array.shape)}, does not exist"
        )
    data = canonical(array).reshape(-1).view(np.uint8)
    covered = _cover(row, data.size // len(array))
    leaves = [data[k * LEAF_BYTES : (k + 1) * LEAF_BYTES].tobytes() for k in covered]
    own = data_tree(data.data)
    siblings = [own.node(height, index) for height, index in _beside(len(own.leaves), covered)]
    code = dtype_of(array)
    if digest(Tag.TENSOR, describe(code, array.shape), own.root) != tree.leaves[number]:
        raise InvalidInput(f"tensor {number} is not the one that the root commits to")
    return TensorRow(number, code, array.shape, tuple(leaves), tuple(siblings), tuple(tree.path(number)))


def _verify(tensor: TensorRow, row: int, root: bytes) -> Array:
    """Return the row after checking its path. INVARIANT: which leaves, how many hashes and their places all follow from
    the shape, which the TENSOR hash commits to; so a proof of one place cannot pass for another."""
    where = f"tensor {tensor.number}"
    if not tensor.shape or not row < tensor.shape[0]:
        raise InvalidProof(f"{where} has no row {row}: its shape is {list(tensor.shape)}")
    width = tensor.row_bytes()
    if not width:
        raise InvalidProof(f"a row of {where} has no element: its shape is {list(tensor.shape)}")
    total = width * tensor.shape[0]
    covered = _cover(row, width)
    # NOTE: numbers are compared before a list of that length is made: a shape may claim 2^32 leaves.
    sizes = [len(leaf) for leaf in tensor.leaves]
    if len(sizes) != len(covered) or sizes != [min(LEAF_BYTES, total - k * LEAF_BYTES) for k in covered]:
        raise InvalidProof(
            f"{where}: row {row} is in {len(covered)} leaves, which are not what the proof has"
        )
    count = -(-total // LEAF_BYTES)
    nodes = [digest(Tag.LEAF, leaf) for leaf in tensor.leaves]
    data_root = _fold_range(nodes, count, covered, tensor.siblings, where)
    tensor_hash = digest(Tag.TENSOR, describe(tensor.dtype, tensor.shape), data_root)
    if fold_path(Tag.CONSTANT_TREE, tensor_hash, tensor.number, tensor.path) != root:
        raise InvalidProof(f"{where}: the proof does not lead to root {root.hex()}")
    start = row * width - covered.start * LEAF_BYTES
    data = bytearray(b"".join(tensor.leaves)[start : start + width])
    if tensor.dtype is Dtype.BOOL and max(data) > 1:
        raise InvalidProof(f"{where} has a bool that is neither 0 nor 1; the root is not that of a tensor")
    return np.frombuffer(data, NUMPY_DTYPE[tensor.dtype]).reshape(tensor.shape[1:])


def _cover(row: int, width: int) -> range:
    """Return the range of leaves that hold the bytes of a row of `width` bytes."""
    if not width:
        return range(0)
    return range(row * width // LEAF_BYTES, ((row + 1) * width - 1) // LEAF_BYTES + 1)


def _beside(count: int, covered: range) -> Iterator[tuple[int, int]]:
    """Yield `(height, index)` of the nodes that lead from the covered leaves to the root of a tree of `count` leaves.

    Order: from below, left before right. A node over absent leaves only is a constant and left out.
    """
    first, last = covered.start, covered.stop - 1
    for height in range(depth_of(count)):
        if first & 1:
            yield height, first - 1
        if not last & 1 and last + 1 < -(-count >> height):
            yield height, last + 1
        first, last = first >> 1, last >> 1


def _fold_range(
    nodes: list[bytes], count: int, covered: range, siblings: Sequence[bytes], where: str
) -> bytes:
    """Compute the root over neighbouring leaves and the nodes beside them."""
    beside = list(_beside(count, covered))
    if len(siblings) != len(beside):
        raise InvalidProof(f"{where}: {len(siblings)} siblings where the tree has {len(beside)}")
    known = dict(zip(beside, siblings, strict=True))
    first = covered.start
    for height in range(depth_of(count)):
        if first & 1:
            first -= 1
            nodes.insert(0, known[height, first])
        if len(nodes) & 1:
            nodes.append(known.get((height, first + len(nodes)), empty(Tag.DATA_TREE, height)))
        nodes = [digest(Tag.DATA_TREE, nodes[k], nodes[k + 1]) for k in range(0, len(nodes), 2)]
        first >>= 1
    return nodes[0]


# ------------------------------------------------------------------------------------------ reading plain values


def _int(value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise InvalidEncoding(f"an int below {limit} is expected, not {str(value)[:40]}")
    return value


def _bytes_list(value: object, size: int | None) -> tuple[bytes, ...]:
    if type(value) is not list or any(type(item) is not bytes for item in value):
        raise InvalidEncoding("a list of byte strings is expected")
    if size is not None and any(len(item) != size for item in value):
        raise InvalidEncoding(f"a hash has {size} bytes")
    return tuple(value)


def _tensor(value: object) -> TensorRow:
    if type(value) is not list or len(value) != 6 or type(value[2]) is not list:
        raise InvalidEncoding("a tensor of a proof is [number, dtype, [dims], leaves, siblings, path]")
    number, code, dims, leaves, siblings, path = value
    if type(code) is not int or code not in set(Dtype) or len(dims) > MAX_RANK:
        raise InvalidEncoding(f"a tensor of dtype {str(code)[:40]} and rank {len(dims)} does not exist")
    shape = tuple(_int(dim, MAX_ELEMENTS) for dim in dims)
    if math.prod(shape) >= MAX_ELEMENTS:
        raise InvalidEncoding(f"shape {list(shape)} has {MAX_ELEMENTS} elements or more")
    return TensorRow(
        _int(number, MAX_TENSORS),
        Dtype(code),
        shape,
        _bytes_list(leaves, None),
        _bytes_list(siblings, HASH_BYTES),
        _bytes_list(path, HASH_BYTES),
    )
