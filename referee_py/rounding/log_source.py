"""Sources of a run's rounding logs, and the root that the run commits to with them.

the trainer   writes a step's log the first time it executes the step, and follows that log ever after
all others    follow the trainer's: the log is an input of the computation, as the initial state is
logs          Tree(LOG_RUN_TREE, [root of the step log of step 1 .. steps]).root, committed to with the run root
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..commit import Tag, Tree
from .step_log import StepLog


class LogSource(Protocol):
    """The logs of one run, by step (from 1 on)."""

    def get(self, step: int) -> StepLog | None:
        """Return the log to follow in this step, or None if this party writes it now.
        Raises Unavailable if another party has written it and nobody serves it.
        """
        ...

    def put(self, step: int, log: StepLog) -> None:
        """Keep a log that this party has written. If it must be on disk, it is there when this returns."""
        ...


class MemoryLogs:
    """Logs of a run that do not outlive the process."""

    def __init__(self) -> None:
        self._logs: dict[int, StepLog] = {}

    def get(self, step: int) -> StepLog | None:
        return self._logs.get(step)

    def put(self, step: int, log: StepLog) -> None:
        self._logs[step] = log

    def roots(self, node_count: int) -> list[bytes]:
        """Return the step log roots so far, in order of steps."""
        return [self._logs[step].root(node_count) for step in sorted(self._logs)]


class DryRunLogs:
    """Logs for steps that are tried and forgotten: every log is written again."""

    def get(self, step: int) -> StepLog | None:  # noqa: ARG002
        return None

    def put(self, step: int, log: StepLog) -> None: ...


def run_log_tree(roots: Sequence[bytes]) -> Tree:
    """Return the tree over the step log roots of a whole run; its root is the run's `logs`."""
    return Tree(Tag.LOG_RUN_TREE, roots)
