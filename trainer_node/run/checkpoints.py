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
    """The state after a step as the hashes of its slots, and the root ``C_step``; None between two checkpoints.

    Without slots the root is known and the state is no longer kept, or never was: the disk was full.
    """

    step: int
    root: bytes | None
    slots: tuple[bytes, ...]


class Checkpoints(Protocol):
    """The storage of a run's checkpoints."""

    def all(self) -> Sequence[Checkpoint]:
        """Return all checkpoints in the order of their steps."""
        ...

    def add(self, checkpoint: Checkpoint) -> None: ...


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
        rows = self._database.checkpoints(self._key)
        return [Checkpoint(step, root, tuple(slots)) for step, (root, slots) in rows.items()]

    def add(self, checkpoint: Checkpoint) -> None:
        self._database.put_checkpoint(self._key, checkpoint.step, checkpoint.root, list(checkpoint.slots))
