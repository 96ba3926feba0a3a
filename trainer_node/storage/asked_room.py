"""Jobs for which there was no room on the disk, since it was last tried to make some."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Asks(Enum):
    """Purposes for which a job asks for room."""

    WHOLE = "all that it needs"
    PART = "a part of that"
    WRITTEN = "what it is about to write"
    DRAWN = "what is fetched to check what others claim in it"


@dataclass(slots=True)
class AskedRoom:
    """Collects what jobs ask for, in bytes. For one thread at a time."""

    _asked: dict[int, tuple[int, Asks]] = field(default_factory=dict)

    def add(self, job: int, size: int, what: Asks) -> None:
        """Note what a job has asked for last. SAFETY: strangers say what is drawn, and it hides nothing else."""
        if what is not Asks.DRAWN or self._asked.get(job, (0, what))[1] is Asks.DRAWN:
            self._asked[job] = size, what

    def forget(self, job: int) -> None:
        """Note that a job needs nothing any more."""
        self._asked.pop(job, None)

    def take(self) -> dict[int, tuple[int, Asks]]:
        """Return what was asked for, by job, and begin again."""
        asked, self._asked = self._asked, {}
        return asked
