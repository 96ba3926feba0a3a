"""Seconds that the steps of a computation really take: plain ones, and those that are committed.

SAFETY: the client orders the data, so later steps may be far slower than the measured one. What a busy machine kept
from this computation does not count, or it would leave a lie unrefuted: of the clock and the time that its threads had
of processors, in each kernel the busiest of them, the lower counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from repops.host.library import thread_time

SHORT_S = 1.0
"""Steps of a kind count together until they have taken so many seconds: one of a millisecond says nothing."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of the slowest steps that were computed, plain and committed; 0 where there was none."""

    step_s: float = 0.0
    commit_s: float = 0.0

    def most(self, other: Taken) -> Taken:
        """Return the higher of two."""
        return Taken(max(self.step_s, other.step_s), max(self.commit_s, other.commit_s))

    def part(self, factor: float) -> Taken:
        """Return so large a part of it."""
        return Taken(self.step_s * factor, self.commit_s * factor)


@dataclass(slots=True)
class _Kind:
    """Steps of a kind: all of them, those that count together now, and the slowest."""

    all_s: float = 0.0
    count: int = 0
    seconds: float = 0.0
    steps: int = 0
    most_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.all_s, self.count = self.all_s + seconds, self.count + 1
        if seconds >= SHORT_S:
            # SAFETY: short ones before it must not hide it.
            self.most_s = max(self.most_s, seconds)
            return
        self.seconds, self.steps = self.seconds + seconds, self.steps + 1
        if self.seconds >= SHORT_S:
            self.most_s = max(self.most_s, self.seconds / self.steps)
            self.seconds, self.steps = 0.0, 0

    @property
    def slowest_s(self) -> float:
        """NOTE: where all together are short, their mean."""
        return self.most_s or self.all_s / max(self.count, 1)


@dataclass(slots=True)
class StepTimes:
    """Call `resumes` when the computation has the processors, `rests` when it has not, and `ends` after each step;
    `beside` with the seconds that other processes have computed for it, which it would take longer alone.

    NOTE: before the first `resumes` nothing counts: a computation begins by reading its tensors, and compiles its step.
    A step that is ended in its midst takes at least what it has taken (`cut`).
    """

    clock: Callable[[], float] = time.monotonic
    busy: Callable[[], float] = thread_time
    _since: tuple[float, float] | None = None
    _took: float = 0.0
    _used: float = 0.0
    _beside: float = 0.0
    _plain: _Kind = field(default_factory=_Kind)
    _committed: _Kind = field(default_factory=_Kind)

    def resumes(self) -> None:
        """The computation has the processors from now on."""
        self._since = self.clock(), self.busy()

    def rests(self) -> None:
        """Others have the processors from now on, or it keeps what it has computed."""
        if self._since is not None:
            self._took += self.clock() - self._since[0]
            self._used += self.busy() - self._since[1]
            self._since = None

    def beside(self, seconds: float) -> None:
        """Other processes have computed for the step for so long, all together."""
        self._beside += seconds

    def ends(self, *, committed: bool) -> None:
        """A step has ended, and the computation rests. NOTE: one of which nothing counts is none."""
        if self._since is None and not self._took:
            return
        self.rests()
        seconds = min(self._took, self._used) + self._beside
        (self._committed if committed else self._plain).add(seconds)
        self.drops()

    def cut(self, *, committed: bool) -> None:
        """The step was ended in its midst. SAFETY: what is slow in it may never be computed in one piece again before
        we stake. NOTE: of a short part it is not known whether it was a step's."""
        self.rests()
        if (seconds := min(self._took, self._used) + self._beside) >= SHORT_S:
            kind = self._committed if committed else self._plain
            kind.most_s = max(kind.most_s, seconds)
        self.drops()

    def drops(self) -> None:
        """Nothing of the step counts: it is computed again, or not at all."""
        self._since, self._took, self._used, self._beside = None, 0.0, 0.0, 0.0

    @property
    def count(self) -> int:
        """Steps that count."""
        return self._plain.count + self._committed.count

    @property
    def mean_s(self) -> float:
        """Seconds of a step, on average over all; 0 before the first has ended."""
        return (self._plain.all_s + self._committed.all_s) / max(self.count, 1)

    @property
    def slowest(self) -> Taken:
        """Seconds of the slowest steps."""
        return Taken(self._plain.slowest_s, self._committed.slowest_s)
