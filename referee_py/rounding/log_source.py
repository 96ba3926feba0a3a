"""Where the rounding logs of a run come from and go to, and what the run commits to with them.

the trainer   writes a step's log the first time it executes it, and follows what it wrote ever after
all others    follow the trainer's: the log is an input of the computation, as the initial state is
logs          Tree(LOG_RUN_TREE, [root of the step log of step 1 .. steps]).root, committed to beside the run root
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..commit import Tag, Tree
from .step_log import StepLog


class LogSource(Protocol):
    """The logs of one run, by step (from 1 on)."""

    def get(self, step: int) -> StepLog | None:
        """The log to follow in that step; None if this party writes it now.

        Raises Unavailable if somebody else has written it and it cannot be had.
        """
        ...

    def put(self, step: int, log: StepLog) -> None:
        """Keep what this party has written. It is on disk, if it is to be, when this returns."""
        ...


class MemoryLogs:
    """Logs of a run that are not to outlive the process."""

    def __init__(self) -> None:
        self._logs: dict[int, StepLog] = {}

    def get(self, step: int) -> StepLog | None:
        return self._logs.get(step)

    def put(self, step: int, log: StepLog) -> None:
        self._logs[step] = log

    def roots(self, node_count: int) -> list[bytes]:
        """The step log roots so far, in order of steps."""
        return [self._logs[step].root(node_count) for step in sorted(self._logs)]


class DryRunLogs:
    """For steps that are tried and forgotten: every one is written anew."""

    def get(self, step: int) -> StepLog | None:  # noqa: ARG002
        return None

    def put(self, step: int, log: StepLog) -> None: ...


def run_log_tree(roots: Sequence[bytes]) -> Tree:
    """The tree over the step log roots of a whole run; its root is the run's `logs`."""
    return Tree(Tag.LOG_RUN_TREE, roots)
