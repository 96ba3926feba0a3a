"""Progress of one job's checks: what is left of each claimed root, what was found wrong, and the cost."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import repops

from referee_py.errors import AssayError

from ...chain import JobView
from ...compute.processors import Share
from ...compute.tries import Tries
from ...errors import Malformed
from ...network.sources import Source
from ...run.refutation import Refuted
from ...run.step_times import Taken
from .budget import ChainClock, Instant
from .part import Part

UNSERVED = 16
"""Intervals of a root that nobody serves and that are asked for again before any further one."""


class BudgetSpent(AssayError):
    """An interval takes more than is left."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Checks of a claimed root, as intervals in this order; at most ``cpu_s`` seconds of processors and
    ``max_bytes`` fetched, for this root alone: who claims another one spends nothing of it."""

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
    """Number of intervals of the plan that have been begun."""
    begun: list[int] = field(default_factory=list)
    """Intervals that have been begun and have no outcome yet. They come before those that follow in the plan."""
    brought: set[int] = field(default_factory=set)
    """Those of them whose data have come, and that wait for their replay."""
    staked: bool = False
    """True if a stake of ours rests on what is left: it waits for nobody, and is found again whatever that costs."""
    unserved: dict[int, int] = field(default_factory=dict)
    """By interval: how often its data could not be had."""
    until: dict[int, float] = field(default_factory=dict)
    """By interval: the instant on the chain up to which its data are waited for, as the job is now."""
    asked: dict[int, Instant] = field(default_factory=dict)
    """By interval: when its data were asked for first."""
    overdue: dict[int, int] = field(default_factory=dict)
    """By interval that was begun and whose time was over: the one that was asked for. It comes again if the job turns
    out to leave more time for it."""
    asking: int = 0
    """The interval whose data are asked for."""
    took: dict[int, Taken] = field(default_factory=dict)
    """By interval that is replayed, or was found wrong: the seconds of its slowest steps."""
    share: Share = field(default_factory=Share)
    """Time of the processors that its intervals have had, all together."""
    withheld: bool = False
    """True if something drawn of it cannot be checked: its data are not served, or make no sense to us, or its budget
    is spent. What is too late is `overdue`."""
    cpu_s: float = 0.0
    fetched: int = 0
    """The seconds of processors and the bytes that have been spent on it."""
    running: Future[None] | None = None
    tries: Tries = field(default_factory=Tries)

    @property
    def runs(self) -> bool:
        """True while a work for it runs."""
        return self.running is not None and not self.running.done()

    @property
    def lacks(self) -> bool:
        """True if something drawn of it cannot be checked, as the job is now."""
        return self.withheld or bool(self.overdue)

    @property
    def left(self) -> bool:
        """True if there is something to check. NOTE: the loop asks this of each root in each round."""
        return self.plan is None or bool(self.begun) or self.taken < len(self.plan.intervals)

    def next_ones(self) -> Iterator[int]:
        """Yield the intervals to check, each once. One that is not `done` with meanwhile comes again another time.

        INVARIANT: an interval is `begun` before it counts as taken, so none is lost whatever ends this, and something
        is left until the last one is done with. No more than `UNSERVED` are held whose data have not come.
        """
        for interval in list(self.begun):
            # NOTE: `done` comes first where a replay ends meanwhile.
            if interval not in self.brought and interval in self.begun:
                yield interval
        while self.plan is not None and self.taken < len(self.plan.intervals):
            if len(self.begun) - len(self.brought) >= UNSERVED:
                return
            interval = self.plan.intervals[self.taken]
            self.begun.append(interval)
            self.taken += 1
            yield interval

    def done(self, interval: int, *, checked: bool) -> None:
        """Note that an interval has an outcome, before it is noted as replayed. ``checked``: it was replayed, here or
        for a stake."""
        if not checked:
            self.withheld = True
        self.begun.remove(interval)
        for of in (self.until, self.asked, self.overdue, self.unserved):
            of.pop(interval, None)

    def miss(self, interval: int) -> bool:
        """Continue without an interval that is overdue, if there is time for another; return whether there is."""
        asked = self.overdue[interval]
        since = self.asked.get(asked)
        if since is not None and self.until.get(asked, math.inf) <= since.chain:
            return False
        self.begun.remove(interval)
        self.unserved.pop(interval, None)
        return True

    def come_again(self, now: float) -> None:
        """Let what was overdue come again as far as there is time for it by now."""
        for interval, asked in list(self.overdue.items()):
            if now >= self.until.get(asked, math.inf):
                continue
            del self.overdue[interval]
            if interval and interval not in self.begun:
                self.begun.append(interval)

    def end(self) -> int:
        """Check nothing more of it, though something is left; return how many intervals are."""
        assert self.plan is not None
        left = len(self.begun) + len(self.plan.intervals) - self.taken
        self.taken, self.withheld = len(self.plan.intervals), True
        self.begun.clear()
        self.overdue.clear()
        return left

    def late(self, now: float) -> bool:
        """Return whether what is asked for has had its time."""
        return now >= self.until.get(self.asking, math.inf)


@dataclass
class Checks:
    """The checks of one job."""

    clock: ChainClock
    computing: int = 0
    """Number of its intervals that are replayed, or wait for that."""
    over: bool = False
    """True once nobody wants the checks any more."""
    whole: bool = False
    """True if the whole run has been begun."""
    whole_after_s: float = 0.0
    """The seconds that others would take before the whole run if it was begun now; infinite if it would not be."""
    job: JobView | None = None
    """The job as the last look has shown it."""
    ends: object = None
    """Instants of it by which waits end."""
    looked_at: int = 0
    """Number of claimed roots that have been looked at, one round after the other."""
    roots: dict[bytes, Root] = field(default_factory=dict)
    staked: dict[tuple[bytes, int], Root] = field(default_factory=dict)
    """By root and interval: what we have refuted, or are about to refute, while it is found again."""
    lies: dict[tuple[bytes, int], Refuted] = field(default_factory=dict)
    """By root and interval: what was found wrong, until the job is over."""
    parts: dict[tuple[bytes, int], Part] = field(default_factory=dict)
    """Those of them that are in memory, to be played. What we have not staked on gives way to others."""
    refuted: tuple[tuple[bytes, int], ...] = ()
    """Those that we have staked on, those of living refutations first."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def busy(self) -> bool:
        return any(root.runs for root in self.works())

    def works(self) -> list[Root]:
        """Return all roots and staked intervals."""
        return [*self.roots.values(), *self.staked.values()]

    @property
    def spent(self) -> tuple[float, int]:
        """The seconds of processors and the bytes that have been spent on all roots and staked intervals."""
        works = self.works()
        return sum(root.cpu_s for root in works), sum(root.fetched for root in works)

    def add(self, part: Part) -> None:
        """Note an interval that was found wrong, and that is in memory."""
        claim = part.claim
        key = claim.against, part.interval
        self.parts[key], self.lies[key] = part, claim

    def brought(self, root: Root, interval: int) -> None:
        """Note that the data of an interval have come: it waits for its replay."""
        with self.lock:
            self.computing += interval not in root.brought
            root.brought.add(interval)

    def replayed(self, root: Root, *intervals: int) -> None:
        """Note that intervals do not wait for their replay any more."""
        with self.lock:
            self.computing -= len(root.brought.intersection(intervals))
            root.brought.difference_update(intervals)

    def found(self) -> list[Refuted]:
        """Return all that was found wrong, in the order in which it was found."""
        return list(self.lies.values())

    @property
    def wrong(self) -> set[bytes]:
        """The roots that were found wrong."""
        return {root for root, _ in list(self.lies)}

    @property
    def passed(self) -> set[bytes]:
        """The roots of which all that was drawn has been checked. SAFETY: what has been given up has not."""
        return {name for name, root in list(self.roots.items()) if not root.left and not root.lacks}

    def proven_wrong(self, lost: Callable[[Refuted], bool]) -> set[bytes]:
        """Return the roots that were found wrong, by a statement that was not lost."""
        return {lie.against for lie in self.found() if not lost(lie)}


class Meter:
    """Measures what the check of a root costs: seconds of processors while it is entered, and bytes fetched from its
    creation on; one without a source none, so bytes do not spend it. Of a plan without limits nothing is ever spent.

    NOTE: several works compute at the same time. So the seconds are those of the thread that computes, once for each
    thread that the kernels use.
    """

    def __init__(self, checks: Checks, root: Root, source: Source | None) -> None:
        self._lock, self._root, self._source = checks.lock, root, source
        self._fetched = 0 if source is None else source.fetched
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.spent()
        self._began = None

    def spent(self) -> bool:
        """Add up what was spent since the last look; return whether the root's budget is spent."""
        root, cpu_s = self._root, 0.0
        fetched = 0 if self._source is None else self._source.fetched
        if self._began is not None:
            now = time.thread_time()
            cpu_s, self._began = (now - self._began) * repops.get_num_threads(), now
        with self._lock:  # an interval is replayed while the next one is brought
            root.cpu_s, root.fetched = root.cpu_s + cpu_s, root.fetched + fetched - self._fetched
        self._fetched = fetched
        assert root.plan is not None
        if root.cpu_s >= root.plan.cpu_s:
            return True
        return self._source is not None and root.fetched >= root.plan.max_bytes


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
