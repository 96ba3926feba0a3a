"""The two sources of rounding logs of a node (referee_py/rounding/log_source.py).

OwnLogs        the trainer's own logs: each step's log is in the store, its root in the database
FetchedLogs    another trainer's logs: fetched from any server, some steps ahead, checked against the committed root; or
               what was shown of them on the chain, put together as the run comes to it
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import cached_property, partial
from typing import Protocol

from referee_py.commit import Tag, Tree
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.program import Program
from referee_py.rounding.log_source import LogSource, run_log_tree
from referee_py.rounding.step_log import StepLog, content_limit

from ..errors import DiskFailed, LogsLate
from ..limits.waits import TURN_S
from ..network.budget import Budget
from ..network.fetcher import Fetcher
from ..network.sources import Served
from ..storage.artifacts import Kind, Name
from ..storage.database import Database
from ..storage.store import Store
from .onchain_logs import OnchainStepLog, Shown

WINDOW = 16
"""Number of steps whose logs are fetched together, while the steps before them are executed."""
MIN_LOG_BYTES = 1 << 20
"""Least allowance, in bytes, for the logs of a step."""
MAX_WAITING = 256
MAX_WAITING_BYTES = 64 << 20
"""Limits on logs that are written but not yet stored: their number, and their bytes."""
STARVED_AFTER = 2
"""Failures to get a run's logs before they are requested on the chain."""
_GLANCE_S = 0.05
"""Seconds between two looks at a download that a step waits for."""

Submit = Callable[[Callable[[threading.Event], None]], "Future[None]"]
"""Does a work in a lane, which signals it when to stop (`lanes`)."""


class RunLogs(LogSource, Protocol):
    """Logs of a whole run: their commitment, and their place in the store."""

    @property
    def tree(self) -> Tree:
        """The tree over the roots of all step logs. Raises Unavailable while some are unknown."""
        ...

    def missing(self) -> Sequence[int]:
        """Return the steps whose logs this party has written and its store has lost."""
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
        roots = self._store.put_logs(self._waiting.values(), self._node_count)
        self._database.put_logs(self._key, dict(zip(self._waiting, roots, strict=True)))
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


class FetchedLogs:
    """The logs that another party has committed to with ``logs``, fetched from the current ``uris()``.

    SAFETY: they are untrusted. One step's logs may unpack to ``step_bytes``, all together take ``run_bytes`` on disk;
    every byte is checked against ``logs``. Logs that nobody serves are Unavailable, never empty.

    SAFETY: logs that come right and slowly are as good as withheld. ``budget`` bounds the seconds in which the run
    waits for them, over all steps and attempts; then it is `starved` and never waits again. While ``others`` says that
    another run needs the processors, this one waits no longer than `TURN_S` for each turn that it has.

    Logs that were shown on the chain are taken from there (`deliver`). SAFETY: there may be many, so each step's are
    put together once, by whoever computes the step, and nothing of it is done in the loop.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        uris: Callable[[], Sequence[str]],
        logs: bytes,
        steps: int,
        node_count: int,
        submit: Submit,
        *,
        step_bytes: int,
        run_bytes: int,
        budget: Budget | None = None,
        others: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._uris = uris
        self._logs = logs
        self._steps = steps
        self._node_count = node_count
        self._step_bytes = step_bytes
        self._run_bytes = run_bytes
        self._used: dict[Name, int] = {}  # bytes on disk
        self._submit = submit
        self._clock = clock
        self._budget = budget or Budget(math.inf, "rounding logs", clock=clock)
        self._others = others
        self._windows: dict[int, Future[None]] = {}
        self._shown: Shown | None = None
        self._together: dict[int, OnchainStepLog] = {}
        """By step, what was put together of the logs shown."""
        self._unserved: list[StepLog] = []
        """Those of them that are not on disk yet."""
        self.wanted = False
        """True if the run ended last because its logs had not come (LogsLate); its runner says so."""
        self.failures = 0
        """Number of times that no server had a requested log."""
        self.reached = 0
        """The last step whose log has come."""
        self.begin_turn()

    @property
    def starved(self) -> bool:
        """True if the logs must be requested on the chain: nobody serves them, or they come too slowly. Once they
        have been shown there, nothing is wanted any more."""
        return not self.shown and (self.failures >= STARVED_AFTER or self._budget.over)

    @property
    def shown(self) -> bool:
        """True if all logs have been posted on the chain."""
        return self._shown is not None

    def begin_turn(self) -> None:
        """Note that the run has the processors from now on."""
        self._turn = Budget(TURN_S, "this turn of the run", clock=self._clock)

    def deliver(self, shown: Shown) -> None:
        """Use what was shown on the chain, where nothing is missing, for all steps; nothing is fetched any more.

        NOTE: the loop calls this, so nothing is put together yet.
        """
        self._shown = shown

    @cached_property
    def tree(self) -> Tree:
        if self._shown is not None:
            return self._shown.tree()
        return Served(self._fetcher, self._uris()).tree(Tag.LOG_RUN_TREE, self._logs, self._steps)

    def get(self, step: int) -> StepLog:
        """Return a log. Raises LogsLate if it is not here in time, InvalidInput if the run's logs are too large."""
        window = (step - 1) // WINDOW
        for old in [known for known in self._windows if not window <= known <= window + 1]:
            del self._windows[old]
        if self._shown is None:
            if self._here(step):
                self._window(window)  # the rest of it
            else:
                self._await(window, step)
        if self._shown is not None:
            return self._put_together(self._shown, step)
        if (window + 1) * WINDOW < self._steps:
            self._window(window + 1)
        self.reached = max(self.reached, step)
        return self._fetcher.store.get_log(self.tree.leaves[step - 1], self._node_count)

    def put(self, step: int, log: StepLog) -> None:  # noqa: ARG002
        raise InvalidInput(f"step {step} follows the log of another party; there is none to write")

    def missing(self) -> list[int]:
        return []

    def keep(self) -> None:
        """Put those on disk that were shown on the chain, so that we can serve them. Fetched logs are there already.

        NOTE: a run does not need them there, so a disk that refuses is asked again the next time.
        """
        if not self._unserved:
            return
        with contextlib.suppress(DiskFailed):
            self._fetcher.store.put_logs(self._unserved, self._node_count)
            self._unserved = []

    # ------------------------------------------------------------------ inside

    def _put_together(self, shown: Shown, step: int) -> OnchainStepLog:
        if step not in self._together:
            log = self._together[step] = shown.step(step)
            file = shown.file(log)
            self._unserved += [] if file is None else [file]
        self.reached = max(self.reached, step)
        return self._together[step]

    def _await(self, window: int, step: int) -> None:
        """Wait until a step's log has come, with its window, or all have been shown on the chain. Raises what the
        download raises, and LogsLate if nobody has it, or while it lasts, if the run has to continue without."""
        while not self.shown and not self._here(step):
            fetch = self._window(window)
            with self._budget.waiting(), self._turn.waiting():
                while not fetch.done() and not self.shown:
                    if self._budget.over or (self._turn.over and self._others()):
                        break
                    wait([fetch], timeout=_GLANCE_S)
            if self.shown:
                return
            if not fetch.done():
                # NOTE: until it is here the run waits for it, though it does not hold the processors.
                self._budget.begin()
                fetch.add_done_callback(lambda _: self._budget.end())
                why = self._budget.reason if self._budget.over else "it is looked for again"
                raise LogsLate(f"the rounding log of step {step} is on its way; {why}")
            del self._windows[window]  # whoever needs it again asks again
            try:
                fetch.result()
            except Unavailable as error:
                if self._here(step):
                    return
                self.failures += 1
                raise LogsLate(str(error)) from error

    def _here(self, step: int) -> bool:
        """Return whether a log is in the store. NOTE: without the tree its name is not known."""
        return "tree" in self.__dict__ and self._fetcher.store.has(self._name(step))

    def _window(self, window: int) -> Future[None]:
        if window not in self._windows:
            self._windows[window] = self._submit(partial(self._fetch, window))
        return self._windows[window]

    def _fetch(self, window: int, told: threading.Event) -> None:
        fetcher = self._fetcher.stopped_by(told)
        steps = range(window * WINDOW + 1, min((window + 1) * WINDOW, self._steps) + 1)
        left = self._run_bytes - sum(self._used.values())
        if left <= 0:
            raise InvalidInput(
                f"the rounding logs of fewer than {steps[0]} steps take {self._run_bytes} bytes or more, "
                "limits.log_bytes; raise it, or leave the job to others"
            )
        if "tree" not in self.__dict__:
            fetcher.fetch(Name(Kind.TREE, self._logs, Tag.LOG_RUN_TREE, self._steps), self._uris())
        names = [self._name(step) for step in steps]
        try:
            fetcher.fetch_all(names, self._uris(), max_bytes=min(self._step_bytes, left))
        finally:
            for name in names:
                path = self._fetcher.store.find(name)
                if path is not None:
                    self._used[name] = path.stat().st_size

    def _name(self, step: int) -> Name:
        return Name(Kind.LOG, self.tree.leaves[step - 1], count=self._node_count)


def step_limit(program: Program, memory: int) -> int:
    """Return the limit, in bytes, on the unpacked logs of one step of this program, given the memory left for them.

    NOTE: while it is read, a log takes many times its bytes (`Reader`).
    """
    nodes = (
        sum(kind.count for kind in structure.outputs if kind.dtype.is_float) for structure in program.nodes
    )
    return min(content_limit(nodes), max(memory // 64, MIN_LOG_BYTES))
