"""Room for a job that is considered and does not fit: states of runs in which nothing of ours is at stake.

    first    what jobs hold in which we could not stake, however cheap gas is, all of it: nobody will ask us for it
    then     states, and what proves them, of runs from which nothing differs that is claimed; the oldest first
    last     the same of runs from which something differs; the oldest first
    never    what a lie rests on that we may refute: it is the claimant's, who need not serve it a second time; packages
             and rounding logs, from which states are computed again before a stake (`mending`); and roots

On a full disk, and for what has our stake, packages go, too; but not of runs from which something differs: whoever
serves a package need not serve it until our claim of the right root is due. Of these only states go (`yields`).

SAFETY: anybody can post a job that is considered. So nothing goes for one in which we could not stake, nothing unless
the job fits then, and nothing that would itself stay longer than what the job brings: one that is new has nothing that
differs. Where all of it is not enough, that is counted once, and no file is looked at again until something changes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from enum import IntEnum

import structlog

from referee_py.commit import Tag

from .artifacts import Kind, Name
from .disk import on_disk
from .held_bytes import HeldBytes
from .job_holds import DRAWN
from .letting_go import LettingGo
from .retention import URGENT_GRACE_S, Retention
from .store import Store
from .store_files import path_of

_STATES = (
    *(f"{kind}/" for kind in (Kind.TENSOR, Kind.RECORD)),
    *(f"{Kind.TREE}/{tag:02x}/" for tag in (Tag.STEP_TREE, Tag.RUN_TREE)),
)
"""Beginnings of the paths of states, and of what proves them."""

_log = structlog.get_logger(__name__)


class Found(IntEnum):
    """Findings about a job."""

    NOTHING = 0
    """Nothing that is claimed differs from our result, as far as we know."""
    DIFFERS = 1
    """Something differs from our whole run, which can be computed again."""
    LIE = 2
    """An interval of a claimed run is wrong, and may still be refuted."""


_Order = tuple[int, float]
"""Place in the order of going: what is lower goes first. The second number is when its job began to hold something."""


@dataclass(frozen=True, slots=True)
class Given:
    """States that have gone: bytes, and the jobs whose they were; ``states``: those that can be computed again."""

    freed: int = 0
    jobs: tuple[int, ...] = ()
    states: tuple[int, ...] = ()


class RestingStates:
    """Chooses and removes in a store. Told by the loop, and asked by one thread at a time; ``clock`` gives seconds
    since 1970."""

    def __init__(self, store: Store, retention: Retention, *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._retention, self._clock = store, retention, clock
        # NOTE: not the counts that the loop asks: it would wait while the files of a job are looked at.
        self._held = HeldBytes(store)
        self._lock = threading.Lock()
        self._stakes: dict[int, bool] = {}
        self._found: dict[int, Found] = {}
        self._wrong: dict[Found, set[int]] = {Found.DIFFERS: set(), Found.LIE: set()}
        self._packages: dict[int, frozenset[str]] = {}
        self._vain: tuple[tuple[tuple[int, int], ...], int, float] | None = None
        """The last look at files that did not find enough: what the jobs that might give something held then, what they
        could have given, and when that was. What was used just then is not counted."""

    # ------------------------------------------------------------------ what is known

    def considers(self, job: int, *, stakes: bool) -> None:
        """Note whether a stake of ours in a job is possible."""
        with self._lock:
            self._stakes[job] = stakes

    def finds(self, job: int, found: Found) -> None:
        """Note what is found out about a job."""
        with self._lock:
            self._found[job] = found
            for kind, jobs in self._wrong.items():
                (jobs.add if found is kind else jobs.discard)(job)

    def package(self, job: int, names: Iterable[Name]) -> None:
        """Note what a job's package consists of, which stays."""
        root = self._store.root
        paths = frozenset(str(path_of(root, name).relative_to(root)) for name in names)
        with self._lock:
            self._packages[job] = paths

    def forget(self, job: int) -> None:
        """Free the memory that a job takes."""
        with self._lock:
            for known in (self._stakes, self._found, self._packages):
                known.pop(job, None)
            for jobs in self._wrong.values():
                jobs.discard(job)
        self._held.forget(job)

    def lies(self) -> frozenset[int]:
        """Return the jobs with a lie that we may still refute. SAFETY: whether a stake is possible is said by one look;
        that no lie may be refuted any more, only by one that others confirm."""
        with self._lock:
            return frozenset(self._wrong[Found.LIE])

    def differing(self) -> frozenset[int]:
        """Return the jobs in which something differs from our run. SAFETY: as with lies."""
        with self._lock:
            return frozenset(self._wrong[Found.DIFFERS])

    def wrong(self) -> frozenset[int]:
        """Return the jobs in which something is wrong: an interval, or what differs from our run."""
        return self.lies() | self.differing()

    def may_ask(self, job: int) -> bool:
        """Return whether anything goes for a job."""
        with self._lock:
            return self._stakes.get(job, False)

    # ------------------------------------------------------------------ what goes

    def give(self, job: int | None, wanted: int, resting: Container[int]) -> Given:
        """Remove so many bytes for a job that is considered, or nothing; for None as `yields`. ``resting``: the jobs in
        which we have nothing at stake, and on which we do not work. Raises DiskFailed."""
        if job is None:
            return self.yields(wanted, resting)
        return self._give(self._open() - {job}, resting, wanted, self._before(job))

    def could(self, job: int | None, wanted: int, resting: Container[int]) -> bool:
        """Return whether `give` would remove anything."""
        if job is None:
            return bool(self._chosen(self.differing() & self._open(), resting, wanted, lambda _: True))
        return bool(self._chosen(self._open() - {job}, resting, wanted, self._before(job)))

    def drawn(self, job: int) -> int:
        """Return the bytes of what was drawn in a job, and rests on nothing."""
        holders, before = self._store.holders, self._clock() - URGENT_GRACE_S
        held = Counter[str]()
        for number in holders.jobs():
            held.update(path for _, path in holders.held(number))
        drawn = {
            path for stage, path in holders.held(job) if stage == DRAWN and (job, path) not in holders.in_use
        }
        return sum(self._size(path, before) for path in drawn if held[path] == 1)

    def give_drawn(self, job: int) -> Given:
        """Remove what was drawn in a job: a stake is due in it. NOTE: what is still to be checked is fetched again."""
        before = self._clock() - URGENT_GRACE_S
        told = self._retention.drop_states
        used, root = self._store.holders.in_use, self._store.root
        with LettingGo(self._store, told, unless_used_since=before) as letting, self._store.holders.lock:
            # NOTE: one that is not here yet is being received, and would come without its line.
            letting.go(
                job, lambda stage, path: stage == DRAWN and (job, path) not in used and (root / path).exists()
            )
        return Given(letting.freed)

    def _before(self, job: int) -> Callable[[_Order], bool]:
        """Return what says whether something goes before a job's own."""
        with self._lock:
            limit = int(self._found.get(job, Found.NOTHING)), self._store.holders.began(job)
        return lambda order: order < limit

    def yields(self, wanted: int, resting: Container[int]) -> Given:
        """Remove so many bytes of states of runs from which something differs, the oldest first, or nothing.
        ``resting``: as in `give`. Raises DiskFailed."""
        return self._give(self.differing() & self._open(), resting, wanted, lambda _: True)

    def _give(
        self,
        jobs: Collection[int],
        resting: Container[int],
        wanted: int,
        goes: Callable[[_Order], bool],
    ) -> Given:
        chosen = self._chosen(jobs, resting, wanted, goes)
        return self._remove(chosen, resting) if chosen else Given()

    def _chosen(
        self,
        jobs: Collection[int],
        resting: Container[int],
        wanted: int,
        goes: Callable[[_Order], bool],
    ) -> dict[int, _Order]:
        """Return the jobs whose files go for so many bytes; none, where all of them are not enough."""
        orders = dict[int, _Order]()
        for number in jobs:
            order = self._order(number) if number in resting else None
            if order is not None and goes(order):
                orders[number] = order
        if not self._may_suffice(orders, wanted):
            return {}
        chosen, could = self._choose(sorted(orders, key=orders.__getitem__), wanted)
        if could < wanted:
            self._vain = self._shape(orders), could, self._clock()
            return {}
        return {number: orders[number] for number in chosen}

    def _open(self) -> set[int]:
        return {job for job, over in self._store.holders.jobs().items() if over is None}

    def _order(self, job: int) -> _Order | None:
        """Return when what a job holds goes; None for never."""
        with self._lock:
            stakes, found = self._stakes.get(job), self._found.get(job, Found.NOTHING)
            known = job in self._packages
        began = self._store.holders.began(job)
        if found is Found.LIE:
            return None
        if stakes is False and found is Found.NOTHING:
            return -1, began
        return (int(found), began) if known else None

    def _shape(self, jobs: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple((job, self._held.of(job)) for job in sorted(jobs))

    def _may_suffice(self, jobs: Iterable[int], wanted: int) -> bool:
        """Return whether it is worth while to look at the files of jobs."""
        shape = self._shape(jobs)
        if self._vain is not None and self._vain[0] == shape:
            _, could, instant = self._vain
            return wanted <= could or self._clock() - instant >= URGENT_GRACE_S
        return wanted <= sum(size for _, size in shape)

    def _choose(self, jobs: list[int], wanted: int) -> tuple[list[int], int]:
        """Return the jobs whose files go, and the bytes of these: as many jobs, in this order, as it takes."""
        holders, before = self._store.holders, self._clock() - URGENT_GRACE_S
        held = Counter[str]()
        for number in holders.jobs():
            held.update({path for _, path in holders.held(number)})
        chosen, size = list[int](), 0
        for number in jobs:
            if size >= wanted:
                break
            chosen.append(number)
            goes = self._goes(number)
            for path in {path for stage, path in holders.held(number) if goes(stage, path)}:
                held[path] -= 1
                if not held[path]:
                    size += self._size(path, before)
        return chosen, size

    def _goes(self, job: int) -> Callable[[str, str], bool]:
        """Return what says of a stage and a path whether a job lets go of it."""
        with self._lock:
            nothing = self._found.get(job, Found.NOTHING) is Found.NOTHING
            everything = nothing and self._stakes.get(job) is False
            package = self._packages.get(job, frozenset())
        return lambda _, path: everything or (path.startswith(_STATES) and path not in package)

    def _size(self, path: str, before: float) -> int:
        with contextlib.suppress(OSError):
            found = (self._store.root / path).stat()
            # NOTE: what was used just now may be on its way to a job.
            return on_disk(found.st_size) if found.st_mtime < before else 0
        return 0

    def _remove(self, chosen: dict[int, _Order], resting: Container[int]) -> Given:
        """Remove what the chosen jobs let go of; nothing, if what is known of one of them has changed since."""
        holders, before = self._store.holders, self._clock() - URGENT_GRACE_S
        told = self._retention.drop_states
        with LettingGo(self._store, told, unless_used_since=before) as letting, holders.lock:
            still = self._open()
            if all(n in still and n in resting and self._order(n) == order for n, order in chosen.items()):
                for number in chosen:
                    letting.go(number, self._goes(number))
        with self._lock:
            differ = self._wrong[Found.DIFFERS]
            states = tuple(job for job in letting.jobs if job in differ or self._stakes.get(job) is not False)
        _log.info("store.gave_states", jobs=sorted(letting.jobs), bytes=letting.freed)
        return Given(letting.freed, tuple(sorted(letting.jobs)), states)
