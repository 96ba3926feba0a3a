"""Retention: which files stay on disk (docs/operating.md, section 4).

    a job is open              all that it holds stays
    over for `grace_s`         its work goes: states, trees, records, logs, package; its result stays
    over for `result_s`        its result goes, too
    in no list                 stays as long as an older job of ours is open, and for `grace_s` at least

What a list names goes by the times of the jobs whose lists name it, however long others last, and with its line
(`letting_go`). Roots of checkpoints go from the database with the result (`ended_runs`). A full disk shortens both
times to `URGENT_GRACE_S`, and gives up what was fetched for jobs in which we have nothing at stake; for a job that is
only considered, no result goes before its time, and of open jobs only states that can be computed again
(`resting_states`). SAFETY: what a job with our stake or bond holds never goes while the job and its hearings last,
because a dispute, a refutation, a request or a trial may ask for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from .artifacts import Kind, Name
from .database import Database
from .disk import on_disk
from .ended_runs import forget_runs
from .incoming import Usage
from .job_holds import DRAWN, RESULT, WORK
from .letting_go import LettingGo
from .store import Store
from .store_files import INCOMING, made

URGENT_GRACE_S = 120.0
"""Time for which artifacts that no job holds stay on a full disk: they may be on their way to one. A job that is over
keeps all as long, too: it is ten blocks of 12 s, and a reorganisation within them may bring the job back."""
_INCOMING_S = 24 * 3600.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds after the end of a job for which its work and its result stay."""

    grace_s: float = 3600.0
    result_s: float = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Swept:
    """Result of a collection: bytes and files that are gone, and what is left by kind."""

    freed: int
    removed: int
    left: Usage


class Retention:
    """Collects garbage in a store. ``database`` has the checkpoints of the runs, or is None where there are none."""

    def __init__(
        self,
        store: Store,
        database: Database | None,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._database = database
        self._policy = policy
        self._told = False
        """True once the database knows which states are here; an earlier process may not have told it."""
        self._clock = clock
        self._lock = threading.Lock()
        self.waiting: Callable[[], frozenset[int]] = frozenset
        """Returns jobs that keep what they hold, and nothing else: what is wrong in them waits, maybe for years."""

    def collect(self, resting: Container[int] = frozenset()) -> Swept:
        """Remove what has had its time. ``resting``: jobs in which we have nothing at stake, and on which we do not
        work; it is asked of each when something of it would go (`at_rest`)."""
        return self._sweep(self._policy, self._policy.grace_s, resting, runs=False)

    def urgent(self, resting: Container[int], enough: Callable[[], bool], over_s: float = 0.0) -> Swept:
        """Remove what may go, the least valuable first, until there is ``enough`` room: `give_up` with runs, then with
        results, too."""
        swept = self.give_up(resting, over_s, runs=True)
        if not enough():
            more = self.give_up(resting, over_s, runs=True, results=True)
            swept = Swept(swept.freed + more.freed, swept.removed + more.removed, more.left)
        return swept

    def give_up(
        self, resting: Container[int], over_s: float, *, runs: bool = False, results: bool = False
    ) -> Swept:
        """Remove the work of jobs that are over; with ``runs`` also what the ``resting`` ones hold (see `collect`);
        with ``results`` also results before their time. ``over_s``: seconds for which jobs that are over keep all."""
        result_s = over_s if results else max(over_s, self._policy.result_s)
        return self._sweep(Policy(over_s, result_s), URGENT_GRACE_S, resting, runs=runs)

    def _sweep(self, policy: Policy, grace_s: float, resting: Container[int], *, runs: bool) -> Swept:
        with self._lock:
            now = self._clock()
            gone = self._let_go(policy, now, now - grace_s, resting, runs=runs)
            freed, removed = gone.freed, gone.removed
            kept, since = self._kept(now, resting)
            before, left, loose = min(since, now - grace_s), Usage(), 0
            for path, kind, size, used in files(self._store.root):
                limit = now - _INCOMING_S if kind == INCOMING else before
                held = kind == "jobs" or str(path.relative_to(self._store.root)) in kept
                # SAFETY: what somebody has put into our folder is not ours to remove.
                if held or used >= limit or not made(self._store.root, path):
                    left.add(kind, size)
                    continue
                with self._store.holders.lock:  # NOTE: whoever holds it meanwhile has used it
                    won = self._store.remove(path, limit)
                freed, loose = freed + won, loose + (won > 0)
            self._store.usage.files, self._store.usage.bytes = dict(left.files), dict(left.bytes)
            # NOTE: an earlier process may have ended, or the database been full, before it was told what has gone.
            if loose or not self._told:
                self.drop_states()
            if removed + loose:
                _log.info("store.collected", files=removed + loose, bytes=freed)
            return Swept(freed, removed + loose, left)

    def _let_go(
        self, policy: Policy, now: float, limit: float, resting: Container[int], *, runs: bool
    ) -> LettingGo:
        """Let jobs go of what has had its time. SAFETY: each is asked about when it lets go, since a stake may have
        been given, or a job have come back, since the sweep began."""
        holders, ended = self._store.holders, list[int]()
        with LettingGo(self._store, self.drop_states, unless_used_since=limit) as letting:
            for job in holders.jobs():
                with holders.lock:
                    stages = self._stages(policy, now, job, resting, runs=runs)
                    if stages:
                        over = holders.over(job) is not None
                        letting.go(job, _of(stages))
                        if over and not holders.lists(job):
                            ended.append(job)
        if self._database is not None and ended:
            forget_runs(self._database, ended)
        return letting

    def _stages(self, policy: Policy, now: float, job: int, resting: Container[int], *, runs: bool) -> str:
        """Return of which stages a job lets go now."""
        over = self._store.holders.over(job)
        if over is None:
            return WORK + DRAWN + RESULT if runs and job in resting else ""
        if now - over >= policy.result_s:
            return WORK + DRAWN + RESULT
        return WORK + DRAWN if now - over >= policy.grace_s else ""

    def _kept(self, now: float, resting: Container[int]) -> tuple[set[str], float]:
        """Return the paths that lists name, and since when the oldest job that does not rest is open.

        NOTE: anybody can post a job that continues for years. If it counted as the oldest, nothing would ever go.
        """
        holders, waiting = self._store.holders, self.waiting()
        kept, since = set[str](), now
        for job, over in holders.jobs().items():
            kept.update(path for _, path in holders.held(job))
            if over is None and job not in resting and job not in waiting:
                since = min(since, holders.began(job))
        return kept, since

    def drop_states(self) -> None:
        """Let the database know which states are no longer here. Their checkpoints stay."""
        if self._database is None:
            return
        self._told = False
        with self._store.holders.lock:
            untold = set(self._store.holders.untold)
        for run in self._database.runs():
            rows = self._database.checkpoints(run)
            here = [
                step
                for step in rows
                if all(
                    self._store.find(Name(Kind.TENSOR, slot)) is not None
                    for slot in self._database.state(run, step)
                )
            ]
            if len(here) < len(rows):
                self._database.drop_states(run, here)
        self._told = True
        with self._store.holders.lock:
            self._store.holders.untold -= untold


def _of(stages: str) -> Callable[[str, str], bool]:
    return lambda stage, _: stage in stages


def files(root: Path) -> Iterator[tuple[Path, str, int, float]]:
    """Yield every file of a store: path, kind (its folder), bytes on disk, and when it was last used."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for path in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if path.is_file():
                    yield path, folder.name, on_disk(found.st_size), found.st_mtime


def usage(root: Path) -> Usage:
    """Count what a store takes on disk."""
    found = Usage()
    for _, kind, size, _ in files(root):
        found.add(kind, size)
    return found
