"""Artifacts that the disk has refused, in memory: what a bond rests on is not lost because a disk is full.

A store's view with a `Memory` (`Store.held_by`) keeps there what it receives, and reads from there first. Once there is
room on the disk again, the artifacts move there (`Store.unload`). A restart loses what is still in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import DiskFull
from .artifacts import Name


class Memory:
    """At most ``limit`` bytes, for all jobs together. Safe for several threads."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._kept: dict[int, dict[Name, bytes]] = {}
        self._lock = threading.Lock()

    def put(self, job: int, name: Name, data: bytes) -> None:
        """Keep an artifact's checked bytes for a job. Raises DiskFull if that exceeds the limit."""
        with self._lock:
            kept = self._kept.setdefault(job, {})
            if name in kept:
                return
            if self._size + len(data) > self._limit():
                raise DiskFull(
                    f"{name} fits neither on the disk nor in memory with {self._size} bytes; limits.memory_bytes "
                    f"allows {self._limit()}: make room on the disk"
                )
            kept[name] = data

    def check_room(self, size: int) -> None:
        """Raise DiskFull if so many bytes more exceed the limit."""
        if self.size + size > self._limit():
            raise DiskFull(
                f"{size} bytes fit neither on the disk nor in memory with {self.size} bytes; limits.memory_bytes "
                f"allows {self._limit()}: make room on the disk"
            )

    def get(self, job: int, name: Name) -> bytes | None:
        """Return the bytes of an artifact that is kept for a job, or None."""
        return self._kept.get(job, {}).get(name)

    def names(self, job: int) -> tuple[Name, ...]:
        """Return what is kept for a job."""
        with self._lock:
            return tuple(self._kept.get(job, ()))

    def drop(self, job: int, *names: Name) -> None:
        """Let go of some artifacts of a job."""
        with self._lock:
            for name in names:
                self._kept.get(job, {}).pop(name, None)
            if not self._kept.get(job):
                self._kept.pop(job, None)

    def release(self, job: int) -> None:
        """Let go of all artifacts of a job."""
        with self._lock:
            self._kept.pop(job, None)

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        with self._lock:
            return self._size

    @property
    def _size(self) -> int:
        return sum(len(data) for kept in self._kept.values() for data in kept.values())
