"""Computes the answers to data requests in a thread outside the daemon's loop, each piece of work once.

    unit         all that is asked under one checkpoint of our root, or of one step's logs
    checkpoint   the interval once, step by step; then its last step once, committed, from which every record and every
                 leaf that is asked for by then is taken
    logs         a step's logs are read and hashed once, each node's log once for all of its pages

One unit comes after the other, over all jobs, in the order of `answer_order`: the protocol gives a period for each
open checkpoint of a job (docs/protocol.md, section 8), and `admission` sees to it before a stake that the periods of
all jobs together are long enough. Answers can be sent while the next unit is computed. A match's moves come before the
next step (`turns`).

SAFETY: anybody may ask for 512 pieces under a root, so what is kept is bounded: the answers to what is open, and the
state before the last step of one checkpoint. With nothing open, nothing is kept.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog

from referee_py.availability import LeafShown, Piece, Place, Response
from referee_py.availability.solver import blocks_of, digests_of, leaves_of, record_of, step_of
from referee_py.availability.state import OUTPUTS, TensorShown
from referee_py.errors import AssayError
from referee_py.execute import NodeHook, Site, State, StepTrace, Value

from ..run.replay import Interrupted, Replay
from .answer_order import Order, Unit

RETRY_S = 5.0
"""Seconds until a unit that could not be computed is tried again. Meanwhile others are computed."""

_log = structlog.get_logger(__name__)

Key = tuple[bytes, Place]
"""A root, and a place under it."""


@dataclass
class _Job:
    replay: Replay
    wanted: Mapping[Key, int] = field(default_factory=dict)
    """The deadlines of what is open."""
    ready: dict[Key, Response] = field(default_factory=dict)


@dataclass(frozen=True)
class _Reached:
    """Progress of the last checkpoint's computation: the state before its last step, and the step's records."""

    replay: Replay
    step: int
    before: State
    trace: StepTrace | None = None


class Answers:
    """Answers by job. Works until ``stop`` is set. ``clock`` in seconds."""

    def __init__(self, stop: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._clock = stop, clock
        self._lock = threading.Lock()
        self._jobs: dict[int, _Job] = {}
        self._order = Order()
        self._failed: dict[Unit, float] = {}
        """End of a unit's rest."""
        self._reached: _Reached | None = None
        self._working = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")

    def ask(self, job_id: int, replay: Replay, wanted: Mapping[Key, int]) -> dict[Key, Response]:
        """Say what is wanted of a job now, with its deadlines, in place of what was; return what is ready of it."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.replay is not replay:
                job = self._jobs[job_id] = _Job(replay)
            job.wanted = dict(wanted)
            job.ready = {key: answer for key, answer in job.ready.items() if key in job.wanted}
            self._note(job_id)
            if not self._working and self._next() is not None:
                self._working = True
                self._thread.submit(self._work)
            return dict(job.ready)

    def forget(self, job_id: int) -> None:
        """Drop what is kept of a job. What is being computed ends with its step."""
        with self._lock:
            job = self._jobs.pop(job_id, None)
            if job is None:
                return
            self._note(job_id)
            self._failed = {unit: until for unit, until in self._failed.items() if unit[0] != job_id}
            if self._reached is not None and self._reached.replay is job.replay:
                self._reached = None

    @property
    def busy(self) -> bool:
        """True while something is being computed."""
        return self._working

    # ------------------------------------------------------------------ in the thread

    def _work(self) -> None:
        while True:
            with self._lock:
                unit = None if self._stop.is_set() else self._next()
                if unit is None:
                    self._working = False
                    return
                self._order.begun(unit, self._clock())
            try:
                self._compute(unit)
            except Interrupted:
                continue
            except Exception as error:
                # NOTE: also what is our own mistake must not end the answers to everything else.
                self._fail(unit, error)
            finally:
                with self._lock:
                    self._note(unit.job_id)
                    self._order.done(unit)

    def _next(self) -> Unit | None:
        """Return the unit that is next and does not rest. Called with the lock."""
        now = self._clock()
        waiting = (
            (until, unit)
            for job_id, job in self._jobs.items()
            for unit, until in _units(job_id, job).items()
            if self._failed.get(unit, now) <= now
        )
        return self._order.first(waiting, now)

    def _note(self, job_id: int) -> None:
        """Tell the order what waits of a job. Called with the lock."""
        job = self._jobs.get(job_id)
        self._order.asked(job_id, _units(job_id, job) if job is not None else (), self._clock())

    def _compute(self, unit: Unit) -> None:
        job_id, of_logs = unit[:2]
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            return
        for answers in (_logs if of_logs else self._checkpoint)(job.replay, unit, self._places):
            with self._lock:
                job.ready |= {(unit[2], place): answer for place, answer in answers.items()}
                self._failed.pop(unit, None)

    def _checkpoint(
        self, replay: Replay, unit: Unit, places_of: Callable[[Unit], Sequence[Place]]
    ) -> Iterator[dict[Place, Response]]:
        """Yield the answers about a checkpoint, all at once.

        NOTE: what is asked under it while the interval is computed is answered, too; what is asked later takes the last
        step once more, or nothing if records are enough.
        """
        step = step_of(replay.terms, Place(Piece.RECORD, unit[3], 0))
        reached = self._reached
        if reached is None or reached.replay is not replay or reached.step != step:
            self._reached = None  # its memory is free before the next is computed
            before = replay.approach(step, lambda: self._stop.is_set() or not places_of(unit))
            reached = _Reached(replay, step, before)
        places = places_of(unit)
        if not places:
            return
        leaves = Leaves(place for place in places if place.piece is Piece.LEAF)
        trace = reached.trace
        if trace is None or leaves.wanted:
            trace = replay.watch(reached.before, leaves)
        with self._lock:
            if unit[0] in self._jobs:
                self._reached = _Reached(replay, step, reached.before, trace)
        run, answers = replay.run_tree(0, 0, replay.terms.steps), dict[Place, Response]()
        for place in places:
            record = record_of(place, run, trace.tree, trace.records[place.node])
            leaf = place.piece is Piece.LEAF
            answers[place] = LeafShown(record, leaves.found.get(place, TensorShown())) if leaf else record
        yield answers

    def _places(self, unit: Unit) -> list[Place]:
        """Return what is open of a unit and not ready, in its order."""
        with self._lock:
            job = self._jobs.get(unit[0])
            if job is None:
                return []
            keys = (key for key in job.wanted if key not in job.ready and _unit(unit[0], key) == unit)
            return [place for _, place in sorted(keys, key=lambda key: (job.wanted[key], key[1]))]

    def _fail(self, unit: Unit, error: Exception) -> None:
        """Leave a unit to rest. NOTE: the other pieces are shown even if one is lost."""
        places = self._places(unit)
        told = {"job": unit[0], "places": len(places), "place": str(places[0]) if places else None}
        ours = not isinstance(error, AssayError)
        _log.error(
            "data_request.failed",
            **told,
            error=type(error).__name__,
            reason=str(error),
            exc_info=error if ours else None,
        )
        with self._lock:
            if unit[0] in self._jobs:
                self._failed[unit] = self._clock() + RETRY_S


def _unit(job_id: int, key: Key) -> Unit:
    root, place = key
    return Unit(job_id, place.piece.of_logs, root, place.tree)


def _units(job_id: int, job: _Job) -> dict[Unit, int]:
    """Return what waits of a job, with the earliest deadline of each unit."""
    units: dict[Unit, int] = {}
    for key, until in job.wanted.items():
        if key not in job.ready:
            unit = _unit(job_id, key)
            units[unit] = min(until, units.get(unit, until))
    return units


def _logs(
    replay: Replay, unit: Unit, places_of: Callable[[Unit], Sequence[Place]]
) -> Iterator[dict[Place, Response]]:
    """Yield the answers about a step's logs, node by node."""
    run, step, log = replay.step_log(unit[3])
    places = sorted(places_of(unit), key=lambda place: (place.piece, place.node, place.part))
    for (piece, node), group in itertools.groupby(places, key=lambda place: (place.piece, place.node)):
        asked = list(group)
        if piece is Piece.DIGESTS:
            yield {place: digests_of(place, run, step) for place in asked}
            continue
        found = log.nodes.get(node)
        yield dict(zip(asked, blocks_of(asked, run, step, found.read() if found else None), strict=True))


class Leaves(NodeHook):
    """Takes leaves of the tensors of a step as they come by, so that no tensor is kept. Each is hashed once."""

    def __init__(self, places: Collection[Place] | Iterator[Place]) -> None:
        self.found: dict[Place, TensorShown] = {}
        self.wanted: dict[tuple[int, int], list[Place]] = {}
        for place in places:
            self.wanted.setdefault((place.node, place.tensor), []).append(place)

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        self._take(at.node, 0, inputs)
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        self._take(at.node, OUTPUTS, outputs)
        return outputs

    def _take(self, node: int, first: int, values: Sequence[Value]) -> None:
        for number, value in enumerate(values, first):
            places = self.wanted.get((node, number))
            if places:
                shown = leaves_of(value.array, [place.part for place in places])
                self.found.update(zip(places, shown, strict=True))
