"""Runs while they are computed: how far, how fast, for how long still, and the numbers so far. Told, and not proven."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from referee_py.program import SlotSource
from trainer_node.chain import JobPhase, JobView
from trainer_node.client.parties import Parties
from trainer_node.client.watched_job import Earlier, Standing, servers, standing
from trainer_node.observe.pace import left_words, rate_words

from . import curve, text
from .artifacts import Got, Shelf
from .chain import Look

FRESH_S = 5.0
"""Seconds for which a report is shown before its server is asked again."""
MAX_CURVES, MAX_JOBS = 4, 64


@dataclass(frozen=True)
class Running:
    """A run as its trainer tells of it. ``pace``: steps per second and time left, empty at the end; ``numbers`` of the
    last step; ``reason``: why nothing is told."""

    who: str
    step: int = 0
    steps: int = 0
    pace: str = ""
    numbers: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Runs:
    """All runs of a job, and their numbers as curves. ``unknown``: nobody knows where its trainers are."""

    shown: tuple[Running, ...]
    curves: tuple[curve.Series, ...]
    notes: tuple[str, ...]
    unknown: bool


class Watch:
    """Asks the trainers of jobs. ``given``: addresses that no claim reveals."""

    def __init__(self, shelf: Shelf, given: Sequence[str] = ()) -> None:
        self._shelf, self._given = shelf, tuple(given)
        self._earlier: OrderedDict[int, Earlier] = OrderedDict()

    def runs(self, look: Look, job: JobView, names: Mapping[SlotSource, str]) -> Runs:
        """Return what is told of a job's runs by now. SAFETY: what strangers tell is cut, and waited for briefly."""
        parties, earlier = Parties(job), self._of(job)
        found: list[str] = []
        if job.phase in (JobPhase.TRAINING, JobPhase.REVEAL):
            found = earlier.of(look.snapshot, job)
        owners = {claim.uri: claim.owner for claim in reversed(job.claims)}
        shown: list[Running] = []
        series: list[curve.Series] = []
        unnamed = False
        for uri in dict.fromkeys([*servers(job, [*self._given, *found]), *job.servers()]):
            got = self._shelf.get(("standing", job.id, uri), _asking(job, uri), fresh_s=FRESH_S)
            owner = owners.get(uri) or earlier.owner(uri)
            who = parties.name(owner) if owner is not None else text.said(uri, 60)
            shown.append(running(who, got, names))
            if got.value is not None:
                series += _curves(who, got.value, names)
                unnamed |= has_unnamed(got.value, names)
        notes = []
        if unnamed:
            notes.append(
                "a node is an operator of the program by its number: start the explorer with --bundle for names"
            )
        if len(series) > MAX_CURVES:
            notes.append(f"{text.plural(len(series) - MAX_CURVES, 'more curve')} not drawn")
        unknown = not shown and bool(job.trainers) and job.phase is JobPhase.TRAINING
        return Runs(tuple(shown), tuple(series[:MAX_CURVES]), tuple(notes), unknown)

    def _of(self, job: JobView) -> Earlier:
        known = self._earlier.setdefault(job.id, Earlier())
        self._earlier.move_to_end(job.id)
        while len(self._earlier) > MAX_JOBS:
            self._earlier.popitem(last=False)
        return known


def running(who: str, got: Got[Standing], names: Mapping[SlotSource, str]) -> Running:
    """Return what is shown of a report."""
    told = got.value
    if told is None or told.report is None:
        why = told.reason if told is not None else got.reason
        return Running(who, reason=f"tells nothing now ({text.said(why, 120)})" if why else "is being asked")
    report = told.report
    numbers = tuple(
        f"{text.said(name, 40)} {value:.6g}"
        for name, value in told.numbers(names).items()
    )  # fmt: skip
    pace = f"{rate_words(report.rate)}, {left_words(told.left_s)}" if report.step < report.steps else ""
    return Running(who, report.step, report.steps, pace, numbers)


def has_unnamed(told: Standing, names: Mapping[SlotSource, str]) -> bool:
    """Return whether a report has a number without a name, which stands there by the number of its operator."""
    return told.report is not None and any(SlotSource(*place) not in names for place in told.report.nodes)


def _asking(job: JobView, uri: str) -> Callable[[], Standing]:
    return partial(standing, job, uri)


def _curves(who: str, told: Standing, names: Mapping[SlotSource, str]) -> list[curve.Series]:
    """Return the numbers of a report that make a curve."""
    found: list[curve.Series] = []
    report = told.report
    for column, place in enumerate(report.nodes if report is not None else ()):
        points = [
            (point.step, point.numbers[column])
            for point in (report.history if report is not None else ())
            if column < len(point.numbers) and math.isfinite(point.numbers[column])
        ]
        if len(points) > 1:
            what = names.get(SlotSource(*place), f"node {place[0]}")
            found.append((f"{text.said(what, 40)}, {who}", points))
    return found
