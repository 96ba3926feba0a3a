"""Jobs for which there was no room on the disk, since it was last tried to make some."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Asked:
    """Bytes that were asked for, by job.

    all      of all jobs
    ours     of those in which we have a stake
    whole    of others that asked for all that they need
    written  of those that were about to write, where there is no stake of ours at all
    """

    all: dict[int, int]
    ours: dict[int, int]
    whole: dict[int, int]
    written: dict[int, int]


@dataclass(slots=True)
class AskedRoom:
    """Collects what jobs ask for. For one thread at a time."""

    _bytes: dict[int, int] = field(default_factory=dict)
    _whole: set[int] = field(default_factory=set)
    _written: set[int] = field(default_factory=set)

    def add(self, job: int, size: int, *, whole: bool, written: bool) -> None:
        """Note what a job has asked for last."""
        self._bytes[job] = size
        (self._whole.add if whole else self._whole.discard)(job)
        (self._written.add if written else self._written.discard)(job)

    def forget(self, job: int) -> None:
        """Note that a job needs nothing any more."""
        self._bytes.pop(job, None)
        self._whole.discard(job)
        self._written.discard(job)

    def take(self, staked: Collection[int]) -> Asked:
        """Return what was asked for, and begin again. ``staked``: the jobs in which we have a stake."""
        asked = self._bytes
        ours = {job: size for job, size in asked.items() if job in staked}
        whole = {job: asked[job] for job in self._whole if job in asked and job not in ours}
        written = {} if staked else {job: asked[job] for job in self._written & asked.keys()}
        self._bytes = {}
        self._whole.clear()
        self._written.clear()
        return Asked(asked, ours, whole, written)
