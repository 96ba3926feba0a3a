"""The disk of a node: its errors, its free space, and a ballast that is dropped when it is full.

    with disk_errors(path): ...        OSError becomes DiskFull or DiskFailed, in words
    Ballast(folder)                a file whose space the database gets when nothing else is left

SAFETY: a move in a dispute is stored before it is sent, so a full disk would lose a stake. The ballast keeps some space
for that: it is made while there is room, and removed when there is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import structlog

from ..errors import DiskFailed, DiskFull

BALLAST_BYTES = 4 << 20
"""Space for the database while the disk is full: some hundred moves, each stored as data and signed."""
BLOCK_BYTES = 4096
"""Size of a small file on most file systems."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_log = structlog.get_logger(__name__)


@contextlib.contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Turn an OSError of the block into DiskFull or DiskFailed. FileNotFoundError passes."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise failure(error, path) from error


def failure(error: OSError, path: Path | str) -> DiskFailed:
    """Return the error of the disk in our words."""
    if error.errno in _FULL:
        return DiskFull(f"no space left on the disk of {path}: make room, or move the data directory")
    return DiskFailed(f"the disk of {path} fails: {error.strerror or error}; check it, or use another")


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user can still write to the folder's disk. Raises DiskFailed."""
    with disk_errors(folder):
        found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def on_disk(size: int) -> int:
    """Return the space that a file of that size takes: whole blocks."""
    return -(-max(size, 1) // BLOCK_BYTES) * BLOCK_BYTES


class Ballast:
    """A file in ``folder`` that takes ``size`` bytes of its disk until they are needed."""

    def __init__(self, folder: Path, size: int = BALLAST_BYTES) -> None:
        self.path = folder / "ballast"
        self.size = size

    @property
    def held(self) -> bool:
        """True if the file exists, whole."""
        try:
            return self.path.stat().st_size >= self.size
        except OSError:
            return False

    @property
    def missing(self) -> int:
        """Bytes of the disk that the ballast still has to take."""
        return 0 if self.held else self.size

    def hold(self) -> bool:
        """Take the space, if twice as much is free. Returns whether it is taken."""
        if self.held:
            return True
        try:
            if free_bytes(self.path.parent) < 2 * self.size:
                return False
            with self.path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self.size)
        except (OSError, DiskFailed):
            self.release()
            return False
        return True

    def release(self) -> bool:
        """Give the space back. Returns whether there was any."""
        try:
            size = self.path.stat().st_size
            self.path.unlink()
        except OSError:
            return False
        if size:
            _log.warning("disk.ballast_dropped", bytes=size)
        return size > 0
