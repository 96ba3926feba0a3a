"""The choice of jobs for each round, and the protection of each job from errors in the others.

    jobs that concern us     every round, and first; so are jobs that we work on, and those that concern us only because
                             a lie in them may be refuted: of each of these as many as have places, those first whose
                             time is over first
    all others               a few a round: those in which something has happened, new ones, and the rest in turn
    quiet ones               fewer: what cannot change by itself before an instant comes in its turn from then on

Jobs are cheap to post. SAFETY: a round's work must not grow with their number, or an adversary could post many jobs
until the clocks of our disputes run out; nor must the wait of a claimed job grow with the jobs that nobody claims in.
What has happened is a hint of one endpoint: a job that it hides comes in its turn. A job's data are untrusted: an error
in one job must not stop the round.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import time
from collections.abc import Callable, Iterable

import structlog

from referee_py.errors import AssayError

from ..chain import JobPhase, JobView, Snapshot
from ..errors import ChainError, DiskFailed, NotAsked, RpcCorrupt, RpcUnavailable
from ..observe.metrics import Metrics
from ..observe.problems import Problems
from ..storage.database import Database

PER_ROUND = 64
"""Jobs of strangers that a round looks at, with some 70 requests to the RPC endpoint."""
MAX_AT_WORK = 16
"""Jobs of strangers that every round looks at because their packages are being fetched or their runs executed."""
MAX_WAITING = 16
"""Jobs that every round looks at because a lie in them waits for what its refutation takes."""
QUIET = 8
"""A round looks at one quiet job for each so many others."""
CONFIRM_S = 60.0
"""Seconds after which endpoints that did not confirm a look are asked again."""
PROBE_AFTER = 3
"""Number of failed requests to the chain, with no job done in between, after which a round checks that it answers."""

OURS = "ours"
"""Word of the database for jobs that concern us."""
_WAITS = "waits"
"""Those that concern us only because a lie in them may be refuted."""
_OVER = "over"
_UNREAD = "jobs to be read before ether is sent on"

_log = structlog.get_logger(__name__)


class JobQueue:
    """The order of jobs. ``database`` remembers which are ours, so that a restart finds them at once."""

    def __init__(self, database: Database, *, per_round: int = PER_ROUND) -> None:
        self._database = database
        self._per_round = per_round
        # SAFETY: a process may have ended after it voted, and before it marked the job.
        staked = {*database.jobs(OURS), *(job for job, *_ in database.undone())}
        self._waiting = {job: 0.0 for job in database.jobs(_WAITS) if job not in staked}
        """Those of ours that only wait, and the instants by which they come; what is not known comes soon."""
        self._ours = staked | self._waiting.keys()
        self._at_work: dict[int, float] = {}
        """Instants at which they end."""
        self._slots = set[int]()
        """Those of ours that train."""
        self._quiet: dict[int, float] = {}
        """Until when nothing changes by itself."""
        self._happened: dict[int, None] = {}
        self._unsaved: set[int] = set()
        self._newest: int | None = None
        self._next = self._next_quiet = 1

    def unread(self, lost: Callable[[], bool]) -> int:
        """Return the number of jobs of which this database may not know that they are ours, as an earlier process has
        noted it; -1 if nobody has counted them, though the account has sent what is ``lost``.

        SAFETY: a note may be of an earlier loss, and come with a backup: jobs that are newer may be ours, too.
        """
        return -1 if lost() else int(self._database.get(_UNREAD, 0))

    def note_unread(self, through: int) -> None:
        """Note that jobs up to this number are to be read; -1: all, however many. SAFETY: the next transaction is the
        newest one, so a later process would find that nothing lacks."""
        with contextlib.suppress(DiskFailed):
            self._database.put(_UNREAD, through)

    def read_all(self) -> None:
        """Note that it is known which jobs are ours."""
        with contextlib.suppress(DiskFailed):
            self._database.drop(_UNREAD)

    def happened(self, jobs: Iterable[int]) -> None:
        """Note that something has happened in these jobs: they come soon, and as they are now."""
        for job in jobs:
            self._quiet.pop(job, None)
            self._happened[job] = None

    def due(self, count: int, now: float = 0.0) -> list[int]:
        """Return the jobs of this round. Jobs are numbered from 1 to ``count``; ``now``: the chain's time.

        Our jobs have a turn in every round, but for those that only wait, of which up to `MAX_WAITING` have one; and so
        have up to `MAX_AT_WORK` jobs that we work on. Then come jobs in which something has happened, new jobs, and
        jobs seen earlier, with those that wait.
        Ended jobs are quiet.
        """
        soon = heapq.nsmallest(MAX_WAITING, ((at, job) for job, at in self._waiting.items() if job <= count))
        every = (self._ours - self._waiting.keys()) | self._at_work.keys() | {job for _, job in soon}
        # SAFETY: disputes of others, for whose transactions a round waits, must not come before the end of a slot.
        first = sorted(
            (job for job in every if job <= count),
            key=lambda job: (job not in self._slots, job),
        )
        known = set(first)
        quota = self._per_round // 2
        others = list[int]()
        while self._happened and len(others) < quota // 2:
            job = next(iter(self._happened))
            del self._happened[job]
            if 1 <= job <= count and job not in known:
                others.append(job)
        newest = max(count - quota, 0) if self._newest is None else min(self._newest, count)
        new = range(newest + 1, min(count, newest + quota) + 1)
        others += [job for job in new if job not in known and job not in others]
        self._newest = min(count, newest + quota)
        known.update(others)
        quiet = {job for job, until in self._quiet.items() if until > now}
        room = max(0, self._per_round - len(others))
        # SAFETY: quiet ones have places of their own, or who hides an event would hide it for as long as others post.
        few = min(room, self._per_round // QUIET)
        silent = sorted(job for job in quiet - known if job <= count)
        silent.sort(key=lambda job: job < self._next_quiet)
        silent = silent[:few]
        self._next_quiet = silent[-1] + 1 if silent else 1
        room -= len(silent)
        turns, self._next = _turns(self._next, count, room, lambda job: job not in known and job not in quiet)
        return first + others + turns + silent

    @property
    def at_work(self) -> bool:
        """Whether there are jobs that we work on."""
        return bool(self._at_work)

    def ours(self, job: int) -> bool:
        """Return whether a job concerns us."""
        return job in self._ours

    def waits(self, job: int) -> bool:
        """Return whether a job concerns us only because a lie in it may be refuted."""
        return job in self._waiting

    def mark(
        self,
        job: int,
        ours: bool,
        *,
        waits: float | None = None,
        at_work: bool = False,
        ended: bool = False,
        ends: float = math.inf,
        quiet_until: float = 0.0,
        slots: bool = False,
    ) -> None:
        """Remember whether a job concerns us, whether we work on it, and whether it has ended; when it ``ends``, and
        until when nothing changes in it by itself, by the chain's time. ``slots``: its slots are being filled;
        then it comes first of ours. ``waits``: it is ours only because of a lie, and comes by that instant, if not all
        can come.

        NOTE: a job that concerned us and has ended gets one more turn, in case a reorganisation brings it back.
        """
        before, waited = job in self._ours, self._waiting.pop(job, None) is not None
        if ours and waits is not None:
            self._waiting[job] = waits
        if ours != before or self.waits(job) != waited or job in self._unsaved:
            (self._ours.add if ours else self._ours.discard)(job)
            self._unsaved.add(job)  # NOTE: if the disk refuses, the next round tries again
            self._database.put_job(job, (_WAITS if self.waits(job) else OURS) if ours else _OVER)
            self._unsaved.discard(job)
        (self._slots.add if ours and slots else self._slots.discard)(job)
        self._at_work.pop(job, None)
        if at_work:
            self._at_work[job] = ends
            if len(self._at_work) > MAX_AT_WORK:
                del self._at_work[max(self._at_work, key=lambda one: (self._at_work[one], one))]
        if quiet_until:
            self._quiet[job] = quiet_until
        else:
            self._quiet.pop(job, None)
        if ended and not ours and not before:
            self._quiet[job] = math.inf  # NOTE: one endpoint says so, once


def _turns(first: int, count: int, most: int, comes: Callable[[int], bool]) -> tuple[list[int], int]:
    """Return at most so many jobs that come, in their order from ``first`` on, and where to continue."""
    found, place = list[int](), first
    for _ in range(count):
        if len(found) >= most:
            break
        place = place if place <= count else 1
        if comes(place):
            found.append(place)
        place += 1
    return found, place


def quiet_until(job: JobView, *, joins: bool) -> float:
    """Return the chain's time until which nothing is due in a job that does not concern us, unless something happens in
    it; 0 if it may be due at any time. ``joins``: we may do something in it while it trains."""
    if job.claims:
        return 0.0
    ends = {
        JobPhase.TRAINING: 0 if joins else job.commit_end,
        JobPhase.REVEAL: job.reveal_end,
        JobPhase.CHALLENGE: job.challenge_end,
        JobPhase.CLOSING: math.inf,
    }
    return ends.get(job.phase, 0.0)


def end_of(job: JobView, now: float) -> float:
    """Return when the period is over that our work on a job serves; infinite if it is over."""
    ends = job.commit_end if job.phase is JobPhase.TRAINING else job.challenge_end
    return ends if ends > now else math.inf


class Scheduler:
    """Goes through the queue, and notes in ``problems`` why a job failed. ``works_at`` returns whether we work on a
    job; such a job has a turn in every round, so that its result is used soon. ``waits``: see `Role`. ``joins``: see
    `quiet_until`. ``lost``
    returns whether the database lacks something that the account has done; ``known`` is called once all jobs were read
    for that. ``clock``: seconds."""

    def __init__(
        self,
        queue: JobQueue,
        problems: Problems,
        works_at: Callable[[int], bool] = lambda _: False,
        metrics: Metrics | None = None,
        *,
        waits: Callable[[int], float | None] = lambda _: None,
        joins: bool = True,
        lost: Callable[[], bool] = lambda: False,
        known: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._lost, self._known = lost, known
        self._through: int | None = None
        """Jobs up to this number are to be read, since the database may not know that they are ours; negative where
        nobody has counted them, None before the first round."""
        self._looked, self._were_read = set[int](), set[int]()
        """Those that this round has looked at, and those that looks have shown which others confirm."""
        self._problems = problems
        self._works_at, self._waits, self._joins = works_at, waits, joins
        self._seen: int | None = None
        """The block of the round before."""
        self._metrics = metrics or Metrics()
        self.complete = False
        """True if all our jobs were read and attended to in the last round, and none is unknown."""
        self._clock, self._ask_at = clock, float("-inf")
        """Instant from which others are asked again whether they confirm what a round shows."""

    @property
    def at_work(self) -> bool:
        """Whether there are jobs that we work on."""
        return self._queue.at_work

    def go(self, snapshot: Snapshot, attend: Callable[[JobView], tuple[bool, Exception | None]]) -> None:
        """Call ``attend``, which returns whether a job concerns us, and an error. Raises only RpcUnavailable and
        RpcCorrupt."""
        failures, count = 0, snapshot.job_count()
        self._looked.clear()
        self._count_unread(snapshot, count)
        unread = self._through != 0
        self.complete = True
        self._problems.forget_jobs_after(count)
        self._look_for_events(snapshot)
        for job_id in self._queue.due(count, snapshot.now):
            try:
                job = snapshot.job(job_id)
                ours, failed = attend(job)
                # SAFETY: a stake does not go while a job runs. So one look without ours keeps its turns.
                runs = self._queue.ours(job_id) and not job.phase.ended
                kept = not ours and runs and not self._agreed(snapshot, hurried=not unread)
                ours, waits = ours or kept, self._waits(job_id)
                if kept and self._queue.waits(job_id):
                    waits = math.inf  # NOTE: as far as anybody says, nothing can be refuted in it
                # SAFETY: a job that concerns us has a turn in every round, also while something in it fails.
                over = job.phase.ended and failed is None
                self._queue.mark(
                    job_id,
                    ours,
                    waits=waits,
                    at_work=self._works_at(job_id),
                    # NOTE: while jobs are to be read, a look that nobody confirms is taken again soon.
                    ended=over and not unread,
                    ends=end_of(job, snapshot.now),
                    quiet_until=0.0 if unread else quiet_until(job, joins=self._joins),
                    slots=job.phase is JobPhase.TRAINING,
                )
                self._looked.add(job_id)
                if failed is not None:
                    raise failed
                if job.hidden is not None:
                    # NOTE: after all turns, for this is said and keeps us from none of them.
                    raise RpcCorrupt(job.hidden)
            except AssayError as error:
                self._failed(job_id, error)
                if not isinstance(error, ChainError):
                    self._looked.add(job_id)  # NOTE: its author may have caused it
                _log.warning("job.failed", job=job_id, error=type(error).__name__, reason=str(error))
                failures += isinstance(error, ChainError)
                if failures and failures % PROBE_AFTER == 0:
                    snapshot.still_canonical()
            except Exception as error:
                _log.exception("job.bug", job=job_id)
                self._failed(job_id, error)
                self._looked.add(job_id)
            else:
                failures = 0
                self._problems.clear(f"job {job_id}")
        if unread and self._looked and self._agreed(snapshot):
            self._were_read |= self._looked
        if unread and not self.unread:
            self._through = 0
            self._were_read.clear()
            self._queue.read_all()
            self._known()
        self.complete &= not self.unread

    @property
    def unread(self) -> int:
        """The number of jobs of which it is not known whether they are ours; 1 if nobody has counted them."""
        if self._through is None or self._through < 0:
            return 1
        return self._through - sum(job <= self._through for job in self._were_read)

    def _count_unread(self, snapshot: Snapshot, count: int) -> None:
        """Find out which jobs are to be read. SAFETY: one endpoint says how many there are. More than there are would
        be waited for without end; fewer would hide ours. So others confirm the number, or what is known stays."""
        if self._through is None:
            # SAFETY: who does not answer about our account keeps us from no move; nothing is staked until then.
            with contextlib.suppress(RpcUnavailable, RpcCorrupt):
                self._through = self._queue.unread(self._lost)
            if self._through is None:
                return
            if self._through < 0:
                self._queue.note_unread(self._through)
        if 0 <= self._through <= count or not count:
            return
        if self._agreed(snapshot):
            self._through = count
            self._queue.note_unread(count)

    def _agreed(self, snapshot: Snapshot, *, hurried: bool = False) -> bool:
        """Return whether others confirm what this round shows. After a refusal they are asked again a minute later:
        a round is short while a clock of ours runs. ``hurried``: turns of other jobs wait for it.

        SAFETY: a stranger decides when a job ceases to concern us, whose lie we might have refuted.
        """
        if self._clock() < self._ask_at:
            return False
        try:
            snapshot.confirm(hurried=hurried)
        except NotAsked:
            return False
        except ChainError as error:
            self._ask_at = self._clock() + CONFIRM_S
            _log.warning("jobs.not_confirmed", reason=str(error))
            return False
        return True

    def _look_for_events(self, snapshot: Snapshot) -> None:
        """Note in which jobs something has happened since the round before. NOTE: a range that cannot be read is not
        asked for again, so that no flood of events keeps us; each job comes in its turn."""
        seen, self._seen = self._seen, snapshot.block.number
        try:
            self._queue.happened(snapshot.jobs_changed(seen))
        except ChainError as error:
            _log.info("jobs.events_unread", after=seen, reason=str(error))

    def _failed(self, job_id: int, error: Exception) -> None:
        self._metrics.add("failures", "disk" if isinstance(error, DiskFailed) else "turn")
        told, ours = f"{type(error).__name__}: {error}", self._queue.ours(job_id)
        self.complete = self.complete and not ours
        self._problems.job(job_id, "", told, ours=ours)
