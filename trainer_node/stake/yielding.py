"""Choice of the jobs that yield to a new stake, by what may be lost in them and what it earns. Pure functions.

A stake that does not fit beside what other jobs with our stakes may ask at the same time (`admission`: time; `funds`:
ether) is given all the same if its prize pays for them: some jobs *yield* to it. They are played as before. But they
count no longer on time and ether that it may take, so what we have put into them may be lost.

    PRIZE      the least that a match of the new stake earns (`funds.least_prize`)
    WEI        what we have put into a job: stakes that are not lost, and bonds of appeals
    THE RULE   prize >= the wei of all jobs that yield to it, and of all that yield already
    WHO        as few as possible: refutations that have no opponent first, then the cheapest

    offered, earning 9     held, with wei                     yield
    too much at once       1: 5    2: 2    3: 40              2, if that makes room; else 1 and 2; never 3

INVARIANT: whatever is asked of us when, what is lost because of other jobs is never more than what these have earned.
A job can be late only while one that it yields to has a match. Of those that have one, the one to which others yielded
last yields to none of them, so it is in time and wins its prize; and that prize was compared with all that may be late
with it. So where it yields itself, later, what has yielded to it is counted again: also a job that is over by then, as
long as one that it yielded to is not (``over``).

SAFETY: who would keep us from a lie must put more at stake elsewhere than that lie's prize. Small stakes do it in any
number only by their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from ..reason import Reason

PROPORTION = 10
"""Most ether that a job keeps from stakes in others, in the wei that we have put into it: gas of the worst dispute and
the bonds of two appeals take two and a half stakes at the price of gas that the stake bears, which is twice the price
at the time of the stake. So gas may rise eightfold."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A job with something of ours. ``wei``: what we have put into it, None if that is not known, or it cannot yield;
    ``prize``: the least that a match in it earns us, in wei; ``idle``: nobody is left to play against what we have in
    it. Turns count the times at which jobs have yielded: ``turn``, when others did to this one, and ``since``, when it
    did itself; 0 for never. ``over``: nothing of ours is left in it, but it still counts."""

    wei: int | None = None
    prize: int = 0
    turn: int = 0
    since: int = 0
    idle: bool = False
    over: bool = False


Weights = Mapping[int, Weight]
"""By job number."""


def yields_to(weights: Weights, job: int) -> set[int]:
    """Return the jobs to which a job yields: those that others have yielded to since it did."""
    since = weights[job].since if job in weights else 0
    return {n for n, of in weights.items() if since and of.turn >= since and not of.over and n != job}


def choose(
    weights: Weights, job: int, prize: int, why: Callable[[Collection[int]], Reason | None]
) -> tuple[frozenset[int], Reason | None]:
    """Return which jobs have to yield to a new stake in a job, and why it is not given all the same, or None. ``why``:
    why it is not given if these jobs yield to it; with more of them it never finds more reasons. ``prize``: wei, 0 if
    it may earn none."""
    refused = why(frozenset())
    if refused is None or not prize:
        return frozenset(), refused
    others = {n: of for n, of in weights.items() if n != job}
    before = {n for n, of in others.items() if of.since}
    rest = sorted((not of.idle, of.wei, n) for n, of in others.items() if not of.since and of.wei is not None)
    chosen = list[int]()
    while why({*before, *chosen}) is not None:
        if len(chosen) == len(rest):
            return frozenset(), refused
        chosen.append(rest[len(chosen)][2])
    for n in reversed(chosen[:-1]):
        if why({*before, *chosen} - {n}) is None:
            chosen.remove(n)
    lost = sum(others[n].wei or 0 for n in {*before, *chosen})
    return (frozenset({*before, *chosen}), None) if lost <= prize else (frozenset(), refused)


def given(weights: Weights, job: int, wei: int, prize: int, chosen: Collection[int]) -> dict[int, Weight]:
    """Return the weights once a stake is given in a job, in which we have put ``wei`` then, and the ``chosen`` jobs
    yield to it (`choose`)."""
    turn = 1 + max((max(of.turn, of.since) for of in weights.values()), default=0) if chosen else 0
    made = {n: replace(of, since=of.since or turn) if n in chosen else of for n, of in weights.items()}
    before = weights.get(job, Weight())
    # NOTE: what yielded to an earlier stake in the job still does.
    made[job] = Weight(wei, prize if chosen else before.prize, turn or before.turn)
    return _restored(made)


def left(weights: Weights, job: int) -> dict[int, Weight]:
    """Return the weights once nothing of ours is left in a job."""
    made = dict(weights)
    if yields_to(weights, job):
        made[job] = replace(made[job], over=True, turn=0)
    else:
        made.pop(job, None)
    return _restored(made)


def bears(weights: Weights, job: int, wei: int) -> bool:
    """Return whether the prizes of those that a job yields to pay for so much more wei in it."""
    return all(_lost(weights, n) + wei <= weights[n].prize for n in yields_to(weights, job))


def _lost(weights: Weights, job: int) -> int:
    """Return the wei of all that yields to a job."""
    return sum(of.wei or 0 for of in weights.values() if 0 < of.since <= weights[job].turn)


def _restored(weights: Weights) -> dict[int, Weight]:
    """Let those stand again that yield to nobody who is left, and drop what counts no longer."""
    stands = {n for n, of in weights.items() if of.since and not yields_to(weights, n)}
    return {
        n: replace(of, since=0) if n in stands else of
        for n, of in weights.items()
        if not (of.over and n in stands)
    }
