"""Trees, tensors and records against independent, naive computations."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.commit import (
    DataTree,
    Hashes,
    Record,
    Tag,
    Tree,
    canonical,
    data_tree,
    depth_of,
    empty,
    fold_descendants,
    fold_path,
    tensor_hash,
)
from referee_py.errors import InvalidEncoding, InvalidInput, InvalidProof


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def leaves_of(count: int) -> list[bytes]:
    return [sha(b"leaf", bytes([i])) for i in range(count)]


def naive_root(tag: Tag, leaves: list[bytes]) -> bytes:
    width = 1 << depth_of(len(leaves))
    row = leaves + [sha(bytes([Tag.EMPTY, tag]))] * (width - len(leaves))
    while len(row) > 1:
        row = [sha(bytes([tag]), row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 33])
def test_every_leaf_of_a_tree_is_proven_by_its_path(count: int) -> None:
    leaves = leaves_of(count)
    tree = Tree(Tag.RUN_TREE, leaves)
    assert tree.root == naive_root(Tag.RUN_TREE, leaves)
    for index in range(1 << tree.depth):
        leaf = leaves[index] if index < count else empty(Tag.RUN_TREE, 0)
        assert fold_path(Tag.RUN_TREE, leaf, index, tree.path(index)) == tree.root


SIZES = [(1 << k) + more for k in (10, 11, 12) for more in (-1, 0, 1)]


@pytest.mark.parametrize("count", [*SIZES, *[None] * 5])
def test_a_tree_of_any_size_is_the_same_whether_its_leaves_come_packed(count: int | None) -> None:
    """Without a count it is a random one, which no worker of the tests may know before."""
    count = random.randrange(9000) if count is None else count
    leaves = [random.randbytes(32) for _ in range(count)]
    tree, packed = Tree(Tag.RUN_TREE, leaves), Tree(Tag.RUN_TREE, Hashes(b"".join(leaves)))
    assert tree.root == packed.root == naive_root(Tag.RUN_TREE, leaves)
    assert list(tree.leaves) == leaves
    for index in [0, count - 1, *(random.randrange(1 << tree.depth) for _ in range(20))]:
        leaf = leaves[index] if index < count else empty(Tag.RUN_TREE, 0)
        assert tree.path(index) == packed.path(index)
        assert fold_path(Tag.RUN_TREE, leaf, index, tree.path(index)) == tree.root


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=9), st.data())
def test_packed_hashes_are_a_sequence_of_them(leaves: list[bytes], data: st.DataObject) -> None:
    packed = Hashes(b"".join(leaves))
    assert (len(packed), list(packed)) == (len(leaves), leaves)
    assert packed == Hashes.of(leaves) == Hashes.of(packed)
    assert hash(packed) == hash(Hashes.of(leaves))
    assert packed != Hashes.of([*leaves, bytes(32)])
    part = data.draw(st.slices(9))
    assert packed[part] == tuple(leaves[part])
    for index in range(-len(leaves), len(leaves)):
        assert packed[index] == leaves[index]
    for index in (len(leaves), -len(leaves) - 1):
        with pytest.raises(IndexError):
            packed[index]


def test_what_is_no_hash_is_no_leaf() -> None:
    with pytest.raises(InvalidProof, match="31 bytes"):
        Tree(Tag.RUN_TREE, [bytes(32), bytes(31), bytes(33)])
    with pytest.raises(InvalidProof, match="inside a hash"):
        Hashes(bytes(33))


@given(st.integers(1, 40), st.data())
def test_descendants_fold_back_to_their_ancestor(count: int, data: st.DataObject) -> None:
    tree = Tree(Tag.STEP_TREE, leaves_of(count))
    height = data.draw(st.integers(0, tree.depth))
    index = data.draw(st.integers(0, (1 << (tree.depth - height)) - 1))
    generations = data.draw(st.integers(0, height))
    children = tree.descendants(height, index, generations)
    assert fold_descendants(Tag.STEP_TREE, children) == tree.node(height, index)


def test_a_path_is_bound_to_its_index_length_and_kind() -> None:
    tree = Tree(Tag.RUN_TREE, leaves_of(5))
    path = tree.path(2)
    assert fold_path(Tag.RUN_TREE, tree.leaves[2], 3, path) != tree.root
    assert fold_path(Tag.RUN_TREE, tree.leaves[2], 2, path[:-1]) != tree.root
    assert fold_path(Tag.STEP_TREE, tree.leaves[2], 2, path) != tree.root
    with pytest.raises(InvalidProof, match="index 8 does not fit"):
        fold_path(Tag.RUN_TREE, tree.leaves[2], 8, path)
    with pytest.raises(InvalidProof, match="31 bytes"):
        fold_path(Tag.RUN_TREE, tree.leaves[2], 2, [path[0][:31], *path[1:]])
    with pytest.raises(InvalidProof, match="power of two"):
        fold_descendants(Tag.RUN_TREE, leaves_of(3))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 600])
def test_a_tensor_hash_is_leaves_then_shape(size: int) -> None:
    array = np.arange(size, dtype=np.float32)
    raw = array.tobytes()
    leaves = [sha(b"\x01", raw[i : i + 1024]) for i in range(0, len(raw), 1024)]
    shape = b"\x01\x01" + size.to_bytes(8, "big")
    assert tensor_hash(array) == sha(b"\x02", shape, naive_root(Tag.DATA_TREE, leaves))


def test_a_tensor_hash_sees_shape_dtype_and_layout_as_logical() -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert tensor_hash(array) != tensor_hash(array.reshape(4, 3))
    assert tensor_hash(array.T) == tensor_hash(array.T.copy())
    assert tensor_hash(np.array(0, np.int64)) != tensor_hash(np.zeros(1, np.int64))
    assert tensor_hash(np.zeros(8, np.bool_)) != tensor_hash(np.zeros(1, np.int64))


def test_a_tensor_hash_does_not_ask_how_the_array_lies_in_memory(tmp_path: Path) -> None:
    array = np.arange(700, dtype=np.float32)
    array.tofile(tmp_path / "array")
    mapped = np.memmap(tmp_path / "array", np.float32, "r")
    unaligned = np.frombuffer(b"\0" + array.tobytes(), np.float32, offset=1)
    assert tensor_hash(mapped) == tensor_hash(unaligned) == tensor_hash(array)


def test_nan_is_canonical_and_signed_zero_is_kept() -> None:
    quiet, payload = np.array([0x7FC00000, 0xFFC12345], np.uint32).view(np.float32)
    assert tensor_hash(np.array([quiet])) == tensor_hash(np.array([payload]))
    assert tensor_hash(np.array([0.0], np.float32)) != tensor_hash(np.array([-0.0], np.float32))


def test_other_dtypes_and_ranks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="float64"):
        tensor_hash(np.zeros(3))
    with pytest.raises(InvalidInput, match="rank 9"):
        tensor_hash(np.zeros((1,) * 9, np.float32))


@given(st.integers(0, 6), st.integers(0, 8), st.integers(0, 400))
def test_records_survive_their_encoding_and_nothing_else_decodes(nin: int, nout: int, cut: int) -> None:
    record = Record(sha(b"s"), tuple(leaves_of(nin)), tuple(leaves_of(nout)))
    data = record.encode()
    assert Record.decode(data) == record
    assert record.hash() == sha(b"\x04", data)
    if cut < len(data):
        with pytest.raises(InvalidEncoding):
            Record.decode(data[:cut])
    with pytest.raises(InvalidEncoding):
        Record.decode(data + b"\x00")


@pytest.mark.parametrize("piece", [0, 2, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_a_tree_that_is_hashed_when_asked_for_has_the_same_nodes(
    dtype: type[np.generic], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With data in one piece or in many, and with a short last leaf and a short last piece."""
    monkeypatch.setattr(DataTree, "_PIECE", piece)
    rng = np.random.default_rng(piece)
    for nbytes in (0, 8, 1024, 1032, 2048, 5 * 1024, 8 * 1024, 21 * 1024 + 16, 64 * 1024):
        array = rng.integers(0, 2, nbytes // np.dtype(dtype).itemsize).astype(dtype)
        if dtype is np.float32:
            array[::7] = np.array(0xFFC12345, np.uint32).view(np.float32)
        data = canonical(array).tobytes()
        tree, whole = DataTree(array), data_tree(data)
        for height in range(whole.depth + 1):
            for index in range(1 << (whole.depth - height)):
                assert tree.node(height, index) == whole.node(height, index)
        leaves = range(len(whole.leaves))
        assert b"".join(tree.leaf(leaf) for leaf in leaves) == data
        assert [tree.path(leaf) for leaf in leaves] == [whole.path(leaf) for leaf in leaves]
        with pytest.raises(InvalidProof):
            tree.node(whole.depth + 1, 0)


def test_hashing_a_large_tensor_is_stopped_between_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataTree, "_PIECE", 2)
    pieces = 0

    def rest() -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 5:
            raise InterruptedError

    tree = DataTree(np.zeros(64 * 256, np.float32), rest)
    with pytest.raises(InterruptedError):
        assert tree.root
    assert pieces == 5
    assert tree.root == data_tree(bytes(64 * 1024)).root
    assert pieces == 4 + 12 + 1, "the first four are not hashed again, the fifth is"
