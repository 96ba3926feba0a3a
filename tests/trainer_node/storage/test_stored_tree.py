"""A tree whose leaves stay on disk against the same tree in memory, and what a damaged disk makes of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from referee_py.commit import HASH_BYTES, Tag, Tree, fold_path
from referee_py.errors import InvalidProof, Unavailable
from trainer_node.errors import Corrupt, DiskFailed
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.refused_by_disk import Memory
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import path_of
from trainer_node.storage.stored_tree import PAGE_HEIGHT, StoredTree

PAGE = 1 << PAGE_HEIGHT
EDGES = [0, 1, 2, 3, 5, 8, 9, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 2 * PAGE + 1, 4 * PAGE + 1]


def stored(store: Store, count: int, tag: Tag = Tag.RUN_TREE) -> tuple[Tree, StoredTree]:
    tree = Tree(tag, [random.randbytes(HASH_BYTES) for _ in range(count)])
    return tree, StoredTree(store, tag, store.put_tree(tree), count)


@pytest.mark.parametrize("count", [*EDGES, *[None] * 6])
def test_each_node_is_that_of_the_tree_in_memory(tmp_path: Path, count: int | None) -> None:
    """Without a count it is a random one, which no worker of the tests may know before."""
    count = random.randrange(10 * PAGE) if count is None else count
    tree, found = stored(Store(tmp_path, sync=False), count)
    assert (found.root, found.depth, found.tag) == (tree.root, tree.depth, tree.tag)
    assert tuple(found.leaves) == tuple(tree.leaves)
    assert bytes(found.packed()) == tree.leaves.packed
    places = sorted(
        {0, count - 1, count, (1 << tree.depth) - 1, *(random.randrange(1 << tree.depth) for _ in range(20))}
    )
    for place in [place for place in places if 0 <= place < 1 << tree.depth]:
        path = found.path(place)
        assert path == tree.path(place)
        assert fold_path(tree.tag, found.node(0, place), place, path) == tree.root
    for height in range(tree.depth + 1):
        index = random.randrange(1 << (tree.depth - height))
        assert found.node(height, index) == tree.node(height, index)
        assert found.descendants(height, index, min(height, 2)) == tree.descendants(
            height, index, min(height, 2)
        )
        with pytest.raises(InvalidProof):
            found.node(height, 1 << (tree.depth - height))


def test_leaves_are_a_sequence(tmp_path: Path) -> None:
    tree, found = stored(Store(tmp_path, sync=False), 2 * PAGE + 3)
    assert found.leaves[-1] == tree.leaves[-1]
    assert found.leaves[PAGE - 2 : PAGE + 2] == tree.leaves[PAGE - 2 : PAGE + 2]
    assert found.leaves[5:2] == ()
    for leaves in (found.leaves, tree.leaves):
        with pytest.raises(IndexError):
            leaves[len(leaves)]


@pytest.mark.parametrize("place", [0, PAGE, 3 * PAGE])
def test_a_leaf_that_the_disk_has_damaged_is_not_taken_for_the_claim(tmp_path: Path, place: int) -> None:
    """An honest claim would be refuted for it. The rest can still be read, until it is fetched again."""
    store = Store(tmp_path, sync=False)
    tree, found = stored(store, 3 * PAGE + 1)
    path = path_of(tmp_path, Name(Kind.TREE, tree.root, tree.tag, len(tree.leaves)))
    data = bytearray(path.read_bytes())
    data[HASH_BYTES * place] ^= 1
    path.write_bytes(data)
    other = (place + PAGE) % len(tree.leaves)
    assert found.leaves[other] == tree.leaves[other]
    with pytest.raises(Corrupt):
        found.leaves[place]
    assert not path.exists()
    with pytest.raises(Unavailable):
        found.leaves[place]
    with pytest.raises(Unavailable):
        StoredTree(store, tree.tag, tree.root, len(tree.leaves))
    path.write_bytes(data)
    with pytest.raises(Corrupt):
        StoredTree(store, tree.tag, tree.root, len(tree.leaves))
    store.put_tree(tree)
    assert found.leaves[place] == tree.leaves[place]


@pytest.mark.parametrize("cut", [1, HASH_BYTES, HASH_BYTES * PAGE])
def test_a_file_that_was_torn_is_damaged(tmp_path: Path, cut: int) -> None:
    store = Store(tmp_path, sync=False)
    tree, _ = stored(store, PAGE + 9)
    path = path_of(tmp_path, Name(Kind.TREE, tree.root, tree.tag, len(tree.leaves)))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(Corrupt):
        StoredTree(store, tree.tag, tree.root, len(tree.leaves))


def test_a_disk_that_does_not_read_is_no_fault_of_the_claim(tmp_path: Path) -> None:
    store = Store(tmp_path, sync=False)
    tree, found = stored(store, 3)
    path = path_of(tmp_path, Name(Kind.TREE, tree.root, tree.tag, 3))
    path.unlink()
    path.mkdir()
    with pytest.raises(DiskFailed):
        StoredTree(store, tree.tag, tree.root, 3)
    assert found.root == tree.root


def test_on_a_full_disk_the_leaves_are_where_the_store_keeps_them(tmp_path: Path) -> None:
    view = Store(tmp_path, sync=False).held_by(1, memory=Memory(lambda: 1 << 20))
    tree, found = stored(view, PAGE + 1)
    assert found.leaves[PAGE] == tree.leaves[PAGE]
    assert found.path(PAGE) == tree.path(PAGE)
