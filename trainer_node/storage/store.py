"""Content-addressed artifacts on disk, each in its file (:mod:`trainer_node.storage.store_files`).

A file appears under its name in one rename, after its bytes were checked: readers and the server never see half a file.

A disk that refuses raises DiskFailed; one that is full, DiskFull, after ``make_room`` has been asked for room. What a
job may not take, because it is kept for others, ``refuses`` says: RoomKept.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from referee_py.commit import Hashes, Record, Tag, Tree, canonical, tensor_hash
from referee_py.errors import InvalidInput, Unavailable
from referee_py.rounding.step_log import StepLog

from ..errors import Corrupt, DiskFailed, DiskFull, RoomKept
from .artifacts import Array, Kind, Name, check_for, decode_tensor, encode_tensor_header
from .disk import disk_errors, on_disk
from .disk_estimate import NoRoom
from .incoming import Incoming, Usage
from .job_holds import DRAWN, RESULT, WORK, Holders
from .refused_by_disk import Memory
from .store_files import INCOMING, PREFIX, find, path_of

DEFAULT_MAX_BYTES = 16 << 30
_CHUNK = 1 << 20
_LEFTOVER_S = 24 * 3600


class Store:
    """Artifacts by hash. Safe for several threads and processes: files are immutable and appear atomically.

    ``max_bytes`` bounds one artifact. ``sync=False`` leaves out fsync: faster, and still safe, because a torn file
    fails its check when it is read and is then removed.
    ``usage`` counts what this process has seen of the store; `retention` counts again from time to time.
    """

    def __init__(self, root: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, sync: bool = True) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.holders = Holders(root)
        self.lock = threading.Lock()
        """Held while a file is found to be in use, or removed."""
        self.usage = Usage()
        self.make_room: Callable[[int], bool] = lambda _bytes: False
        """Asked for so many bytes when the disk is full; returns whether it is worth trying again."""
        self.refuses: Callable[[int, int, bool], NoRoom | None] = lambda _job, _bytes, _drawn: None
        """Asked whether a job may keep so many bytes more, and whether they are drawn; returns why not, or None."""
        self._for: tuple[int, str] | None = None
        self._memory: Memory | None = None
        self._sync = sync
        self._incoming = root / INCOMING
        with disk_errors(root):
            self._incoming.mkdir(parents=True, exist_ok=True)
        # Leftovers of crashes; another process may still write newer ones.
        for path in self._incoming.glob(f"{PREFIX}*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _LEFTOVER_S:
                    path.unlink()

    def held_by(
        self, job: int, *, result: bool = False, drawn: bool = False, memory: Memory | None = None
    ) -> Store:
        """Return this store, whose artifacts belong to a job from now on: to its work, to its ``result``, or to what is
        ``drawn`` to check what others claim in it.

        With ``memory`` what is received or put is kept there, and so is what is on disk where the disk does not note
        that the job holds it: a view for a disk that has refused.
        """
        view = copy.copy(self)
        view.make_room = lambda size: self.make_room(size)
        view.refuses = lambda of, size, drawn: self.refuses(of, size, drawn)
        view._for = job, RESULT if result else DRAWN if drawn else WORK
        view._memory = memory
        return view

    @property
    def in_memory(self) -> bool:
        """True if this view keeps what it receives in memory."""
        return self._memory is not None

    def unload(self, job: int, memory: Memory) -> None:
        """Move to the disk what is kept in memory for a job. Raises DiskFailed; what is left stays in memory."""
        view = self.held_by(job)
        for name in memory.names(job):
            data = memory.get(job, name)
            if data is not None:
                view._put(name, data)
                memory.drop(job, name)

    # ------------------------------------------------------------------ put

    def put_blob(self, data: bytes) -> bytes:
        """Store a blob; returns its SHA-256."""
        name = Name(Kind.BLOB, hashlib.sha256(data).digest())
        self._put(name, data)
        return name.hash

    def put_tensor(self, array: Array) -> bytes:
        """Store a tensor (float32, bfloat16, int64 or bool) in canonical form; returns its TENSOR hash."""
        array = canonical(array)
        name = Name(Kind.TENSOR, tensor_hash(array))
        data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        self._put(name, encode_tensor_header(array), data)
        return name.hash

    def put_tree(self, tree: Tree) -> bytes:
        """Store a tree's leaves; returns its root."""
        self._put(Name(Kind.TREE, tree.root, tree.tag, len(tree.leaves)), tree.leaves.packed)
        return tree.root

    def put_record(self, record: Record) -> bytes:
        """Store a record; returns its RECORD hash."""
        name = Name(Kind.RECORD, record.hash())
        self._put(name, record.encode())
        return name.hash

    def put_records(self, records: Iterable[Record]) -> None:
        """Store many records, with one wait for the disk."""
        for record in records:
            self._put(Name(Kind.RECORD, record.hash()), record.encode(), sync=False)
        if self._sync:
            os.sync()

    def hold(self, *names: Name) -> None:
        """Let the job whose view of the store this is hold artifacts that are here. Raises DiskFailed."""
        if self._for is not None:
            job, stage = self._for
            self.holders.hold(job, [str(path_of(Path(), name)) for name in names], stage)

    @property
    def job(self) -> int | None:
        """The job whose view of the store this is, if any."""
        return self._for[0] if self._for is not None else None

    def works(self) -> None:
        """Let what this view gets from now on be work of its job."""
        self._for = (self._for[0], WORK) if self._for is not None else None

    def holds(self, name: Name) -> bool:
        """Return whether the job whose view of the store this is holds an artifact."""
        path = str(path_of(Path(), name))
        return self._for is not None and self.holders.holds(self._for[0], path, self._for[1])

    def put_logs(self, logs: Iterable[StepLog], node_count: int) -> list[bytes]:
        """Store the logs of some steps of a program with ``node_count`` nodes; returns their roots."""
        names = []
        for log in logs:
            names.append(Name(Kind.LOG, log.root(node_count), count=node_count))
            self._put(names[-1], log.encode(), sync=False)
        if self._sync:
            os.sync()  # NOTE: they are many and small; one fsync each would take longer than the steps
        return [name.hash for name in names]

    # ------------------------------------------------------------------ get

    def get(self, name: Name) -> bytes:
        """Return the checked bytes of an artifact. Errors as :meth:`get_blob`."""
        if (kept := self._kept(name)) is not None:
            return kept
        path = path_of(self.root, name)
        try:
            with disk_errors(path), path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > self.max_bytes:
                    raise Corrupt(f"{name} has {size} bytes on disk; the limit is {self.max_bytes}")
                data = file.read(size)
        except FileNotFoundError:
            raise _missing(name) from None
        check = check_for(name, self.max_bytes)
        try:
            for start in range(0, len(data), _CHUNK):
                check.update(data[start : start + _CHUNK])
            check.finish()
        except Corrupt:
            path.unlink(missing_ok=True)
            raise
        return data

    def get_blob(self, sha256: bytes) -> bytes:
        """Return the blob. Raises Unavailable if it is missing, Corrupt if the disk has damaged it (and removes it)."""
        return self.get(Name(Kind.BLOB, sha256))

    def get_tensor(self, tensor: bytes) -> Array:
        """Return the tensor as a new, aligned array. Errors as :meth:`get_blob`."""
        return decode_tensor(self.get(Name(Kind.TENSOR, tensor)))

    def get_tree(self, tag: Tag, root: bytes, count: int) -> Tree:
        """Return the tree with ``count`` leaves. Errors as :meth:`get_blob`."""
        return Tree(tag, Hashes(self.get(Name(Kind.TREE, root, tag, count))))

    def part(self, name: Name, start: int, size: int) -> bytes:
        """Return so many bytes of an artifact, or those that there are. SAFETY: they are not checked. Raises
        Unavailable, DiskFailed."""
        if (kept := self._kept(name)) is not None:
            return kept[start : start + size]
        path = path_of(self.root, name)
        try:
            with disk_errors(path), path.open("rb") as file:
                file.seek(start)
                return file.read(size)
        except FileNotFoundError:
            raise _missing(name) from None

    def get_record(self, record: bytes) -> Record:
        """Return the record. Errors as :meth:`get_blob`."""
        return Record.decode(self.get(Name(Kind.RECORD, record)))

    def get_log(self, root: bytes, node_count: int) -> StepLog:
        """Return the logs of a step. Errors as :meth:`get_blob`."""
        data = self.get(Name(Kind.LOG, root, count=node_count))
        return StepLog.decode(data, node_count, self.max_bytes)

    def has(self, name: Name) -> bool:
        """Return whether it is here; its bytes were checked when it was written. Whoever asks is about to use it.

        Raises DiskFailed if the view's job should hold it and the disk does not note that.
        """
        if self._kept(name) is not None:
            return True
        with self.lock:
            path = self.find(name)
            if path is not None:
                with contextlib.suppress(OSError):
                    os.utime(path)
        if path is None or self._for is None:
            return path is not None
        try:
            self.hold(name)
        except DiskFailed:
            if self._memory is None:
                raise
            self._memory.put(self._for[0], name, self.get(name))
        return True

    def find(self, name: Name) -> Path | None:
        """Return the read-only file of an artifact; for a tree without a count, that with the most leaves."""
        return find(self.root, name)

    def forget(self, name: Name) -> None:
        """Remove an artifact if it is here."""
        path = self.find(name)
        if path:
            self.remove(path)

    def remove(self, path: Path, unless_used_since: float = float("inf")) -> int:
        """Remove a file of the store, unless it was used since that time. Return the bytes that this gives back."""
        with self.lock, contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if found.st_mtime >= unless_used_since:
                return 0
            path.unlink()
            self.usage.add(path.relative_to(self.root).parts[0], -on_disk(found.st_size), -1)
            return on_disk(found.st_size)
        return 0

    @contextlib.contextmanager
    def incoming(self, name: Name, max_bytes: int | None = None) -> Iterator[Incoming]:
        """Receive an artifact whose bytes the block writes. It is kept if the block succeeds and the bytes are right.

        Raises Corrupt, DiskFailed. Only the right bytes ever appear under the name.
        """
        if name.kind is Kind.TREE and name.count is None:
            raise InvalidInput(f"{name} has no number of leaves; it is part of a tree's name in the store")
        if self._memory is None:
            self._check_room(name, 0)  # how many bytes come is not known yet
            self.hold(name)
        with self._in_memory(name) if self._memory is not None else self._named_at_the_end(name) as file:
            limit = min(max_bytes or self.max_bytes, self.max_bytes)
            incoming = Incoming(name, file, limit, self.why_limited(limit), self.root)
            yield incoming
            incoming.finish()
        self.usage.received += incoming.size

    def why_limited(self, limit: int) -> str:
        """Return what a limit on an artifact's bytes means for the reader of a message."""
        if limit < self.max_bytes:
            return f"what was asked for has at most {limit} bytes, so the server sends something else"
        return f"limits.artifact_bytes allows {limit}; raise it if artifacts may be that large"

    # ------------------------------------------------------------------ files

    def _put(self, name: Name, *parts: bytes | memoryview, sync: bool = True) -> None:
        size = sum(len(part) for part in parts)
        if size > self.max_bytes:
            raise InvalidInput(
                f"{name} has {size} bytes; the limit is {self.max_bytes}, limits.artifact_bytes"
            )
        if self._memory is not None:
            with self._in_memory(name) as kept:
                for part in parts:
                    kept.write(part)
            return
        if self._here(name, size):
            return
        self._check_room(name, size)
        for again in (False, True):
            try:
                self.hold(name)
                with self._named_at_the_end(name, sync) as file, disk_errors(self.root):
                    for part in parts:
                        file.write(part)
            except DiskFull:
                if again or not self.make_room(size):
                    raise
            else:
                return

    def _check_room(self, name: Name, size: int) -> None:
        """Raise RoomKept if what a job would keep takes the room of others."""
        if self._for is None:
            return
        job, stage = self._for
        if (why := self.refuses(job, on_disk(size), stage == DRAWN)) is not None:
            raise RoomKept(f"{name}, {size} bytes, of job {job}: {why}")

    def _here(self, name: Name, size: int) -> bool:
        """Return whether the artifact is here already, and use it. NOTE: a file of another size was torn by a crash; it
        is written again."""
        path = path_of(self.root, name)
        with self.lock:
            if not path.is_file() or path.stat().st_size != size:
                return False
            with contextlib.suppress(OSError):
                os.utime(path)
        self.hold(name)
        return True

    def _kept(self, name: Name) -> bytes | None:
        return self._memory.get(self._for[0], name) if self._memory is not None and self._for else None

    @contextlib.contextmanager
    def _in_memory(self, name: Name) -> Iterator[IO[bytes]]:
        """Yield a file in memory, whose content the view's job keeps when the block ends without error."""
        assert self._memory is not None
        assert self._for is not None
        file = io.BytesIO()
        yield file
        self._memory.put(self._for[0], name, file.getvalue())

    @contextlib.contextmanager
    def _named_at_the_end(self, name: Name, sync: bool = True) -> Iterator[IO[bytes]]:
        """Yield a temporary file that gets its name when the block ends without error, and is removed otherwise."""
        with disk_errors(self.root):
            file = tempfile.NamedTemporaryFile(dir=self._incoming, prefix=PREFIX, delete=False)  # noqa: SIM115
        try:
            yield file
            with disk_errors(self.root):
                file.flush()
                if self._sync and sync:
                    os.fsync(file.fileno())
                size = os.fstat(file.fileno()).st_size
                file.close()
                path = path_of(self.root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with self.lock:
                    before = on_disk(path.stat().st_size) if path.is_file() else None
                    Path(file.name).replace(path)
                    self.usage.add(name.kind, on_disk(size) - (before or 0), int(before is None))
                if self._sync and sync:
                    _sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(
                OSError
            ):  # NOTE: to close is to write what is left, which a full disk refuses
                file.close()
            Path(file.name).unlink(missing_ok=True)
            raise


def _missing(name: Name) -> Unavailable:
    return Unavailable(f"{name} is not in the store; fetch it from a server that has it")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
