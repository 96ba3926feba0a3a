"""Retention: which files stay on disk (docs/operating.md, section 4).

    a job is open              all that it holds stays
    over for `grace_s`         its work goes: states, trees, records, logs, package; its result stays
    over for `result_s`        its result goes, too
    held by no job             stays as long as an older job of ours is open, and for `grace_s` at least

Roots of checkpoints stay in the database. A full disk shortens both times to `URGENT_GRACE_S`, and gives up what was
fetched for jobs in which we have nothing at stake; for a job that is only considered, no result goes before its time,
and of open jobs only states that can be computed again (`resting_states`). SAFETY: what a job with our stake or
bond holds never goes while the job and its hearings last, because a dispute, a refutation, a request or a trial may ask
for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from .artifacts import Kind, Name
from .database import Database
from .disk import on_disk
from .incoming import Usage
from .job_holds import RESULT
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
    """Result of a collection: bytes and files that are gone, what is left by kind, and the jobs that
    hold nothing any more."""

    freed: int
    removed: int
    left: Usage
    gone: tuple[int, ...] = ()


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
        self._clock = clock
        self._lock = threading.Lock()
        self.waiting: Callable[[], frozenset[int]] = frozenset
        """Returns jobs that keep what they hold, and nothing else: what is wrong in them waits, maybe for years."""

    def collect(self, resting: frozenset[int] = frozenset()) -> Swept:
        """Remove what has had its time. ``resting``: jobs in which we have nothing at stake, and on which we do not
        work."""
        return self._sweep(self._policy, self._policy.grace_s, resting, runs=False)

    def urgent(self, resting: frozenset[int], enough: Callable[[], bool], over_s: float = 0.0) -> Swept:
        """Remove what may go, the least valuable first, until there is ``enough`` room: `give_up` with runs, then with
        results, too."""
        swept = self.give_up(resting, over_s, runs=True)
        if not enough():
            more = self.give_up(resting, over_s, runs=True, results=True)
            freed, removed = swept.freed + more.freed, swept.removed + more.removed
            swept = Swept(freed, removed, more.left, swept.gone + more.gone)
        return swept

    def give_up(
        self, resting: frozenset[int], over_s: float, *, runs: bool = False, results: bool = False
    ) -> Swept:
        """Remove the work of jobs that are over; with ``runs`` also what the ``resting`` ones hold (see `collect`);
        with ``results`` also results before their time. ``over_s``: seconds for which jobs that are over keep all."""
        result_s = over_s if results else max(over_s, self._policy.result_s)
        return self._sweep(Policy(over_s, result_s), URGENT_GRACE_S, resting, runs=runs)

    def _sweep(self, policy: Policy, grace_s: float, resting: frozenset[int], *, runs: bool) -> Swept:
        with self._lock:
            now = self._clock()
            kept, since, gone = self._marked(policy, now, resting, runs=runs)
            before = min(since, now - grace_s)
            freed = removed = 0
            left = Usage()
            for path, kind, size, used in files(self._store.root):
                limit = now - _INCOMING_S if kind == INCOMING else before
                held = kind == "jobs" or str(path.relative_to(self._store.root)) in kept
                # SAFETY: what somebody has put into our folder is not ours to remove.
                if held or used >= limit or not made(self._store.root, path):
                    left.add(kind, size)
                    continue
                won = self._store.remove(path, limit)
                freed, removed = freed + won, removed + (won > 0)
            self._store.usage.files, self._store.usage.bytes = dict(left.files), dict(left.bytes)
            for job in gone:
                self._store.holders.release(job)
            if removed:
                self.drop_states()
                _log.info("store.collected", files=removed, bytes=freed)
            return Swept(freed, removed, left, tuple(gone))

    def _marked(
        self, policy: Policy, now: float, resting: frozenset[int], *, runs: bool
    ) -> tuple[set[str], float, list[int]]:
        """Return the paths that jobs hold, since when the oldest job that does not rest is open, and the jobs that hold
        nothing more.

        NOTE: anybody can post a job that continues for years. If it counted as the oldest, nothing would ever go.
        """
        holders, waiting = self._store.holders, self.waiting()
        kept, since, gone = set[str](), now, list[int]()
        for job, over in holders.jobs().items():
            if over is None and job not in resting and job not in waiting:
                since = min(since, holders.began(job))
            if over is None and not (runs and job in resting):
                kept.update(path for _, path in holders.held(job))
                continue
            if over is None:
                gone.append(job)
                continue
            age = now - over
            if age < policy.grace_s:
                kept.update(path for _, path in holders.held(job))
            elif age < policy.result_s:
                kept.update(path for stage, path in holders.held(job) if stage == RESULT)
            else:
                gone.append(job)
        return kept, since, gone

    def drop_states(self) -> None:
        """Let the database know which states are no longer here. Their checkpoints stay."""
        if self._database is None:
            return
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
