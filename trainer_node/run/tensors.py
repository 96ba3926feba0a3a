"""The memory in which a node computes: one limit for all jobs together, and each tensor in it once.

    of       what a job takes, known from its program before any tensor is fetched
    lent     while a job is measured, or computed: a tensor that another job has, too, is shared
    meant    for a while, what a stake is about to be sent on, each run by its name
    kept     what we have staked on: it can be played without the disk
    idle     a finished run, or a wrong interval, on which nothing rests: it gives way to others, and comes back from
             the disk, or is computed again

What does not fit with what is kept is left to others; what does not fit now waits. SAFETY: jobs are cheap to post, so
a limit per job limits nothing. INVARIANT: nothing is overtaken for ever. A run that waits is passed only by what
fits alongside it, or takes no longer than what it waits for has taken until then; and so is a measurement by a run.
Measurements do not wait for each other: they are short, and one at a time. So the wait is at most twice as long
as if nobody passed; and a short work is not kept from memory that lies idle by one that waits for long.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from referee_py.commit.tensor import Array

from ..errors import MemoryShort
from ..reason import Reason
from ..storage.store import Store

ASKED_S = 600.0
"""Seconds after which a job that waits and has not asked again loses its place: nobody wants it any more."""
MEANT_S = 600.0
"""Seconds for which room is kept for a job on which we are about to stake, until the chain shows the stake."""


@dataclass(frozen=True, slots=True)
class Takes:
    """Memory that a job takes: its ``tensors``, bytes by hash; ``step``, further bytes while it computes; and
    ``state``, bytes that each run of it has besides the first."""

    tensors: Mapping[bytes, int] = field(default_factory=dict)
    step: int = 0
    state: int = 0

    def beside(self, runs: int) -> int:
        """Return the bytes of so many runs besides the tensors."""
        return runs * self.step + max(0, runs - 1) * self.state

    @property
    def alone(self) -> int:
        """Bytes of one run."""
        return sum(self.tensors.values()) + self.step


class MemoryKept(Reason):
    text = (
        "it takes {alone} bytes of memory, and {kept} are kept for jobs in which we have a stake; limits.memory_bytes "
        "is {limit}, for all jobs together: raise it, or leave the job to others"
    )
    alone: int
    kept: int
    limit: int


@dataclass(eq=False, slots=True)
class _Loan:
    key: tuple[int, bool]
    began: float
    passed: frozenset[tuple[int, bool]]
    """Those that waited then, and had come before."""


WHOLE = None
"""The whole run of a job, beside which its intervals may be idle, each under a name of its own."""

_NOTHING = Takes()
_Runs = Counter[tuple[int, bool]]
"""Numbers of runs, by job and whether they are in addition to those that are kept for it."""


class Tensors:
    """At most ``limit`` bytes. Safe for several threads. ``clock``: seconds."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit, self._clock = limit, clock
        self._lock = threading.Lock()
        self._shared = WeakValueDictionary[bytes, Array]()
        self._takes: dict[int, Takes] = {}
        self._lent = _Runs()
        self._loans: list[_Loan] = []
        """Memory that is lent, one by one."""
        self._kept = Counter[int]()
        self._meant: dict[tuple[int, Hashable], float] = {}
        """Runs by job and name, and the instants from which their room is kept."""
        self._away = set[tuple[int, Hashable]]()
        """Those of them that were not in memory when room was last kept for them."""
        self._idle: dict[tuple[int, Hashable], Callable[[], object]] = {}
        self._waiting: dict[tuple[int, bool], float] = {}
        """Times of the last requests of those that wait, in order of arrival; by job and whether it is measured."""

    # ------------------------------------------------------------------ what jobs take

    def of(self, job: int, takes: Takes) -> None:
        """Note what a job takes."""
        with self._lock:
            self._takes[job] = takes

    def forget(self, job: int) -> None:
        """Nothing of a job is needed any more. What is lent is given back by whoever has it."""
        with self._lock:
            self._meant = {key: at for key, at in self._meant.items() if key[0] != job}
            self._idle = {key: give for key, give in self._idle.items() if key[0] != job}
            self._leave_line(job)
            self._kept.pop(job, None)
            if not self._lent[job, False] and not self._lent[job, True]:
                self._takes.pop(job, None)

    @property
    def used(self) -> int:
        """Bytes that are accounted for now."""
        with self._lock:
            return self._size(self._runs())

    # ------------------------------------------------------------------ room

    @contextlib.contextmanager
    def lent(
        self,
        job: int,
        *,
        beside: bool = False,
        dry_run: bool = False,
        waits: bool = True,
        must: bool = False,
        lasts_s: float = math.inf,
    ) -> Iterator[None]:
        """Have the memory for a run of a job, which may be kept for it already; ``beside``: for one more than those.
        ``dry_run``: it is only measured; ``waits``: it has a place in the line if there is no room; ``must``: have it
        in any case, because what we have staked on waits for nobody; ``lasts_s``: the seconds that it takes, as far as
        is known.

        Raises MemoryShort: the job is then left to others, or keeps its place in the line.
        """
        key = job, beside
        with self._lock:
            short = None if must else self._refuses(key, dry_run=dry_run, waits=waits, lasts_s=lasts_s)
            if short is not None:
                raise short
            before = itertools.takewhile(lambda other: other != (job, dry_run), self._waiting)
            loan = _Loan(key, self._clock(), frozenset(before))
            self._waiting.pop((job, dry_run), None)
            self._lent[key] += 1
            self._loans.append(loan)
        try:
            yield
        finally:
            with self._lock:
                self._lent[key] -= 1
                self._loans.remove(loan)

    def waited_for(self, jobs: Iterable[int]) -> bool:
        """Return whether the first one in the line has its memory as soon as runs of these jobs give back theirs."""
        with self._lock:
            self._forget_waiting()
            given = {(job, False) for job in jobs}
            # NOTE: idle runs give way to it in any case, and what is kept is not given back.
            lent = [loan for loan in self._loans if loan.key not in given]
            first = next(iter(self._waiting), None)
            return first is not None and len(lent) < len(self._loans) and self._fits_with(first, lent)

    def keep(self, job: int, runs: int = 1, of: Collection[Hashable] = (WHOLE,)) -> None:
        """Keep the memory for so many runs of a job, those ``of`` it that we have staked on, until it is forgotten or
        let go."""
        with self._lock:
            self._kept[job] = max(runs, self._kept[job])
            for one in of:
                self._meant.pop((job, one), None)
                self._idle.pop((job, one), None)
            self._leave_line(job)

    def let_go(self, job: int) -> None:
        """We have nothing at stake in a job any more."""
        with self._lock:
            self._kept.pop(job, None)

    def idle(self, job: int, give: Callable[[], object], of: Hashable = WHOLE) -> None:
        """Note that a job has a finished run in memory, or an interval ``of`` it, which ``give`` drops. It is called
        with no lock of its own, in any thread."""
        with self._lock:
            if of is not WHOLE or job not in self._kept:
                self._idle[job, of] = give

    def gone(self, job: int) -> None:
        """The whole run of a job is no longer idle in memory."""
        with self._lock:
            self._idle.pop((job, WHOLE), None)

    def too_full(
        self, job: int, more: int = 1, *, part: bool = False, of: Collection[Hashable] = ()
    ) -> MemoryKept | None:
        """Return why not to stake on so many more runs of a job, or None: they do not fit in memory beside what is
        kept. ``part``: each of them is an interval, by their names those ``of``; else one of them is the whole run.

        SAFETY: beside what is meant of the same job, too. A claim and a refutation may be due in the same look. And
        what is in memory does not wait for what others would have to serve first: lies whose servers stall could take
        the room for stakes by turns.
        """
        with self._lock:
            if not more:
                return None
            names = of if part else (WHOLE,)
            here = bool(names) and all((job, name) in self._idle for name in names)
            meant = {name for one, name in self._meant.keys() - (self._away if here else ()) if one == job}
            meant = {name for name in meant if self._is_meant(job, name)}
            parts = max(more - (not part), len(meant - {WHOLE}))
            runs = self._kept[job] + parts + (not part or WHOLE in meant)
            return self._too_full((job, False), runs, here=here)

    def kept(self, job: int) -> int:
        """Return how many runs of a job are kept."""
        with self._lock:
            return self._kept[job]

    def mean(
        self, job: int, of: Collection[Hashable] = (WHOLE,), *, here: Container[Hashable] | None = None
    ) -> None:
        """Keep room for those runs ``of`` a job on which a stake is about to be sent, beside those that are meant
        already, until the chain shows it; ``here``: those that are in memory, by default all.

        SAFETY: only for that. Room that is kept for whoever is merely asked about could be taken up by posting jobs;
        so can what is kept for an interval that is to be found again, and that nobody serves. It is kept for a while,
        and again after as long.
        """
        with self._lock:
            now = self._clock()
            for key in ((job, one) for one in of):
                away = here is not None and key[1] not in here
                (self._away.add if away else self._away.discard)(key)
                before = self._meant.get(key, -math.inf) if away else -math.inf
                self._meant[key] = before if now - before < 2 * MEANT_S else now

    def means(self, job: int, of: Hashable) -> bool:
        """Return whether room is kept for a run of a job on which a stake is about to be sent."""
        with self._lock:
            return self._is_meant(job, of)

    # ------------------------------------------------------------------ tensors

    def read(self, store: Store, hashes: Iterable[bytes]) -> list[Array]:
        """Return tensors, from the disk those that no job has in memory. Raises as `Store.get_tensor`.

        INVARIANT: nobody writes into them; a run writes only into states that it has computed itself.
        """
        found = list[Array]()
        for name in hashes:
            array = self._shared.get(name)
            if array is None:
                array = store.get_tensor(name)
                with self._lock:
                    array = self._shared.setdefault(name, array)
            found.append(array)
        return found

    # ------------------------------------------------------------------ inside

    def _leave_line(self, job: int) -> None:
        for dry_run in (False, True):
            self._waiting.pop((job, dry_run), None)

    def _refuses(
        self, key: tuple[int, bool], *, dry_run: bool, waits: bool, lasts_s: float
    ) -> MemoryShort | None:
        """Return why a job cannot have its memory now. Drops idle runs to make room."""
        job, _ = key
        if (reason := self._too_full(key)) is not None:
            self._waiting.pop((job, dry_run), None)
            return MemoryShort(str(reason), waits=False)
        now = self._clock()
        self._forget_waiting()
        first, more = self._first(job, dry_run=dry_run), _Runs([key])
        passes = first is None or self._fits_beside(first, more) or lasts_s <= self._waits_s(first)
        while not passes or self._size(self._runs(more)) > self.limit:
            idle = next((other for other in self._idle if self._gives_way(other, job)), None)
            if idle is None or not passes:
                if waits:
                    self._waiting[job, dry_run] = now
                return MemoryShort(
                    f"it takes {self._taken(job).alone} bytes of memory, and {self._size(self._runs())} are in use"
                    f"{'' if passes else ', and others came before it'}; limits.memory_bytes is {self.limit}, for all "
                    "jobs together: it waits for its turn; raise the limit if there is more memory",
                    waits=True,
                )
            self._idle.pop(idle)()
        return None

    def _gives_way(self, idle: tuple[int, Hashable], job: int) -> bool:
        """Return whether what is idle gives way to a run of a job. NOTE: that may be the idle run itself; and to drop
        what is meant would give nothing."""
        return idle != (job, WHOLE) and not self._is_meant(*idle)

    def _is_meant(self, job: int, of: Hashable) -> bool:
        return self._clock() - self._meant.get((job, of), -math.inf) < MEANT_S

    def _forget_waiting(self) -> None:
        now = self._clock()
        self._waiting = {key: asked for key, asked in self._waiting.items() if now - asked < ASKED_S}

    def _first(self, job: int, *, dry_run: bool) -> tuple[int, bool] | None:
        """Return the one that a job may not keep waiting: it came before, and waits longest."""
        for other, measured in self._waiting:
            if (other, measured) == (job, dry_run):
                return None
            # NOTE: one that no longer fits alongside what is kept is left to others when it asks again.
            if other != job and not (dry_run and measured) and self._too_full((other, False)) is None:
                return other, measured
        return None

    def _fits_beside(self, first: tuple[int, bool], more: _Runs) -> bool:
        """Return whether what has passed the first one in the line, with some more, leaves it what it takes."""
        passing = _Runs(loan.key for loan in self._loans if first in loan.passed)
        return self._size(self._staked() | (passing + more + _Runs([(first[0], False)]))) <= self.limit

    def _waits_s(self, first: tuple[int, bool]) -> float:
        """Return the age, in seconds, of the work that the first one in the line waits for.

        NOTE: nobody knows how long it lasts, but as long again is the least that may be expected. So what is over by
        then may pass: it makes the wait twice as long, at most, since what has passed itself lets nobody pass.
        """
        before = [loan for loan in self._loans if first not in loan.passed]
        while before and not self._fits_with(first, before):
            last = before.pop()  # those that began last are expected to end first
            if self._fits_with(first, before):
                return self._clock() - last.began
        return -math.inf

    def _fits_with(self, first: tuple[int, bool], loans: list[_Loan]) -> bool:
        lent = _Runs(loan.key for loan in loans) + _Runs([(first[0], False)])
        return self._size(self._staked() | lent) <= self.limit

    def _too_full(self, key: tuple[int, bool], runs: int = 1, *, here: bool = False) -> MemoryKept | None:
        staked, alone = self._staked(away=not here), self._taken(key[0]).alone
        if self._size(staked | _Runs({key: runs})) <= self.limit:
            return None
        return MemoryKept(alone, self._size(staked), self.limit)

    def _runs(self, more: _Runs | None = None) -> _Runs:
        """Return how many runs of each job have memory, or are sure to have it, with some more."""
        # NOTE: what is lent of a job that is kept is the run that is kept for, if it is not beside that.
        idle = _Runs((job, of is not WHOLE) for job, of in list(self._idle) if not self._is_meant(job, of))
        return (self._lent + idle + (more or _Runs())) | self._staked()

    def _staked(self, *, away: bool = True) -> _Runs:
        """Return the runs whose memory is not to be had for others. ``away``: also those meant that are not here."""
        now = self._clock()
        self._meant = {key: at for key, at in self._meant.items() if now - at < 2 * MEANT_S}
        self._away &= self._meant.keys()
        kept = self._meant.keys() if away else self._meant.keys() - self._away
        meant = _Runs((job, False) for job, of in kept if self._is_meant(job, of))
        return _Runs({(job, False): runs for job, runs in self._kept.items()}) + meant

    def _size(self, runs: _Runs) -> int:
        tensors, beside, jobs = dict[bytes, int](), 0, Counter[int]()
        for (job, _), count in runs.items():
            jobs[job] += count
        for job, count in jobs.items():
            takes = self._taken(job)
            if count:
                tensors |= takes.tensors
            beside += takes.beside(count)
        return sum(tensors.values()) + beside

    def _taken(self, job: int) -> Takes:
        return self._takes.get(job, _NOTHING)
