"""Decisions of a sampler: a pure function of the chain's state, what it has found wrong, and its means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..chain import JobView
from ..funds import refuting
from ..refuted import Refuted


def sampler_actions(
    job: JobView, me: str, found: Sequence[Refuted], now: int, *, affordable: Callable[[int], bool]
) -> list[Refuted]:
    """Return which of the found lies to refute now."""
    due = []
    for lie in found:
        target = job.group_of_root(lie.against)
        if target is None or not job.refutable(lie.against, now):
            continue
        # NOTE: a living refutation, of whoever, is enough: if it loses, there is a whole period to refute again.
        if any(g.refutes == target.index and not g.dead for g in job.groups):
            continue
        if affordable(refuting(job, lie.against).wanted):
            due.append(lie)
    return due
