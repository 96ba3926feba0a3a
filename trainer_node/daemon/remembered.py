"""Memory of jobs that the parts of a daemon keep until these are over: draws, what was begun, what was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Remembered:
    """SAFETY: anybody may post jobs and claim roots in them without end, so nothing about them is kept for good.

    INVARIANT: what is lost with a job can be had again, because a reorganisation may bring the job back.
    """

    def __init__(self) -> None:
        self._kept: list[defaultdict[int, Any]] = []

    def of_jobs(self, make: Callable[[], T]) -> defaultdict[int, T]:
        """Return what is remembered of one kind, by job: ``make`` gives what is known at first."""
        kept = defaultdict[int, T](make)
        self._kept.append(kept)
        return kept

    def over(self, job_id: int) -> None:
        """Forget a job."""
        for kept in self._kept:
            kept.pop(job_id, None)
