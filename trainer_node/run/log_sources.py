"""The rounding logs of a run, where they come from (referee_py/rounding/log_source.py), and those that we write.

OwnLogs        the trainer's own logs: each step's log is in the store, its root in the database
FetchedLogs    another trainer's logs (`fetched_logs`)
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from referee_py.commit import Tree
from referee_py.errors import HashMismatch, Unavailable
from referee_py.rounding.log_source import LogSource, run_log_tree
from referee_py.rounding.step_log import StepLog

from ..storage.artifacts import Kind, Name
from ..storage.database import Database
from ..storage.store import Store

MAX_WAITING = 256
MAX_WAITING_BYTES = 64 << 20
"""Limits on logs that are written but not yet stored: their number, and their bytes."""


class RunLogs(LogSource, Protocol):
    """Logs of a whole run: their commitment, and their place in the store."""

    @property
    def tree(self) -> Tree:
        """The tree over the roots of all step logs. Raises Unavailable while some are unknown."""
        ...

    def missing(self) -> Sequence[int]:
        """Return the steps whose logs this party has written and its store has lost."""
        ...

    def publish(self, store: Store) -> bytes:
        """Offer the tree over the roots of all step logs, and return its root."""
        ...

    def keep(self) -> None:
        """Put all written logs on disk before returning."""
        ...


class OwnLogs:
    """The logs that this node writes. ``key`` names the run in the database.

    Logs are small and steps may be short, so logs are stored in batches, at the latest when a limit is reached.
    INVARIANT: a stored log never changes: a step that is executed again follows it. Replay stores all logs before it
    records a checkpoint, so a log lost in a crash belongs to a step that nothing builds on.
    """

    def __init__(self, database: Database, key: int, store: Store, node_count: int, steps: int) -> None:
        self._database = database
        self._key = key
        self._store = store
        self._node_count = node_count
        self._steps = steps
        self._waiting: dict[int, StepLog] = {}

    def get(self, step: int) -> StepLog | None:
        """Return None also for a log that the disk has lost. It is written again; `put` checks that it is the same."""
        if step in self._waiting:
            return self._waiting[step]
        root = self._database.get_log(self._key, step)
        if root is None:
            return None
        with contextlib.suppress(Unavailable):
            return self._store.get_log(root, self._node_count)
        return None

    def put(self, step: int, log: StepLog) -> None:
        """Add a log. Raises HashMismatch if the disk has lost an earlier log of this step that was different."""
        root, before = log.root(self._node_count), self._database.get_log(self._key, step)
        if before not in (None, root):
            raise HashMismatch(
                f"the rounding log of step {step} is lost, and writing it again gives {root.hex()}, "
                f"not {before.hex()}; restore the artifacts, or give the job up"
            )
        self._waiting[step] = log
        if (
            len(self._waiting) >= MAX_WAITING
            or sum(log.size for log in self._waiting.values()) > MAX_WAITING_BYTES
        ):
            self.keep()

    def keep(self) -> None:
        """Put all written logs on disk before returning. Raises Unavailable if another job of the same program has
        written another log of a step meanwhile: the next attempt follows that."""
        roots = self._store.put_logs(self._waiting.values(), self._node_count)
        try:
            self._database.put_logs(self._key, dict(zip(self._waiting, roots, strict=True)))
        except HashMismatch as error:
            raise Unavailable(str(error)) from error
        self._waiting = {}

    @cached_property
    def tree(self) -> Tree:
        roots = self._database.logs(self._key)
        if list(roots) != list(range(1, self._steps + 1)):
            raise Unavailable(f"the logs of {len(roots)} of {self._steps} steps are written")
        return run_log_tree(list(roots.values()))

    def missing(self) -> list[int]:
        names = {
            step: Name(Kind.LOG, root, count=self._node_count)
            for step, root in self._database.logs(self._key).items()
        }
        return [step for step, name in names.items() if not self._store.has(name)]

    def publish(self, store: Store) -> bytes:
        return store.put_tree(self.tree)
