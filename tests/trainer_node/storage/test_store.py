"""The store keeps only the bytes that a name stands for."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from repops.opset import Dtype

from referee_py.commit import LEAF_BYTES, Record, Tag, Tree, tensor_hash
from referee_py.errors import InvalidInput, Unavailable
from referee_py.program.modes import Form
from referee_py.rounding.step_log import NodeLog, StepLog, compress
from tests.referee_py.rounding.logs import node_log
from trainer_node.errors import Corrupt
from trainer_node.storage.artifacts import (
    NUMPY_DTYPE,
    Fold,
    Kind,
    Name,
    check_for,
    encode_tensor_header,
    parse_hash,
    parse_tag,
)
from trainer_node.storage.store import Store


def h(number: int) -> bytes:
    return bytes([number]) * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", sync=False)


def files(store: Store) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


LIMIT = 1 << 20


def accept(name: Name, data: bytes, chunk: int = 100) -> None:
    check = check_for(name, LIMIT)
    for start in range(0, len(data), chunk):
        check.update(data[start : start + chunk])
    check.finish()


TENSORS = [
    np.arange(1000, dtype=np.float32).reshape(10, 100),
    np.zeros((0, 3), np.int64),
    np.array(-7, np.int64),
    np.array([[True, False]]),
    np.arange(LEAF_BYTES // 4, dtype=np.float32),
    np.arange(LEAF_BYTES // 4 + 1, dtype=np.float32),
]


@pytest.mark.parametrize("array", TENSORS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_tensor_comes_back_as_it_was(store: Store, array: np.ndarray) -> None:
    name = store.put_tensor(array)
    assert name == tensor_hash(array)
    found = store.get_tensor(name)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert (found == array).all()


def test_nan_is_stored_canonically(store: Store) -> None:
    odd = np.array([0x7FC00001, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    assert store.get_tensor(store.put_tensor(odd)).view(np.uint32).tolist() == [
        0x7FC00000,
        0x7FC00000,
        0x3F800000,
    ]


def test_blob_record_and_tree_come_back(store: Store) -> None:
    record = Record(h(1), (h(2), h(3)), (h(4),))
    tree = Tree(Tag.STEP_TREE, [h(i) for i in range(5)])
    assert store.get_blob(store.put_blob(b"program")) == b"program"
    assert store.get_record(store.put_record(record)) == record
    assert store.get_tree(Tag.STEP_TREE, store.put_tree(tree), 5).leaves == tree.leaves
    assert store.has(Name(Kind.TREE, tree.root, Tag.STEP_TREE, 5))
    assert not store.has(Name(Kind.TREE, tree.root, Tag.STEP_TREE, 4))


def test_trees_of_one_root_and_different_depth_live_side_by_side(store: Store) -> None:
    deep = Tree(Tag.RUN_TREE, [h(i) for i in range(4)])
    shallow = Tree(Tag.RUN_TREE, [deep.node(1, 0), deep.node(1, 1)])
    assert store.put_tree(shallow) == store.put_tree(deep)
    assert store.get_tree(Tag.RUN_TREE, deep.root, 4).leaves == deep.leaves
    assert store.get_tree(Tag.RUN_TREE, deep.root, 2).leaves == shallow.leaves
    found = store.find(Name(Kind.TREE, deep.root, Tag.RUN_TREE))
    assert found is not None
    assert found.name.endswith(".4")


def test_missing_is_unavailable(store: Store) -> None:
    with pytest.raises(Unavailable, match="not in the store"):
        store.get_blob(h(9))


def test_damage_on_disk_is_found_and_forgotten(store: Store) -> None:
    name = store.put_tensor(np.ones(2000, np.float32))
    path = store.find(Name(Kind.TENSOR, name))
    assert path is not None
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt):
        store.get_tensor(name)
    assert not path.exists()


def test_torn_file_is_written_again(store: Store) -> None:
    name = store.put_blob(b"x" * 5000)
    path = store.find(Name(Kind.BLOB, name))
    assert path is not None
    path.write_bytes(b"x" * 100)
    store.put_blob(b"x" * 5000)
    assert store.get_blob(name) == b"x" * 5000


def test_nothing_remains_of_what_was_refused(store: Store) -> None:
    name = Name(Kind.BLOB, hashlib.sha256(b"right").digest())
    with pytest.raises(Corrupt), store.incoming(name) as incoming:
        incoming.write(b"wrong")
    with pytest.raises(Corrupt, match="at most 3 bytes"), store.incoming(name, max_bytes=3) as incoming:
        incoming.write(b"right")
    with pytest.raises(ZeroDivisionError), store.incoming(name) as incoming:
        incoming.write(b"right"[: 1 // 0])
    assert files(store) == []


def test_store_refuses_more_than_its_limit(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=10)
    with pytest.raises(InvalidInput, match="10"):
        store.put_blob(b"x" * 11)


def test_tree_without_count_cannot_be_received(store: Store) -> None:
    with (
        pytest.raises(InvalidInput, match="number of leaves"),
        store.incoming(Name(Kind.TREE, h(1), Tag.RUN_TREE)),
    ):
        pass


@pytest.mark.parametrize("count", range(40))
def test_fold_agrees_with_tree(count: int) -> None:
    fold = Fold(Tag.STEP_TREE)
    leaves = [h(i) for i in range(count)]
    for leaf in leaves:
        fold.push(leaf)
    assert fold.root() == Tree(Tag.STEP_TREE, leaves).root


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13])
def test_fold_takes_whole_subtrees(count: int) -> None:
    leaves = [h(i) for i in range(4 * count)]
    fold = Fold(Tag.STEP_TREE)
    for k in range(0, len(leaves), 4):
        fold.push(Tree(Tag.STEP_TREE, leaves[k : k + 4]).root, 2)
    assert fold.root() == Tree(Tag.STEP_TREE, leaves).root


MIB = 1 << 20
"""What a check hashes at once."""


@pytest.mark.parametrize(
    "size", [MIB - 4, MIB, MIB + 4, 2 * MIB - 1024, 2 * MIB, 2 * MIB + 8, 3 * MIB + 1024, 5 * MIB + 2052]
)
@pytest.mark.parametrize("dtype", Dtype)
def test_check_takes_a_large_tensor_whole_and_in_pieces(size: int, dtype: Dtype) -> None:
    draw = np.random.default_rng(size).integers(0, 2, size, np.uint8)
    array = draw[: size - size % NUMPY_DTYPE[dtype].itemsize].view(NUMPY_DTYPE[dtype])
    name, data = Name(Kind.TENSOR, tensor_hash(array)), encode_tensor_header(array) + array.tobytes()
    for chunk in (len(data), MIB, MIB + 13, 300_007):
        accept(name, data, chunk)
    for wrong in (
        data[:-1],
        data + b"\0",
        data[:-1] + b"\x03",
        data[: MIB // 2] + b"\x03" + data[MIB // 2 + 1 :],
    ):
        with pytest.raises(Corrupt):
            accept(name, wrong, MIB)


def test_check_refuses_another_nan_in_any_piece() -> None:
    array = np.ones(3 * MIB // 4 + 5, np.float32)
    for place in (0, MIB // 4, array.size - 1):
        array[:] = 1
        array[place] = np.nan
        name, header = Name(Kind.TENSOR, tensor_hash(array)), encode_tensor_header(array)
        accept(name, header + array.tobytes())
        array.view(np.uint32)[place] = 0x7FC00001
        assert tensor_hash(array) == name.hash, "the hash is of the committed form"
        with pytest.raises(Corrupt, match="NaN"):
            accept(name, header + array.tobytes())


@pytest.mark.parametrize("chunk", [1, 7, 1024, 1 << 20])
def test_check_does_not_depend_on_chunks(chunk: int) -> None:
    array = np.arange(700, dtype=np.float32)
    accept(Name(Kind.TENSOR, tensor_hash(array)), encode_tensor_header(array) + array.tobytes(), chunk)


VECTOR = np.array([1.0, np.nan], np.float32)
ENCODED = encode_tensor_header(VECTOR) + VECTOR.tobytes()
NOT_THE_VECTOR = {
    "truncated": ENCODED[:-1],
    "empty": b"",
    "extra": ENCODED + b"\0",
    "dtype": b"\x09" + ENCODED[1:],
    "rank": b"\x01\xff" + ENCODED[2:],
    "huge": b"\x01\x01" + b"\xff" * 8 + ENCODED[10:],
    "huge but empty": b"\x01\x03" + b"\xff" * 16 + bytes(8),
    "nan": ENCODED[:-4] + b"\x01\x00\xc0\x7f",
}


@pytest.mark.parametrize("case", NOT_THE_VECTOR)
def test_check_refuses_every_other_form_of_a_tensor(case: str) -> None:
    name = Name(Kind.TENSOR, tensor_hash(VECTOR))
    accept(name, ENCODED)
    with pytest.raises(Corrupt):
        accept(name, NOT_THE_VECTOR[case])


def test_check_refuses_a_bool_that_is_neither() -> None:
    array = np.array([True, False])
    with pytest.raises(Corrupt, match="neither"):
        accept(Name(Kind.TENSOR, tensor_hash(array)), encode_tensor_header(array) + b"\x01\x02")


def test_inner_nodes_do_not_pass_for_leaves() -> None:
    tree = Tree(Tag.STEP_TREE, [h(i) for i in range(4)])
    inner = tree.node(1, 0) + tree.node(1, 1)
    with pytest.raises(Corrupt, match="2 leaves"):
        accept(Name(Kind.TREE, tree.root, Tag.STEP_TREE, 4), inner)


STEP_LOG = StepLog(
    {
        2: node_log(5000, {k: k % 3 > 1 for k in range(0, 5000, 7)}, {1: 0.5, 4999: -2.0}),
        3: node_log(7, {6: True}),
        6: node_log(20, {0: False, 19: True}, {3: 1.5}, Form.DENSE),
    }
)
SPARSE_LOG = StepLog({**STEP_LOG.nodes, 6: NodeLog.of(STEP_LOG.nodes[6].read(), Form.SPARSE)})
OTHER_LOG = StepLog({**STEP_LOG.nodes, 6: node_log(20, {0: False, 19: False}, {3: 1.5})})
NOT_THE_LOG = {
    "truncated": STEP_LOG.encode()[:-1],
    "empty": b"",
    "extra": STEP_LOG.encode() + b"x",
    "another direction": OTHER_LOG.encode(),
    "other elements": StepLog({**STEP_LOG.nodes, 3: node_log(8, {6: True})}).encode(),
    "no log of a node": StepLog({**STEP_LOG.nodes, 3: NodeLog(Form.SPARSE, 7, b"noise")}).encode(),
    "a node less": StepLog({2: STEP_LOG.nodes[2], 3: STEP_LOG.nodes[3]}).encode(),
    "no frame": b"nothing that was ever compressed",
    "too much": compress(bytes(LIMIT + 1)),
}


def test_a_step_log_comes_back_as_it_was(store: Store) -> None:
    for log in (STEP_LOG, StepLog.empty()):
        (root,) = store.put_logs([log], 9)
        assert root == log.root(9)
        assert store.get_log(root, 9) == log
    assert not store.has(Name(Kind.LOG, STEP_LOG.root(9), count=8))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_step_log_is_checked_as_it_comes(chunk: int) -> None:
    for log in (STEP_LOG, SPARSE_LOG):
        accept(Name(Kind.LOG, STEP_LOG.root(9), count=9), log.encode(), chunk)
    accept(Name(Kind.LOG, StepLog.empty().root(9), count=9), StepLog.empty().encode(), chunk)


@pytest.mark.parametrize("case", NOT_THE_LOG)
def test_check_refuses_every_other_step_log(case: str) -> None:
    with pytest.raises(Corrupt):
        accept(Name(Kind.LOG, STEP_LOG.root(9), count=9), NOT_THE_LOG[case])
    with pytest.raises(Corrupt):
        accept(Name(Kind.LOG, STEP_LOG.root(9), count=10), STEP_LOG.encode())


@pytest.mark.parametrize(
    "text", ["", "ab", "g" * 64, "A" * 64, "../" + "0" * 61, "0" * 65, "0" * 63 + "\n", "0" * 64 + "\n"]
)
def test_only_hashes_are_hashes(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_hash(text)


@pytest.mark.parametrize("text", ["", "1", "21", "01", "0x15", "015", "..", "१५"])
def test_only_tree_tags_are_tags(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_tag(text)


def test_names_are_checked() -> None:
    for bad in (
        lambda: Name(Kind.BLOB, b"short"),
        lambda: Name(Kind.TREE, h(1)),
        lambda: Name(Kind.BLOB, h(1), Tag.RUN_TREE),
        lambda: Name(Kind.TREE, h(1), Tag.LEAF, 1),
        lambda: Name(Kind.TREE, h(1), Tag.RUN_TREE, -1),
        lambda: Name(Kind.TREE, h(1), Tag.RUN_TREE, 1 << 60),
        lambda: Name(Kind.LOG, h(1)),
        lambda: Name(Kind.LOG, h(1), Tag.LOG_TREE, 1),
        lambda: Name(Kind.LOG, h(1), count=1 << 60),
    ):
        with pytest.raises(InvalidInput):
            bad()
