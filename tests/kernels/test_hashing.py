"""Trees of hashes by every path of the C kernels, against hashlib on the same bytes."""

import hashlib

import numpy as np
import pytest
from repops.hashing import HAS_SHA, TreeKind, tree_root
from repops.library import BEST_ISA
from repops.tensors import ArrayError, DtypeError

KIND = TreeKind(7, 9, hashlib.sha256(b"absent").digest())
# Hashing takes up to 16 messages side by side, then pairs; a message has one block more from 55 bytes on, with its tag.
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
    """As docs/protocol.md, section 2, says: a perfect tree, padded with absent leaves."""
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
