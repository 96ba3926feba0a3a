"""A run as intervals between checkpoints of the first stride: what is known of each from the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from referee_py.execute.run import checkpoint_steps
from trainer_node.chain import JobView

from .parties import Parties
from .rungs import Ladder

MAX_SHOWN = 240


@dataclass(frozen=True)
class Interval:
    """Steps ``first..last``. ``kind``: disputed, checked (several accounts claim the same root), or unseen."""

    number: int
    first: int
    last: int
    kind: str
    by: str


@dataclass(frozen=True)
class Intervals:
    shown: tuple[Interval, ...]
    """One for each interval; or for each of `MAX_SHOWN` ranges of them, if there are more."""
    count: int
    counts: dict[str, int]
    by: str
    """Name of the party that computed all of it."""


def intervals(job: JobView, disputes: Sequence[Ladder], parties: Parties) -> Intervals:
    """Return what the chain says of each interval of a job's run."""
    stride, steps = job.program.strides[0], job.program.steps
    count = -(-steps // stride)
    disputed: dict[int, str] = {}
    for dispute in disputes:
        strip = dispute.rungs[0].strip if dispute.rungs else None
        if strip is not None and strip.found:
            disputed[strip.lo] = "a dispute"
    best = max(
        (group for group in job.groups if group.refutes is None and not group.dead),
        key=lambda group: len(group.members),
        default=None,
    )
    owners = [parties.name(job.claims[member].owner) for member in best.members] if best else []
    rest = "checked" if len(owners) > 1 else "unseen"
    by = " and ".join(owners)
    size = -(-count // MAX_SHOWN)
    shown = []
    for low in range(0, count, size):
        high = min(low + size, count) - 1
        hit = next((k for k in disputed if low <= k <= high), None)
        first, last = low * stride + 1, min((high + 1) * stride, steps)
        kind = "disputed" if hit is not None else rest
        shown.append(Interval(low + 1, first, last, kind, disputed.get(hit, by) if hit is not None else by))
    counts = {"disputed": len(disputed), rest: count - len(disputed)}
    return Intervals(tuple(shown), count, counts, by)


__all__ = ["Interval", "Intervals", "checkpoint_steps", "intervals"]
