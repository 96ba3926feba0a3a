"""How far the checks of one job have come: what is left of each claimed root, what was found wrong, what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from referee_py.errors import AssayError

from ..errors import Malformed
from ..refuted import Refuted
from .budget import ChainClock
from .part import Part


class BudgetSpent(AssayError):
    """An interval takes more than is left."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is checked of a claimed root, as intervals in this order; at most ``cpu_s`` seconds of processors and
    ``max_bytes`` fetched, in all roots of the job together."""

    intervals: tuple[int, ...]
    cpu_s: float = math.inf
    max_bytes: float = math.inf


@dataclass
class Root:
    """The progress of one claimed root. The run tree, which comes before all intervals, counts as interval 0."""

    plan: Plan | None = None
    """None until it is drawn."""
    left: list[int] = field(default_factory=list)
    """Intervals to check, in their order."""
    staked: tuple[int, ...] = ()
    """Intervals that we have refuted: they come first, and are found again whatever that costs."""
    unserved: dict[int, int] = field(default_factory=dict)
    """By interval: how often its data could not be had."""
    until: dict[int, float] = field(default_factory=dict)
    """By interval: the instant on the chain up to which its data are waited for."""
    asking: int = 0
    """The interval whose data are asked for."""
    withheld: bool = False
    """Whether data of it are not served, or too late."""

    def draw(self, plan: Plan | None) -> None:
        """Note what is to be checked."""
        self.plan = plan
        self.left += [k for k in (plan.intervals if plan else ()) if k not in self.staked]

    def stake(self, intervals: tuple[int, ...]) -> None:
        """Note what we have refuted, as far as the chain shows it by now."""
        new = [k for k in intervals if k not in self.staked]
        self.left = [*new, *(k for k in self.left if k not in new)]
        self.staked = intervals

    def late(self, now: float) -> bool:
        """Return whether what is asked for has had its time."""
        return now >= self.until.get(self.asking, math.inf)


@dataclass
class Checks:
    """The checks of one job. ``cpu_s`` seconds of processors and ``fetched`` bytes have been spent on them."""

    clock: ChainClock
    running: Future[None] | None = None
    computing: bool = False
    over: bool = False
    """True once nobody wants the checks any more."""
    whole: bool = False
    """Whether the whole run is computed."""
    roots: dict[bytes, Root] = field(default_factory=dict)
    parts: dict[tuple[bytes, int], Part] = field(default_factory=dict)
    """By root and interval: what we can refute, and play, until the job is over."""
    cpu_s: float = 0.0
    fetched: int = 0

    @property
    def busy(self) -> bool:
        return self.running is not None and not self.running.done()

    def found(self) -> list[Refuted]:
        """Return all that was found wrong, in the order in which it was found."""
        return [part.claim for part in list(self.parts.values())]

    @property
    def wrong(self) -> set[bytes]:
        """The roots that were found wrong."""
        return {root for root, _ in list(self.parts)}

    @property
    def passed(self) -> set[bytes]:
        """The roots of which nothing that was drawn is left to check."""
        return {name for name, root in list(self.roots.items()) if root.plan is not None and not root.left}

    def proven_wrong(self, root: bytes, lost: Callable[[Refuted], bool]) -> bool:
        """Return whether a root was found wrong, by a statement that was not lost."""
        return any(lie.against == root and not lost(lie) for lie in self.found())


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
