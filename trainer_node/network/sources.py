"""Sources of artifacts, each of which brings them into a store by their hashes.

Served      servers that parties name on the chain (`fetcher`)
Located     a folder, a web server or a bucket (audit/published.py)
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

from referee_py.commit import HASH_BYTES, Record, Tag, Tree
from referee_py.commit.tensor import Array
from referee_py.rounding.step_log import StepLog

from ..storage.artifacts import MAX_RECORD_BYTES, Kind, Name
from ..storage.store import Store
from ..storage.stored_tree import StoredTree
from .fetcher import Fetcher


class Source(ABC):
    """Brings artifacts into a store, checked against their names. ``fetched``: bytes brought so far."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fetched = 0

    @abstractmethod
    def bring(self, name: Name, max_bytes: int) -> None:
        """Bring an artifact of at most ``max_bytes`` that the store lacks. Raises Unavailable."""

    def fetch(self, name: Name, max_bytes: int | None = None) -> None:
        """Bring an artifact that the store lacks. Raises Unavailable, and Corrupt for other bytes than its own."""
        if self.store.has(name):
            return
        self.bring(name, min(max_bytes or self.store.max_bytes, self.store.max_bytes))
        self.fetched += self._size(name)

    def _size(self, name: Name) -> int:
        """Return the bytes of an artifact; none if it has gone meanwhile."""
        path = self.store.find(name)
        with contextlib.suppress(FileNotFoundError):
            return path.stat().st_size if path is not None else 0
        return 0

    def fetch_all(self, names: Sequence[Name], max_bytes: int | None = None) -> None:
        """Fetch all of them. Raises as `fetch`."""
        for name in names:
            self.fetch(name, max_bytes)

    def ahead(self, names: Sequence[Name], max_bytes: int) -> None:  # noqa: ARG002
        """Bring artifacts that are needed next, side by side, if that is any faster. Raises Unavailable."""
        return

    def once(self, name: Name, max_bytes: int) -> bytes | bytearray:
        """Return the checked bytes of an artifact that is needed once. A source need not keep it in the store."""
        self.fetch(name, max_bytes)
        return self.store.get(name)

    def blob(self, sha256: bytes, max_bytes: int | None = None) -> bytes:
        self.fetch(Name(Kind.BLOB, sha256), max_bytes)
        return self.store.get_blob(sha256)

    def tree(self, tag: Tag, root: bytes, count: int) -> Tree:
        """Return the tree of that kind and root with exactly ``count`` leaves."""
        self.fetch(Name(Kind.TREE, root, tag, count), HASH_BYTES * count)
        return self.store.get_tree(tag, root, count)

    def stored_tree(self, tag: Tag, root: bytes, count: int) -> StoredTree:
        """Return a tree that may be large: its leaves stay in the store."""
        self.fetch(Name(Kind.TREE, root, tag, count), HASH_BYTES * count)
        return StoredTree(self.store, tag, root, count)

    def record(self, record: bytes) -> Record:
        """Return a node's record."""
        self.fetch(Name(Kind.RECORD, record), MAX_RECORD_BYTES)
        return self.store.get_record(record)

    def tensor(self, tensor: bytes, max_bytes: int | None = None) -> Array:
        """Return a tensor; its dtype and shape are part of its hash. ``max_bytes`` bounds header and data."""
        self.fetch(Name(Kind.TENSOR, tensor), max_bytes)
        return self.store.get_tensor(tensor)

    def log(self, root: bytes, nodes: int, max_bytes: int | None = None) -> StepLog:
        """Return the rounding logs of a step. ``max_bytes`` bounds their unpacked size."""
        self.fetch(Name(Kind.LOG, root, count=nodes), max_bytes)
        return self.store.get_log(root, nodes)


class Served(Source):
    """Artifacts of a party's servers, at ``uris``. Raises as the fetcher."""

    def __init__(self, fetcher: Fetcher, uris: Sequence[str]) -> None:
        super().__init__(fetcher.store)
        self._fetcher, self._uris = fetcher, uris

    def bring(self, name: Name, max_bytes: int) -> None:
        self._fetcher.fetch(name, self._uris, max_bytes=max_bytes)

    def fetch_all(self, names: Sequence[Name], max_bytes: int | None = None) -> None:
        missing = [name for name in dict.fromkeys(names) if not self.store.has(name)]
        try:
            self._fetcher.fetch_all(missing, self._uris, max_bytes=max_bytes)
        finally:
            self.fetched += sum(map(self._size, missing))

    def ahead(self, names: Sequence[Name], max_bytes: int) -> None:
        # NOTE: a slow server then costs its delay once for many artifacts.
        self.fetch_all(names, max_bytes)
