"""Trees made on a tensor's device equal those of the commitments."""

import ml_dtypes
import numpy as np
import pytest
from repops.cuda.hashing import hash_plan, level_counts
from repops.host.hashing import TreeKind
from repops.tensors import DTYPE_CODE

from referee_py.commit.hashing import Tag
from referee_py.commit.merkle import empty
from referee_py.commit.tensor import canonical, data_tree

from .emulation import TARGET, Guarded, needs_gcc, run

pytestmark = needs_gcc

KIND = TreeKind(Tag.LEAF, Tag.DATA_TREE, empty(Tag.DATA_TREE, 0))
SIZES = (0, 1, 13, 14, 15, 255, 256, 257, 512, 3000, 33 * 256, 130 * 256 + 5, 520 * 256)


def levels_of(array, shift=0, order=0):
    tensor = Guarded(array.nbytes, array.tobytes(), shift * array.itemsize)
    nodes = Guarded(32 * sum(level_counts(array.nbytes)))
    run(hash_plan((DTYPE_CODE[array.dtype], array.shape), KIND, TARGET), [tensor, nodes], order)
    return nodes.view.tobytes()


def test_empty_subtrees_are_those_of_the_commitments():
    assert [KIND.empty(height) for height in range(5)] == [
        empty(Tag.DATA_TREE, height) for height in range(5)
    ]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_trees_are_those_of_the_commitments(dtype, shift):
    rng = np.random.default_rng(1)
    for size in SIZES:
        bits = rng.integers(0, 2**32, size, dtype=np.uint32)  # one float in 128 is a NaN
        array = (bits % 2).astype(dtype)
        if dtype in (np.float32, ml_dtypes.bfloat16):
            array = bits.view(dtype)[:size].copy()
        tree = data_tree(canonical(array).tobytes())
        nodes = [
            tree.node(h, i) for h in range(tree.depth + 1) for i in range(-(-len(tree.leaves) // 2**h) or 1)
        ]
        assert levels_of(array, shift, order=3) == b"".join(nodes), size
        assert nodes[-1] == tree.root


@pytest.mark.parametrize("size", range(1008, 1027))
def test_every_length_of_a_last_leaf(size):
    for start in (0, 950):
        array = np.arange(size - start) % 3 == 0
        assert levels_of(array)[-32:] == data_tree(array.tobytes()).root


def test_a_tree_of_several_launches():
    array = np.arange(600 * 1024 * 1024 // 1024, dtype=np.int64)  # 4800 leaves: 13 levels
    assert levels_of(array)[-32:] == data_tree(array.tobytes()).root
