"""Checkpoints: states that a run keeps after some of its steps, so that it can resume after a stop.

A *checkpoint* of the first stride also has the root ``C_step``, which the claim and every dispute need. A state without
a root is kept for one purpose: to continue from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..storage.database import Database


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A step with its root ``C_step``, None between two checkpoints, and the number of slots of the state after it.

    Without slots the root is known and the state is no longer kept, or never was: the disk was full.
    """

    step: int
    root: bytes | None
    slots: int


class Checkpoints(Protocol):
    """The storage of a run's checkpoints.

    SAFETY: a stranger's program may have 65,534 slots, and its run as many checkpoints, so the slots of one only are
    in memory at once.
    """

    def all(self) -> Sequence[Checkpoint]:
        """Return all checkpoints in the order of their steps."""
        ...

    def slots(self, step: int, /) -> tuple[bytes, ...]:
        """Return the hashes of the slots of the state after a step; none if it is not kept."""
        ...

    def add(self, step: int, root: bytes | None, slots: tuple[bytes, ...], /) -> None: ...


class StoredCheckpoints:
    """A run's checkpoints in a database. ``key`` identifies the run: its program, and the logs that it follows."""

    def __init__(self, database: Database, key: int) -> None:
        self._database = database
        self._key = key

    @property
    def last(self) -> int:
        """The last step after which the state is kept; 0 if there is none."""
        return self._database.last_state(self._key)

    @property
    def kept(self) -> int:
        """The number of checkpoints whose states are kept."""
        return self._database.kept_states(self._key)

    def all(self) -> Sequence[Checkpoint]:
        return [Checkpoint(step, *row) for step, row in self._database.checkpoints(self._key).items()]

    def slots(self, step: int) -> tuple[bytes, ...]:
        return tuple(self._database.state(self._key, step))

    def add(self, step: int, root: bytes | None, slots: tuple[bytes, ...]) -> None:
        self._database.put_checkpoint(self._key, step, root, list(slots))
