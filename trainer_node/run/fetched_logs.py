"""Rounding logs of another trainer's run: fetched from any server, some steps ahead, and checked against the committed
root; or what was shown of them on the chain, put together as the run comes to it."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cached_property, partial

from referee_py.commit import Tag, Tree
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.program import Program
from referee_py.rounding.step_log import StepLog, content_limit

from ..errors import DiskFailed, LogsLate
from ..limits.waits import TURN_S
from ..network.budget import Budget
from ..network.fetcher import Fetcher
from ..network.sources import Served
from ..storage.artifacts import Kind, Name
from ..storage.store import Store
from .onchain_logs import OnchainStepLog, Shown

WINDOW = 16
"""Number of steps whose logs are fetched together, while the steps before them are executed."""
MIN_LOG_BYTES = 1 << 20
"""Least allowance, in bytes, for the logs of a step."""
STARVED_AFTER = 2
"""Failures to get a step's log before all are requested on the chain."""
MOST_FAILURES = 32
"""Failures of a run, over all its steps, before all logs are requested: each costs an attempt."""
_GLANCE_S = 0.05
"""Seconds between two looks at a download that a step waits for."""

Submit = Callable[[Callable[[threading.Event], None]], "Future[None]"]
"""Does a work in a lane, which signals it when to stop (`lanes`)."""


@dataclass
class _Absent:
    """A step's log that no server had: at which instants it was asked for first and last, how often, and whether a move
    of ours needs it."""

    since: float
    last: float
    failures: int = 0
    needed: bool = False


class FetchedLogs:
    """The logs that another party has committed to with ``logs``, fetched from the current ``uris()``.

    SAFETY: they are untrusted. One step's logs may unpack to ``step_bytes``, all together take ``run_bytes`` on disk;
    every byte is checked against ``logs``. Logs that nobody serves are Unavailable, never empty.

    SAFETY: logs that come right and slowly are as good as withheld. ``budget`` bounds the seconds in which the run
    waits for them, over all steps and attempts; then it is `starved` and never waits again. While ``others`` says that
    another run needs the processors, this one waits no longer than `TURN_S` for each turn that it has.

    SAFETY: what no server has may be withheld, or its server is away for a moment, for which nobody should pay. So it
    has to be absent for ``patience_s``, which count as waiting, unless a move of ours needs it.

    Logs that were shown on the chain are taken from there (`deliver`). SAFETY: there may be many, so each step's are
    put together once, by whoever computes the step, and nothing of it is done in the loop.

    SAFETY: a run comes back from the disk without its logs, which another job may have followed, or the chain has.
    So whoever takes it from there lets it `hold` them.
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
        patience_s: float = 0.0,
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
        self._patience_s = patience_s
        self._others = others
        self._windows: dict[int, Future[None]] = {}
        self._shown: Shown | None = None
        self._together: dict[int, OnchainStepLog] = {}
        """By step, what was put together of the logs shown."""
        self._unserved: list[StepLog] = []
        """Those of them that are not on disk yet."""
        self._lacking: set[int] = set()
        """Steps of the run that were computed before, and whose logs are not here any more."""
        self.waits = True
        """True while the run is computed. SAFETY: what else computes a step of it, as a move does, holds up the moves
        of all jobs, so it waits for no server: what is not here may be at the next attempt."""
        self.wanted = False
        """True if the run ended last because its logs had not come (LogsLate); its runner says so."""
        self._absent: dict[int, _Absent] = {}
        """By step, the logs that no server had when they were last asked for."""
        self._absent_s, self._failures = 0.0, 0
        """Seconds in which logs that the run needs were absent, and how often one was."""
        self.reached = 0
        """The last step whose log has come."""
        self.begin_turn()

    @property
    def starved(self) -> bool:
        """True if the logs must be requested on the chain: nobody serves them, or they come too slowly. Once they
        have been shown there, nothing is wanted any more."""
        if self.shown:
            return False
        flaps = self._failures >= MOST_FAILURES
        return self._over or flaps or any(map(self._withheld, list(self._absent.values())))

    @property
    def lacks(self) -> bool:
        """True if logs of steps that were computed before are gone, and have not been shown on the chain."""
        return bool(self._lacking) and not self.shown

    @property
    def shown(self) -> bool:
        """True if all logs have been posted on the chain."""
        return self._shown is not None

    def allow(self, seconds: float, patience_s: float) -> None:
        """Note the seconds that the run may wait, and those for which a log may be absent, as its job is now. SAFETY:
        one look of one endpoint could say that there are none, and who is starved pays for requests on the chain."""
        self._budget.seconds, self._patience_s = seconds, patience_s

    def begin_turn(self) -> None:
        """Note that the run has the processors from now on."""
        self.waits = True
        self._turn = Budget(TURN_S, "this turn of the run", clock=self._clock)

    def end_turn(self) -> None:
        """Note that the run has left the processors."""
        self.waits = False
        self._turn = Budget(TURN_S, "a step of the run", clock=self._clock)

    def deliver(self, shown: Shown) -> None:
        """Use what was shown on the chain, where nothing is missing, for all steps; nothing is fetched any more. NOTE:
        the loop calls this, so nothing is put together yet."""
        self._shown = shown

    def hold(self, steps: int, *, fetch: bool) -> None:
        """Hold for this job the logs of the first ``steps`` steps, which were computed before. Those that are gone are
        fetched; raises LogsLate where they do not come. Without ``fetch`` they are noted (`lacks`)."""
        if fetch:
            for step in range(1, steps + 1):
                if self.shown:
                    return
                window = self._moved_to(step)
                if not self._here(step):
                    self._await(window, step)
                self._came(step)
            return
        store = self._fetcher.store
        if "tree" not in self.__dict__:
            with contextlib.suppress(Unavailable, HashMismatch, DiskFailed):
                self.__dict__["tree"] = store.get_tree(Tag.LOG_RUN_TREE, self._logs, self._steps)
        self._lacking = set(range(1, steps + 1))
        if "tree" in self.__dict__:
            here = {step: name for step in self._lacking if store.find(name := self._name(step)) is not None}
            self._lacking -= here.keys()
            with contextlib.suppress(DiskFailed):  # what is here can be played with, whatever the disk notes
                store.hold(Name(Kind.TREE, self._logs, Tag.LOG_RUN_TREE, self._steps), *here.values())

    @cached_property
    def tree(self) -> Tree:
        if self._shown is not None:
            return self._shown.tree()
        return Served(self._fetcher, self._uris()).tree(Tag.LOG_RUN_TREE, self._logs, self._steps)

    def get(self, step: int) -> StepLog:
        """Return a log. Raises LogsLate if it is not here in time, InvalidInput if the run's logs are too large."""
        window = self._moved_to(step)
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
        self._lacking.discard(step)
        self._came(step)
        return self._fetcher.store.get_log(self.tree.leaves[step - 1], self._node_count)

    def put(self, step: int, log: StepLog) -> None:  # noqa: ARG002
        raise InvalidInput(f"step {step} follows the log of another party; there is none to write")

    def missing(self) -> list[int]:
        return []

    def publish(self, store: Store) -> bytes:
        if "tree" in self.__dict__ or self.shown:
            plain = Tree(Tag.LOG_RUN_TREE, self.tree.leaves)
            if plain.root == self._logs:  # NOTE: what was shown on the chain may have a form that no file has
                store.put_tree(plain)
        return self._logs

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

    def _moved_to(self, step: int) -> int:
        """Return the window of a step, and let go of those before it."""
        window = (step - 1) // WINDOW
        for old in [known for known in self._windows if not window <= known <= window + 1]:
            del self._windows[old]
        return window

    def _put_together(self, shown: Shown, step: int) -> OnchainStepLog:
        if step not in self._together:
            log = self._together[step] = shown.step(step)
            file = shown.file(log)
            self._unserved += [] if file is None else [file]
        self.reached = max(self.reached, step)
        return self._together[step]

    @property
    def _over(self) -> bool:
        """True if the run has waited for as long as it may."""
        return self._budget.spent + self._absent_s >= self._budget.seconds

    def _withheld(self, log: _Absent) -> bool:
        if log.failures < STARVED_AFTER:
            return False
        return log.needed or log.last - log.since >= self._patience_s

    def _failed(self, step: int) -> None:
        """Note that no server had a step's log, or none in the time that a move has."""
        now = self._clock()
        log = self._absent.setdefault(step, _Absent(now, now))
        if self.waits:
            self._failures += 1
            self._count_absent(log, now)
        log.failures, log.last, log.needed = log.failures + 1, now, log.needed or not self.waits

    def _came(self, step: int) -> None:
        """Note that a step's log is here."""
        log = self._absent.pop(step, None)
        if log is not None and not log.needed:
            self._count_absent(log, self._clock())

    def _count_absent(self, log: _Absent, now: float) -> None:
        """Count the time since a log was asked for last.

        SAFETY: whoever fails once for each step, and has it the next time, is slow, too. But in what is longer than a
        log may be absent the run had no turn, and asked nobody.
        """
        self._absent_s += min(now - log.last, self._patience_s)

    def _await(self, window: int, step: int) -> None:
        """Wait until a step's log has come, with its window, or all have been shown on the chain. Raises what the
        download raises, and LogsLate if nobody has it, or while it lasts, if the run has to continue without."""
        while not self.shown and not self._here(step):
            fetch = self._window(window)
            with self._budget.waiting(), self._turn.waiting():
                while not fetch.done() and not self.shown:
                    if self._over or (self._turn.over and self._others()):
                        break
                    wait([fetch], timeout=_GLANCE_S)
                    if not self.waits:
                        break
            if self.shown:
                return
            if not self.waits and not self._here(step):
                self._lacking.add(step)
            if not fetch.done():
                if not self.waits and self._turn.over:
                    self._failed(step)  # as if nobody served it
                # NOTE: until it is here the run waits for it, though it does not hold the processors.
                _count(self._budget, fetch)
                if not self.waits:
                    _count(self._turn, fetch)
                why = self._budget.reason if self._over else "it is looked for again"
                raise LogsLate(f"the rounding log of step {step} is on its way; {why}")
            del self._windows[window]  # whoever needs it again asks again
            try:
                fetch.result()
            except Unavailable as error:
                if self._here(step):
                    return
                self._failed(step)
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


def _count(budget: Budget, fetch: Future[None]) -> None:
    budget.begin()
    fetch.add_done_callback(lambda _: budget.end())


def step_limit(program: Program, memory: int) -> int:
    """Return the limit, in bytes, on the unpacked logs of one step of this program, given the memory left for them.

    NOTE: while it is read, a log takes many times its bytes (`Reader`).
    """
    nodes = (
        sum(kind.count for kind in structure.outputs if kind.dtype.is_float) for structure in program.nodes
    )
    return min(content_limit(nodes), max(memory // 64, MIN_LOG_BYTES))
