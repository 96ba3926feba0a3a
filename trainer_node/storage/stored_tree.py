"""A tree whose leaves stay on disk: what is asked of it is read page by page, and checked against its root.

    in memory    the nodes from the tops of the pages up to the root, 64 bytes a page; and the page that was read last
    on disk      the leaves, in pages of 1,024

INVARIANT: of a tree of a million leaves no more than 128 KiB are in memory, and a leaf or a path costs a page, and not
the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from referee_py.commit import HASH_BYTES, Nodes, Tag, depth_of, empty, parents

from ..errors import Corrupt
from .artifacts import Kind, Name
from .store import Store

PAGE_HEIGHT = 10
_PAGE_BYTES = HASH_BYTES << PAGE_HEIGHT


class StoredTree(Nodes):
    """A tree in a store. Raises Unavailable where its file is not there, Corrupt where the disk has damaged it (and
    removes it), DiskFailed; also later, with each question."""

    def __init__(self, store: Store, tag: Tag, root: bytes, count: int) -> None:
        self._store, self._name = store, Name(Kind.TREE, root, tag, count)
        self.tag, self.depth, self._count = tag, depth_of(count), count
        self._height = min(PAGE_HEIGHT, self.depth)
        self._last = -1, list[bytes]()
        row = b"".join(self._rows(number)[-1] for number in range(-(-count >> self._height)))
        self._above = [row]
        for height in range(self._height, self.depth):
            self._above.append(parents(tag, self._above[-1], height))
        if (self._above[-1] or empty(tag, 0)) != root:
            raise self._damaged()

    @property
    def leaves(self) -> Sequence[bytes]:
        """The leaves, each read when it is asked for."""
        return _Leaves(self.node, self._count)

    def node(self, height: int, index: int) -> bytes:
        self._check(height, index)
        if index << height >= self._count:
            return empty(self.tag, height)
        if height >= self._height:
            return _at(self._above[height - self._height], index)
        page, place = divmod(index, 1 << (self._height - height))
        return _at(self._page(page)[height], place)

    def packed(self) -> bytearray:
        """Return a copy of all leaves. NOTE: that is 32 bytes for each."""
        found = bytearray()
        for number in range(-(-self._count >> self._height)):
            found += self._page(number)[0]
        return found

    # ------------------------------------------------------------------ inside

    def _page(self, number: int) -> list[bytes]:
        """Return the rows of nodes of a page, as far as they cover a leaf. NOTE: who asks often asks for the same."""
        last, rows = self._last
        if number != last:
            rows = self._rows(number)
            if rows[-1] != _at(self._above[0], number):
                raise self._damaged()
            self._last = number, rows
        return rows

    def _rows(self, number: int) -> list[bytes]:
        start, size = number * _PAGE_BYTES, HASH_BYTES * self._count
        want = min(HASH_BYTES << self._height, size - start)
        rows = [self._store.part(self._name, start, want)]
        if len(rows[0]) != want:
            raise self._damaged()
        for height in range(self._height):
            rows.append(parents(self.tag, rows[-1], height))
        return rows

    def _damaged(self) -> Corrupt:
        self._store.forget(self._name)
        return Corrupt(f"the bytes of {self._name} on disk are damaged; they are fetched again")


class _Leaves(Sequence[bytes]):
    def __init__(self, node: Callable[[int, int], bytes], count: int) -> None:
        self._node, self._count = node, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        places = range(self._count)[index]
        if isinstance(places, int):
            return self._node(0, places)
        return tuple(self._node(0, place) for place in places)


def _at(row: bytes, index: int) -> bytes:
    return row[HASH_BYTES * index : HASH_BYTES * (index + 1)]
