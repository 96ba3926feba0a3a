"""How far the checks of one job have come: what is left of each claimed root, what was found wrong, what it cost."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import repops

from referee_py.errors import AssayError

from ...audit.claimed import Source
from ...errors import Malformed
from ...run.refutation import Refuted
from ...work.processors import Share
from .budget import ChainClock
from .interval_run import Part

UNSERVED = 16
"""Intervals of a root that nobody serves and that are asked for again before any further one."""


class BudgetSpent(AssayError):
    """An interval takes more than is left."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is checked of a claimed root, as intervals in this order; at most ``cpu_s`` seconds of processors and
    ``max_bytes`` fetched, in all roots of the job together."""

    intervals: Sequence[int]
    cpu_s: float = math.inf
    max_bytes: float = math.inf


@dataclass
class Root:
    """The progress of one claimed root: a work of its own, so that no other one is behind its servers. The run tree,
    which comes before all intervals, counts as interval 0."""

    plan: Plan | None = None
    """None until it is drawn, which its own work does first."""
    taken: int = 0
    """How many intervals of the plan have been begun."""
    begun: list[int] = field(default_factory=list)
    """Intervals that have been begun and have no outcome yet. They come before those that follow in the plan."""
    brought: set[int] = field(default_factory=set)
    """Those of them whose data have come, and that wait for their replay."""
    staked: bool = False
    """Whether a stake of ours rests on what is left: it waits for nobody, and is found again whatever that costs."""
    unserved: dict[int, int] = field(default_factory=dict)
    """By interval: how often its data could not be had."""
    until: dict[int, float] = field(default_factory=dict)
    """By interval: the instant on the chain up to which its data are waited for."""
    asking: int = 0
    """The interval whose data are asked for."""
    share: Share = field(default_factory=Share)
    """What its intervals have had of the processors, all together."""
    withheld: bool = False
    """Whether data of it are not served, or too late."""
    running: Future[None] | None = None
    failures: int = 0
    retry_at: float = 0.0
    """When it is tried again after so many failures, by the clock of this machine."""

    @property
    def left(self) -> bool:
        """Whether there is something to check. NOTE: the loop asks this of each root in each round."""
        return self.plan is None or bool(self.begun) or self.taken < len(self.plan.intervals)

    def next_ones(self) -> Iterator[int]:
        """Yield the intervals to check, each once. One that is not `done` with meanwhile comes again another time.

        INVARIANT: an interval is `begun` before it counts as taken, so none is lost whatever ends this, and something
        is left until the last one is done with. No more than `UNSERVED` are held whose data have not come.
        """
        yield from list(self.begun)
        while self.plan is not None and self.taken < len(self.plan.intervals):
            if len(self.begun) - len(self.brought) >= UNSERVED:
                return
            interval = self.plan.intervals[self.taken]
            self.begun.append(interval)
            self.taken += 1
            yield interval

    def done(self, interval: int) -> None:
        """Note that an interval has an outcome."""
        self.begun.remove(interval)
        self.until.pop(interval, None)
        self.unserved.pop(interval, None)

    def end(self) -> None:
        """Check nothing more of it."""
        if self.plan is not None:
            self.taken = len(self.plan.intervals)
        self.begun.clear()

    def late(self, now: float) -> bool:
        """Return whether what is asked for has had its time."""
        return now >= self.until.get(self.asking, math.inf)


@dataclass
class Checks:
    """The checks of one job. ``cpu_s`` seconds of processors and ``fetched`` bytes have been spent on them."""

    clock: ChainClock
    computing: int = 0
    """How many of its intervals are replayed, or wait for the processors."""
    over: bool = False
    """True once nobody wants the checks any more."""
    whole: bool = False
    """Whether the whole run has been begun."""
    whole_after_s: float = 0.0
    """The seconds that others would take before the whole run if it was begun now; infinite if it would not be."""
    looked_at: int = 0
    """How many claimed roots have been looked at, one round after the other."""
    roots: dict[bytes, Root] = field(default_factory=dict)
    staked: dict[tuple[bytes, int], Root] = field(default_factory=dict)
    """By root and interval: what we have refuted, while it is found again."""
    parts: dict[tuple[bytes, int], Part] = field(default_factory=dict)
    """By root and interval: what we can refute, and play, until the job is over."""
    kept: int = 0
    """How many replayed intervals were wrong: each keeps its memory."""
    cpu_s: float = 0.0
    fetched: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def busy(self) -> bool:
        return any(root.running is not None and not root.running.done() for root in self.works())

    def works(self) -> list[Root]:
        """Return all roots and staked intervals."""
        return [*self.roots.values(), *self.staked.values()]

    def spend(self, cpu_s: float, fetched: int) -> None:
        """Note what was spent. NOTE: several roots are checked at the same time."""
        with self.lock:
            self.cpu_s, self.fetched = self.cpu_s + cpu_s, self.fetched + fetched

    def one_wrong(self) -> int:
        """Count an interval that was found wrong; return how many there are."""
        with self.lock:
            self.kept += 1
            return self.kept

    @contextlib.contextmanager
    def computes(self) -> Iterator[None]:
        """Count an interval that is replayed meanwhile."""
        with self.lock:
            self.computing += 1
        try:
            yield
        finally:
            with self.lock:
                self.computing -= 1

    def found(self) -> list[Refuted]:
        """Return all that was found wrong, in the order in which it was found."""
        return [part.claim for part in list(self.parts.values())]

    @property
    def wrong(self) -> set[bytes]:
        """The roots that were found wrong."""
        return {root for root, _ in list(self.parts)}

    @property
    def passed(self) -> set[bytes]:
        """The roots of which nothing that was drawn is left to check."""
        return {name for name, root in list(self.roots.items()) if not root.left}

    def proven_wrong(self, lost: Callable[[Refuted], bool]) -> set[bytes]:
        """Return the roots that were found wrong, by a statement that was not lost."""
        return {lie.against for lie in self.found() if not lost(lie)}


class Meter:
    """Measures what the checks of a job cost: seconds of processors while it is entered, and bytes fetched from its
    creation on; one without a source none, so bytes do not spend it. One with a plan without limits is never spent.

    NOTE: several works compute at the same time. So the seconds are those of the thread that computes, once for each
    thread that the kernels use.
    """

    def __init__(self, checks: Checks, source: Source | None, plan: Plan) -> None:
        self._checks, self._source, self._plan = checks, source, plan
        self._fetched = 0 if source is None else source.fetched
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.spent()
        self._began = None

    def spent(self) -> bool:
        """Add up what was spent since the last look; return whether the job's budget is spent."""
        checks, cpu_s = self._checks, 0.0
        fetched = 0 if self._source is None else self._source.fetched
        if self._began is not None:
            now = time.thread_time()
            cpu_s, self._began = (now - self._began) * repops.get_num_threads(), now
        checks.spend(cpu_s, fetched - self._fetched)
        self._fetched = fetched
        if checks.cpu_s >= self._plan.cpu_s:
            return True
        return self._source is not None and checks.fetched >= self._plan.max_bytes


def provable(interval: int, state: Callable[[int], None]) -> int:
    """Return an interval that is proven wrong by the claim's own data: its end is malformed and its start is not.

    ``interval`` is one whose end is malformed. ``state`` brings the state at the end of an interval and raises
    Malformed if it cannot be of the program; it is called for at most log2(interval) + 1 of them. INVARIANT: the run's
    first state is the program's, so there is such an interval.
    """
    good, bad = 0, interval
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            state(middle)
        except Malformed:
            bad = middle
        else:
            good = middle
    return bad
