"""A run as intervals between checkpoints of the first stride: what is known of each from the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from referee_py.game.state import MatchTerms
from trainer_node.chain import JobView
from trainer_node.client.parties import Parties

from .rungs import Ladder

MAX_SHOWN = 240


@dataclass(frozen=True)
class Interval:
    """Steps ``first..last``. ``kind``: disputed, checked (several parties have the same checkpoint at its end), sampled
    (one auditor has replayed it), unseen (one party's word), unclaimed, or, of several intervals, partly sampled."""

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
    """Names of the parties that claim all of it."""


def intervals(job: JobView, disputes: Sequence[tuple[MatchTerms, Ladder]], parties: Parties) -> Intervals:
    """Return what the chain says of each interval of the run that is ahead: the living root with the most claims."""
    stride, steps = job.program.strides[0], job.program.steps
    count = -(-steps // stride)
    best = max(
        (group for group in job.groups if group.refutes is None and not group.dead),
        key=lambda group: len(group.members),
        default=None,
    )
    claims = [job.claims[member] for member in best.members] if best else []
    owners = list(dict.fromkeys(parties.name(claim.owner) for claim in claims if not claim.lost))
    by = " and ".join(owners)
    rest = "unclaimed" if best is None else "checked" if len(owners) > 1 else "unseen"
    disputed: dict[int, str] = {}
    agreed, who = 0, ""
    refutations = {group.root for group in job.groups if group.refutes is not None}
    for match, dispute in disputes:
        strip = dispute.rungs[0].strip if dispute.rungs else None
        if strip is None or best is None or best.root not in match.roots:
            continue
        players = " and ".join(map(parties.name, match.players))
        if strip.found and strip.lo < count:
            disputed[strip.lo] = f"{players} differ"
        # NOTE: a descent begins at the first difference, so both sides have the same checkpoints before it. Who refutes
        # an interval has not computed those: they are the other side's own.
        if strip.lo > agreed and refutations.isdisjoint(match.roots):
            agreed, who = min(strip.lo, count), f"{players} have the same checkpoints"
    size = -(-count // MAX_SHOWN)
    shown = []
    for low in range(0, count, size):
        high = min(low + size, count) - 1
        hit = next((words for k, words in disputed.items() if low <= k <= high), None)
        seen = rest == "unseen" and high < agreed
        kind, words = ("disputed", hit) if hit else ("checked", who) if seen else (rest, by)
        shown.append(Interval(low + 1, low * stride + 1, min((high + 1) * stride, steps), kind, words))
    equal = agreed - sum(k < agreed for k in disputed) if rest == "unseen" else 0
    counts = {"disputed": len(disputed), "checked": equal, rest: count - len(disputed) - equal}
    return Intervals(tuple(shown), count, {kind: number for kind, number in counts.items() if number}, by)
