"""Whole runs: a few are in progress at the same time, one computes, and each step goes to the one that is due.

    line      waits for a place; what was begun of it is on disk
    place     is in progress: the run has its tensors in memory, and shares the processors (`processors`) at each step
    left      gave its place to another that has had less time, and continues later from the state that it has kept

A step that lasts lets others go first in its midst, too. One that must leave, or stop, ends with its step: or in
its midst if it lasts far longer than is usual, and then continues from its last checkpoint.

INVARIANT: a stranger's run takes from another no more time than the other takes itself, for what both are worth
(`processors.Share`), and some seconds: so a run of milliseconds is done though one of hours has begun. Only for a place
it waits longer, where each has a run with a step that lasts (`Runs.place_s` says how long). SAFETY: a run on
which our stake rests waits for no place, and goes before all others: their number is bounded by what we have paid.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ..chain.threads import Threads
from ..limits.waits import TURN_S
from ..run.replay import Interrupted
from ..run.step_times import StepTimes
from .breaks import Breaks
from .processors import Held, Processors, Share

PLACES = 4
"""Strangers' runs in progress at the same time: as many states are in memory."""
SLICE_S = TURN_S
"""Seconds of the processors that a run has had more than another before it leaves its place to that one; and that it
has had in its place before it leaves for one that needs its memory. NOTE: it writes its state, and reads it again."""

LONG_STEP = 4.0
"""Times as long as is usual for the run: a step that lasts so long is ended where the run must leave."""

T = TypeVar("T")
Act = Callable[[Callable[[], bool]], T]
"""Computes; what it is given must be called after each step, and returns whether to raise Interrupted."""


@dataclass(eq=False)
class _Run:
    share: Share
    act: Act[Any]
    size_s: float
    times: StepTimes
    usual_s: float
    future: Future[Any] = field(default_factory=Future)
    had_s: float = 0.0
    """Time that it had had when it got its place."""
    step_from_s: float = 0.0
    """Time that it had had when its step began."""
    least_s: float = SLICE_S
    """Seconds in which no step of it is ended."""
    over: bool = False
    """True if nobody wants it any more."""

    @property
    def rank(self) -> tuple[float, float, int, float]:
        """NOTE: of those that have had the same, the one that is over first."""
        return *self.share.rank, self.size_s


class Runs:
    """Safe for several threads. ``memory_wanted`` returns whether another waits for memory that runs could give back.
    ``clock``: seconds."""

    def __init__(
        self, memory_wanted: Callable[[], bool] = bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._memory_wanted = memory_wanted
        self._clock = clock
        self._processors = Processors(clock)
        self._all = [self._processors]
        self._threads = Threads("run")
        self._ended = threading.Condition()
        self._line: list[_Run] = []
        self._placed: list[_Run] = []
        self._numbers = itertools.count()

    def submit(
        self,
        share: Share,
        act: Act[T],
        size_s: float = 0.0,
        times: StepTimes | None = None,
        usual_s: float = 0.0,
    ) -> Future[T]:
        """Begin a run, or queue it; ``size_s``: the seconds that it takes, as far as is known, and ``usual_s`` those of
        its longest step. ``times`` measures its steps, whose ends ``act`` notes."""
        run = _Run(share, act, size_s, times or StepTimes(), usual_s)
        with self._ended:
            share.came = next(self._numbers)
            self._line.append(run)
        self.look()
        return run.future

    @property
    def wanted(self) -> bool:
        """True if a run waits for the processors, or for a place."""
        return self._processors.wanted or bool(self._line)

    @property
    def place_s(self) -> float:
        """Seconds until a new run has a place, at most."""
        with self._ended:
            # NOTE: one that has a step that lasts leaves only once it has had its time for that, so others leave first.
            return (
                0.0 if self._free else PLACES * min(max(run.least_s, run.usual_s) for run in self._strangers)
            )

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Let all runs rest meanwhile, and what is computed `beside` them: a dispute has the processors."""
        with contextlib.ExitStack() as rest:
            for one in self._all:
                rest.enter_context(one.first())
            yield

    def beside(self) -> Processors:
        """Return processors for what is computed beside runs, and rests with them."""
        made = Processors(self._clock)
        self._all.append(made)
        return made

    def look(self) -> None:
        """Give free places to those that are due; where there is none, the run that has had most time is to leave."""
        with self._ended:
            self._line = [run for run in self._line if not run.future.cancelled()]
            while (first := min(self._line, key=lambda run: run.rank, default=None)) is not None:
                if not (first.share.ours or self._free):
                    break
                self._line.remove(first)
                # NOTE: one that has left its place is running still, for those who wait for its result.
                if first.future.running() or first.future.set_running_or_notify_cancel():
                    first.had_s = first.share.had_s
                    self._placed.append(first)
                    self._threads.begin(partial(self._work, first))
            self._make_way(first)

    def drop(self, share: Share) -> None:
        """Stop what nobody wants any more, after its step. It raises Interrupted."""
        with self._ended:
            self._stop([run for run in (*self._line, *self._placed) if run.share is share])

    def close(self) -> None:
        """Stop all after their steps, and wait for that. Nothing may be submitted any more."""
        with self._ended:
            self._stop([*self._line, *self._placed])
            self._ended.wait_for(lambda: not self._placed)

    # ------------------------------------------------------------------ inside

    @property
    def _strangers(self) -> list[_Run]:
        return [run for run in self._placed if not run.share.ours]

    @property
    def _free(self) -> bool:
        return len(self._strangers) < PLACES

    def _make_way(self, first: _Run | None) -> None:
        """Let a stranger's run leave for the first in the line, or for one that waits for memory."""
        strangers = self._strangers
        # SAFETY: one step that lasts must not keep a place from the line as long as another run can leave.
        soonest_s = min((run.least_s for run in strangers if run.share.leaves), default=math.inf)
        able = [run for run in strangers if not run.share.leaves and run.least_s < soonest_s]
        if first is not None:
            fair = [run for run in able if _has_had_its_time(run.share, first.share)]
            if fair:
                self._processors.leave(min(fair, key=lambda run: (run.least_s, *_last(run))).share)
                return
        if not able or soonest_s < math.inf:
            return
        # NOTE: not the same again and again, if its memory is not what is waited for.
        longest = max(able, key=lambda run: run.share.had_s - run.had_s)
        if longest.share.had_s - longest.had_s > SLICE_S and self._memory_wanted():
            self._processors.leave(longest.share)

    def _stop(self, runs: list[_Run]) -> None:
        for run in runs:
            run.over = True
            if run in self._placed:
                self._processors.leave(run.share)
            else:
                self._line.remove(run)
                if run.future.cancel():
                    run.future.set_running_or_notify_cancel()
                else:
                    run.future.set_exception(Interrupted("it is no longer wanted"))

    def _in_step(self, run: _Run, held: Held) -> None:
        """Let others go first in the midst of a step. SAFETY: somebody's data say what a step takes, so one that lasts
        is ended where the run must leave or stop."""
        self.look()
        # NOTE: what it has computed since its last checkpoint is lost, so a step of the usual length is not ended.
        limit_s = max(SLICE_S if run.over else run.least_s, LONG_STEP * max(run.usual_s, run.times.mean_s))
        had_s = run.share.had_s - run.step_from_s
        if held.in_step() and had_s > limit_s:
            # SAFETY: the next attempt may take twice as long. Otherwise, where more runs than places have a step that
            # lasts, each would end all others' for ever, and none be done.
            run.least_s = 2 * had_s
            raise Interrupted(f"it has had {limit_s:g} s in one step")

    def _work(self, run: _Run) -> None:
        """Compute until the run is done, or leaves its place."""
        share, result = run.share, None
        error: BaseException | None = None
        try:
            with self._processors.share(share) as held:
                run.step_from_s = share.had_s
                breaks = Breaks(run.times, partial(self._in_step, run, held))

                def after_step() -> bool:
                    with breaks.rest():
                        self.look()
                        leaves = held()
                    run.step_from_s = share.had_s
                    return leaves

                if share.leaves:
                    raise Interrupted("it leaves before its first step")
                with breaks.taken():
                    result = run.act(after_step)
        except BaseException as caught:
            error = caught
        with self._ended:
            again = isinstance(error, Interrupted) and share.leaves and not run.over
            share.leaves = False
            self._placed.remove(run)
            if again:
                self._line.append(run)
        if error is None:
            run.future.set_result(result)
        elif not again:
            run.future.set_exception(error)
        del error, result  # a thread that waits for its next run holds nothing
        with self._ended:
            self._ended.notify_all()
        self.look()


def _has_had_its_time(placed: Share, waiting: Share) -> bool:
    """Return whether a run has had some seconds more than one that waits for a place, for what both are worth."""
    return placed.had_s > placed.taken_s(waiting, waiting.had_s) + SLICE_S


def _last(run: _Run) -> tuple[float, float, int]:
    """Return a key by which the run that is due last comes first."""
    first, had_s, came = run.share.rank
    return -first, -had_s, -came
