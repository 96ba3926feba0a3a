"""Keeps a node's disk usable: room for the jobs on which it stakes, for its moves, and nothing that nobody needs.

    stake       no stake is given unless the whole job and its disputes fit on the disk (`disk_estimate`)
    round       looks at the disk, in every round: ballast, problems, metrics; collects garbage now and then
    make_room   on a full disk: frees what may be computed or fetched again

Where a job does not fit, what could be freed is counted first (`freeable`), and nothing is freed unless it is enough.
For a job that is only considered, the work of jobs that are over goes, and then, if a stake of ours in it is possible,
states of runs in which nothing of ours is at stake (`resting_states`). That is done outside the loop: the job is too
large now, and looked at again in the next round.

SAFETY: when the disk is full, moves come first. The ballast is dropped for the database, and a run continues without
keeping its states. Once there is room again, all is as before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable

import structlog

from ..errors import DiskFailed
from ..observe.metrics import Metrics
from ..observe.problems import Problems
from .artifacts import Name
from .asked_room import AskedRoom, Asks
from .at_rest import AtRest, Leaves
from .database import Database
from .disk import Ballast, free_bytes, on_disk
from .disk_estimate import Needs, NoRoom, too_full
from .disk_report import DISK, DiskReport
from .freeable import FreeableBytes
from .held_bytes import HeldBytes
from .resting_states import Found, Given, RestingStates
from .retention import URGENT_GRACE_S, Policy, Retention
from .store import Store

LOOK_S = 1.0
"""Least seconds between two looks at the disk."""
URGENT_S = 5.0
"""Least seconds between two urgent collections: each looks at every file."""

_log = structlog.get_logger(__name__)


class Keeper:
    """Keeper of one data directory. ``store_bytes`` bounds the store; 0 means no limit. Safe for several threads."""

    def __init__(
        self,
        store: Store,
        database: Database,
        ballast: Ballast,
        *,
        policy: Policy,
        store_bytes: int,
        every_s: float,
        metrics: Metrics,
        problems: Problems,
        works_at: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._store, self._database, self._ballast = store, database, ballast
        self._retention = Retention(store, database, policy)
        self._held = HeldBytes(store)
        self._freeable = FreeableBytes(store)
        self._resting_states = RestingStates(store, self._retention)
        self._at_rest = AtRest(store.holders, self._resting_states, works_at)
        self._retention.waiting = self._waiting
        self._store_bytes, self._every_s = store_bytes, every_s
        self._metrics, self._problems = metrics, problems
        self.gave_states: Callable[[int], None] = lambda _: None  # told that states of a job's run have gone
        self._needs: dict[int, Needs] = {}
        self._parts = set[int]()
        self._asked = AskedRoom()
        self._jobs = threading.Lock()
        """Held while the three above change or are copied: collections run outside the loop."""
        self._giving = threading.Lock()
        """Held while states go: writers on a full disk ask for that, too."""
        self._looked = self._urgent = self._tried = float("-inf")
        self._collected = time.monotonic()
        self._report = DiskReport(store, database, metrics, problems)
        self._collecting: threading.Thread | None = None
        self._making: threading.Thread | None = None
        store.make_room, store.refuses = self.make_room, self.refuses
        database.on_full = self.database_full

    @property
    def works_at(self) -> Callable[[int], bool]:
        """Returns whether we work at a job."""
        return self._at_rest.works_at

    @works_at.setter
    def works_at(self, works_at: Callable[[int], bool]) -> None:
        self._at_rest.works_at = works_at

    # ------------------------------------------------------------------ room for jobs

    def needs(self, job: int, needs: Needs, package: Iterable[Name] = ()) -> None:
        """Note the disk space that a job takes, and what its package consists of."""
        with self._jobs:
            self._needs[job] = needs
        if names := tuple(package):
            self._resting_states.package(job, names)

    def considers(self, job: int, *, stakes: bool) -> None:
        """Note whether a stake of ours in a job is possible."""
        self._resting_states.considers(job, stakes=stakes)

    def finds(self, job: int, found: Found) -> None:
        """Note what is found out about a job, in every round in which it is looked at."""
        with self._store.holders.lock:
            self._resting_states.finds(job, found)
            self._at_rest.looked(job)

    def takes_part(self, job: int, part: bool) -> None:
        """Note whether only intervals of a job are computed."""
        with self._jobs:
            (self._parts.add if part else self._parts.discard)(job)

    def stake(self, job: int, staked: bool) -> None:
        """Note whether we have something at stake in a job, in every round in which it is looked at."""
        self._at_rest.stake(job, staked)
        if staked:
            self._store.holders.revive(job)

    def runs(self, job: int) -> None:
        """Note that a look shows a job that is not over, whatever an earlier one has shown."""
        self._store.holders.revive(job)

    def over(self, job: int) -> None:
        """Note that a job is over."""
        with self._jobs:
            self._parts.discard(job)
            self._needs.pop(job, None)
            self._asked.forget(job)
        self._at_rest.over(job)
        self._resting_states.forget(job)
        self._store.holders.end(job)
        self._store.holders.forget_known(job)
        self._held.forget(job)

    def too_full(self, job: int, *, part: bool | None = None) -> NoRoom | Leaves | None:
        """Return why not to stake on a job, or None: it does not fit on the disk, beside the others. ``part``: whether
        a part of it is meant, or the whole; None for what is computed of it (`takes_part`)."""
        return self.fits(job, self._left(job, part=part), whole=True) or self._at_rest.fitted(job)

    def no_room(self, job: int) -> NoRoom | None:
        """Return why a job's whole run does not fit on the disk now, beside the others, or None. NOTE: it only looks;
        no room is made for the job."""
        return too_full(self._left(job, part=False), self.room(job))

    def fits(self, job: int, size: int, *, whole: bool = False) -> NoRoom | None:
        """Return why not to fetch so many bytes for a job, or None. Room that can be made is there a little later.
        ``whole``: it is all that is needed, so that others may give way to it (`resting_states`)."""
        full = too_full(size, self.room(job))
        if full is not None:
            self._ask(job, size, Asks.WHOLE if whole else Asks.PART)
        return full

    def refuses(self, job: int, size: int, drawn: bool = False) -> NoRoom | None:
        """Return why a job may not keep so many bytes more, or None. ``drawn``: they are to check what others claim.

        SAFETY: a run of a stranger's job may write more than was thought, or have begun before we staked on another.
        What is kept for a stake, or for what is wrong and waits for one, is never taken by what has none; such a run
        continues, and keeps its roots alone. What is drawn works for no stake, also where one is in its job, or waits.
        """
        staked = self._at_rest.staked
        if (job in staked and not drawn) or not (staked or self._waiting()):
            return None
        room = self.room() if drawn else self.room(job)
        full = too_full(size, room)
        if full is not None:
            # NOTE: what is lacking is what counts, by the room that the job has.
            self._ask(job, size + self.room(job) - room, Asks.DRAWN if drawn else Asks.WRITTEN)
        return full

    def room(self, job: int = 0) -> int:
        """Return the bytes that are free and that no job but this one may need.

        SAFETY: where something is wrong, a stake may be due at any time, and what is at work elsewhere gives nothing
        back. So the room of one such stake is kept from jobs in which nothing is wrong. NOTE: of one, since the others
        come after it; if all were kept, lies would keep a disk from all other jobs.
        """
        free = free_bytes(self._store.root) - self._ballast.missing
        if self._store_bytes:
            free = min(free, self._store_bytes - self._store.usage.total)
        staked, waiting = self._at_rest.staked, self._waiting()
        if job not in waiting.union(staked):
            free -= max((self._next_stake(other) for other in waiting), default=0)
        return free - sum(self._left(other) for other in staked if other != job)

    @property
    def reserved(self) -> int:
        """Bytes that the jobs on which we have staked may still take."""
        return sum(map(self._left, self._at_rest.staked))

    def _next_stake(self, job: int) -> int:
        """Return the bytes that a stake on what is wrong in a job takes."""
        return self._left(job, part=True if job in self._resting_states.lies() else None)

    def _waiting(self) -> frozenset[int]:
        """Return the jobs in which something is wrong, and nothing of ours is at stake yet."""
        return self._resting_states.wrong() - self._at_rest.staked

    def _left(self, job: int, *, part: bool | None = None) -> int:
        with self._jobs:
            needs, parts = self._needs.get(job, Needs(0)), job in self._parts
        return needs.left(self._held.of(job, drawn=False), part=parts if part is None else part)

    # ------------------------------------------------------------------ room for what does not fit

    def _ask(self, job: int, size: int, what: Asks) -> None:
        """Have room made for a job, outside the loop and for all that ask at once."""
        with self._jobs:
            self._asked.add(job, size, what)
            now = time.monotonic()
            if now - self._tried < URGENT_S or (self._making is not None and self._making.is_alive()):
                return
            self._tried = now
            self._making = threading.Thread(target=self._make_way, name="keeper-room", daemon=True)
            self._making.start()

    def _make_way(self) -> None:
        """Make room for the jobs that have asked for it. Errors are reported; the jobs ask again."""
        try:
            staked = self._at_rest.staked
            with self._jobs:
                asked = self._asked.take()
            for job, (size, what) in asked.items():
                ours = job in staked and what is not Asks.DRAWN
                # NOTE: beside what waits, and no stake, what is written takes what a full disk would (`make_room`).
                written = not staked and what in (Asks.WRITTEN, Asks.DRAWN)
                # NOTE: no states for what is written: it would take the room in which they are computed again.
                self._make_way_for(job, size, ours=ours, runs=written, states=ours or what is Asks.WHOLE)
        except Exception as error:
            self._tell(error)

    def _make_way_for(self, job: int, size: int, *, ours: bool, runs: bool, states: bool) -> None:
        """Let go of what may go for a job, the least valuable first, if all of it together is enough.

        SAFETY: packages and results go for what has our stake. Anybody can have a job considered.
        """
        lacks, could = size - self.room(job), 0
        if lacks <= 0:
            return
        for kinds in ((False, False), (True, False), (True, True))[: 3 if ours else 1 + runs]:
            with self._giving:
                could = self._freeable.could_free(self._resting(), runs=kinds[0], results=kinds[1]).bytes
            if could >= lacks:
                break
        if could < lacks and not (states and self._states(job, lacks - could, ours=ours, only_ask=True)):
            return
        if could:
            self._give_up(*kinds)
        if states and (lacks := size - self.room(job)) > 0:
            self._states(job, lacks, ours=ours)

    def _give_up(self, runs: bool, results: bool) -> None:
        """Sweep."""
        with self._giving:
            could = self._freeable.could_free(self._resting(), runs=runs, results=results)
        # SAFETY: a reorganisation may bring back a job that has just ended.
        swept = self._retention.give_up(self._resting(), URGENT_GRACE_S, runs=runs, results=results)
        self._metrics.add("store_freed_bytes", by=swept.freed)
        could.spend()

    def _states(self, job: int, lacks: int, *, ours: bool, only_ask: bool = False) -> bool:
        """Let states go for a job if they are enough, or ``only_ask`` whether they are: what is drawn in itself, if a
        stake is due in it; then those of runs from which something differs, or where nothing is ``ours``, of others."""
        states = self._resting_states
        drawn = states.drawn(job) if ours or job in states.wrong() else 0
        if lacks > drawn and not ours and not states.may_ask(job):
            return False
        with self._giving:
            rests = self._resting(states=True)
            if lacks > drawn and not states.could(None if ours else job, lacks - drawn, rests):
                return False
        if only_ask:
            return True
        if drawn:
            self._give(lambda _: states.give_drawn(job))
        if lacks > drawn:
            self._give(lambda rests: states.give(None if ours else job, lacks - drawn, rests))
        return True

    def _give(self, give: Callable[[Container[int]], Given]) -> None:
        """Let states go of resting jobs."""
        with self._giving:
            given = give(self._resting(states=True))
        self._metrics.add("store_freed_bytes", by=given.freed)
        for number in given.states:
            self.gave_states(number)

    # ------------------------------------------------------------------ a full disk

    def make_room(self, size: int) -> bool:
        """Free that many bytes, if something may go. Called by the store when the disk is full."""
        self._metrics.add("disk_full")
        self._problems[DISK] = f"no space left for {size} bytes in {self._store.root}: make room"

        def lacks() -> int:
            return max(2 * on_disk(size) - free_bytes(self._store.root), self._beyond_quota())

        if lacks() <= 0:
            return True
        self._database.fold(vacuum=False)
        self._urgently(lacks)
        return lacks() <= 0

    def database_full(self) -> None:
        """Give the database the ballast, so that its next transaction has room."""
        self._metrics.add("disk_full")
        self._problems[DISK] = f"no space left for {self._database.path}: make room"
        self._ballast.release()
        self._database.fold(vacuum=False)

    def _urgently(self, lacks: Callable[[], int]) -> None:
        if time.monotonic() - self._urgent < URGENT_S:
            return
        try:
            # SAFETY: a reorganisation may bring back a hearing or a match whose job has just ended.
            swept = self._retention.urgent(self._resting(), lambda: lacks() <= 0, over_s=URGENT_GRACE_S)
            self._metrics.add("store_freed_bytes", by=swept.freed)
            if (wanted := lacks()) > 0:
                self._give(lambda resting: self._resting_states.yields(wanted, resting))
        except DiskFailed as error:  # a list of what jobs hold is written before anything of it goes
            self._tell(error)
        self._urgent = time.monotonic()

    def _resting(self, *, states: bool = False) -> Container[int]:
        """Return the jobs that may lose all that they hold, or only ``states`` of their runs (`at_rest`)."""
        return self._at_rest.states if states else self._at_rest.files

    def _beyond_quota(self) -> int:
        return self._store.usage.total - self._store_bytes if self._store_bytes else 0

    # ------------------------------------------------------------------ upkeep

    def round(self) -> None:
        """Look at the disk. Report what is wrong with it, and when nothing is any more. Never raises OSError."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        try:  # NOTE: a folder may be away for a moment, as when a volume is mounted again
            self._look(now)
        except (DiskFailed, OSError) as error:
            self._problems[DISK] = str(error)

    def _look(self, now: float) -> None:
        free = free_bytes(self._store.root)
        held = self._ballast.hold()
        if not held and free < self._ballast.size // 2:
            self._ballast.release()
        # NOTE: the ballast may still be there while nothing else fits.
        low = not held or free < self._ballast.size
        self._report.tell(
            free, self._ballast if low else None, self._store_bytes if self._beyond_quota() > 0 else None
        )
        self._report.show(free)
        if now - self._collected >= self._every_s or self._beyond_quota() > 0:
            self._begin(now)

    def _begin(self, now: float) -> None:
        """Collect garbage outside the loop: a large store takes a while to look through."""
        if self._collecting is not None and self._collecting.is_alive():
            return
        if self._beyond_quota() > 0 and now - self._collected < URGENT_S:
            return
        self._collected = now
        self._collecting = threading.Thread(target=self.collect, name="keeper", daemon=True)
        self._collecting.start()

    def collect(self) -> None:
        """Collect garbage, fold the database. Failures are reported; the next round tries again."""
        try:
            swept = self._retention.collect(self._resting())
            self._held.recount()
            if self._beyond_quota() > 0:
                self._urgently(self._beyond_quota)
            self._metrics.add("store_freed_bytes", by=swept.freed)
            self._metrics.set("disk_reserved_bytes", self.reserved)
            self._database.fold()
        except Exception as error:
            self._tell(error)
        else:
            self._problems.clear("keeper")

    def _tell(self, error: Exception) -> None:
        """Report that making room or collecting has failed."""
        self._problems.note("keeper", f"{type(error).__name__}: {error}")
        _log.warning("keeper.failed", error=type(error).__name__, reason=str(error))

    def close(self) -> None:
        """Wait for a collection that has begun."""
        for begun in (self._collecting, self._making):
            if begun is not None:
                begun.join(timeout=60)
