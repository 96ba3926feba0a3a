"""Trees of hashes by every path of the C kernels, against hashlib on the same bytes."""

import hashlib

import numpy as np
import pytest
from repops.host.hashing import HAS_SHA, MAX_LEAF_BYTES, TreeKind, sparse_root, tree_root
from repops.host.library import BEST_ISA
from repops.opset import DtypeError
from repops.tensors import ArrayError

KIND = TreeKind(7, 9, hashlib.sha256(b"absent").digest())
# Hashing takes up to 16 messages side by side, then pairs; from 55 bytes on, a message with its tag has another block.
LENGTHS = (
    *range(2),
    *range(53, 58),
    *range(63, 66),
    *range(117, 122),
    *range(1008, 1041),
    1078,
    1079,
    2047,
    2048,
)
LEAVES = (*range(1, 20), 31, 32, 33, 47, 48, 100, 129, 300)

paths = pytest.mark.parametrize(
    ("isa", "sha"), [(isa, sha) for isa in range(BEST_ISA + 1) for sha in range(HAS_SHA + 1)]
)


def naive_root(data: bytes) -> bytes:
    """Return the root by docs/protocol.md, section 2: a perfect tree, padded with absent leaves."""
    row = [hashlib.sha256(b"\x07" + data[i : i + 1024]).digest() for i in range(0, len(data), 1024)] or [
        KIND.empty_leaf
    ]
    row += [KIND.empty_leaf] * ((1 << (len(row) - 1).bit_length()) - len(row))
    while len(row) > 1:
        row = [hashlib.sha256(b"\x09" + row[i] + row[i + 1]).digest() for i in range(0, len(row), 2)]
    return row[0]


def random_bytes(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 2, size, dtype=np.uint8).view(np.bool_)


@paths
def test_every_length_around_the_ends_of_blocks_and_leaves(isa, sha):
    for length in LENGTHS:
        array = random_bytes(length)
        assert tree_root(array, KIND, 1, isa, sha) == naive_root(array.tobytes()), length


@paths
@pytest.mark.parametrize("threads", [1, 3])
def test_every_number_of_leaves(isa, sha, threads):
    for leaves in LEAVES:
        for size in (leaves * 1024, leaves * 1024 - 1000):
            array = random_bytes(size)
            assert tree_root(array, KIND, threads, isa, sha) == naive_root(array.tobytes()), size


@paths
def test_a_tree_that_is_worth_several_threads(isa, sha):
    array = np.arange(1 << 18)  # 2048 leaves
    root = naive_root(array.tobytes())
    assert [tree_root(array, KIND, threads, isa, sha) for threads in (1, 2, 5)] == [root] * 3


@paths
@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 5000])
def test_nans_are_hashed_as_the_canonical_one(isa, sha, size):
    special = [
        0x7F800000,
        0xFF800000,
        0x7F800001,
        0xFFFFFFFF,
        0x7FC00000,
        0xFFC12345,
        0,
        0x80000000,
        1,
        0x7F7FFFFF,
    ]
    bits = np.random.default_rng(size).choice(np.array(special, np.uint32), size)
    canonical = np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FC00000), bits)
    before = bits.copy()
    assert tree_root(bits.view(np.float32), KIND, 2, isa, sha) == naive_root(canonical.tobytes())
    assert (bits == before).all()


def test_integers_that_look_like_nans_are_hashed_as_they_are():
    array = np.full(300, -1)
    assert tree_root(array, KIND) == naive_root(array.tobytes())


def test_an_array_that_is_no_tensor_is_refused():
    with pytest.raises(ArrayError, match="not C-contiguous"):
        tree_root(np.zeros((4, 4), np.float32).T[1:], KIND)
    with pytest.raises(DtypeError, match="tree_root: array has a dtype"):
        tree_root(np.zeros(4, np.float64), KIND)


def naive_sparse_root(leaves: dict[int, bytes], depth: int) -> bytes:
    nodes = {place: hashlib.sha256(b"\x07" + leaf).digest() for place, leaf in leaves.items()}
    for height in range(depth):
        absent = KIND.empty(height)
        nodes = {
            k: hashlib.sha256(b"\x09" + nodes.get(2 * k, absent) + nodes.get(2 * k + 1, absent)).digest()
            for k in {place >> 1 for place in nodes}
        }
    return nodes.get(0, KIND.empty(depth))


def sparse(leaves: dict[int, bytes], depth: int, isa: int, sha: int) -> bytes:
    places = sorted(leaves)
    ends = np.cumsum([len(leaves[k]) for k in places], dtype=np.int64)
    data = b"".join(leaves[k] for k in places)
    return sparse_root(data, ends, np.array(places, np.int64), depth, KIND, isa, sha)


@paths
def test_a_few_leaves_of_any_length_at_any_places(isa, sha):
    rng = np.random.default_rng(isa)
    for count in (0, 1, 2, 3, 15, 16, 17, 40, 333):
        for depth in (0, 1, 4, 9, 20, 62):
            most = [*LENGTHS, 4000, MAX_LEAF_BYTES] if count < 20 else [2, 4, 6, 50, 60, 61]
            places = np.unique(rng.integers(0, 1 << depth, min(count, 1 << depth))).tolist()
            leaves = {k: rng.bytes(int(rng.choice(most))) for k in places}
            assert sparse(leaves, depth, isa, sha) == naive_sparse_root(leaves, depth), (count, depth)
        leaves = {k: rng.bytes(k % 7) for k in range(count)}
        assert sparse(leaves, 9, isa, sha) == naive_sparse_root(leaves, 9)


def test_a_sparse_tree_of_all_leaves_is_a_tree():
    data = random_bytes(16 * 1024)
    ends = np.arange(1, 17, dtype=np.int64) * 1024
    assert sparse_root(data.tobytes(), ends, np.arange(16), 4, KIND) == tree_root(data, KIND)


@pytest.mark.parametrize(
    ("data", "ends", "places", "depth", "why"),
    [
        (b"abc", [2], [0], 3, "do not divide"),
        (b"abc", [2, 1, 3], [0, 1, 2], 3, "do not divide"),
        (b"abc", [], [], 3, "do not divide"),
        (b"abc", [3], [8], 3, "do not ascend"),
        (b"abc", [3], [-1], 3, "do not ascend"),
        (b"abc", [1, 3], [4, 4], 3, "do not ascend"),
        (b"abc", [1, 3], [4, 2], 3, "do not ascend"),
        (b"abc", [3], [0], 63, "at most 62"),
        (b"abc", [1, 3], [4], 3, "one of each"),
        (bytes(8191), [8191], [0], 3, "limit is 8190"),
    ],
)
def test_leaves_that_are_none_are_refused(data, ends, places, depth, why):
    with pytest.raises(ValueError, match=why):
        sparse_root(data, np.array(ends, np.int64), np.array(places, np.int64), depth, KIND)
