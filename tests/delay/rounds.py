"""The most rounds of matches that a budget buys, after the challenge phase: a search of all ways to spend it.

A round is one match long. In each round every living group but one plays: a refutation, if its root can be refuted, or
another group, of which one dies, unless a spare claims it again. Matches are long beside periods: a root can be refuted
after a refutation that it has won, after it was claimed again, and, by a refutation that has come in time and waits in
its queue, after one match of claims that followed these. Prices are in stakes, and the first roots cost one each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

CLOSED, QUEUED, OPEN = range(3)
"""How a root can be refuted: not any more; in the next round or not any more; in any round, one after the other."""
AFTER = {OPEN: QUEUED, QUEUED: CLOSED, CLOSED: CLOSED}
"""What a match of claims makes of it."""

Group = tuple[int, int]
"""Its refutations so far, and how it can be refuted."""
Round = tuple[tuple[Group, ...], int, int]
"""The groups that live after a round, the spares so far, and what the round has cost."""


def most_rounds(budget: int, roots: int = 8) -> int:
    """Return the most rounds for a budget of stakes, with up to ``roots`` roots at the end of the challenge phase, one
    of which is another's. Any of them can be refuted then, or not."""
    return max(
        _most((((0, CLOSED),) * (count - opened) + ((0, OPEN),) * opened), 0, budget - (count - 1))
        for count in range(1, min(roots, budget + 1) + 1)
        for opened in range(count + 1)
    )


@cache
def _most(groups: tuple[Group, ...], spares: int, budget: int) -> int:
    if len(groups) == 1:
        return _alone(*groups[0], budget)
    rounds = set(_rounds(groups, spares, budget))
    return max((1 + _most(left, more, budget - cost) for left, more, cost in rounds), default=0)


def _alone(count: int, how: int, budget: int) -> int:
    """Return how often the last group can still be refuted."""
    played = 0
    while how != CLOSED and budget >= 1 << (count + played):
        budget -= 1 << (count + played)
        played += 1
    return played


def _rounds(groups: tuple[Group, ...], spares: int, budget: int) -> Iterator[Round]:
    yield from _played(groups, (), spares, budget, 0)
    for k, (count, _) in enumerate(groups):
        # NOTE: who waits for a whole match cannot be refuted afterwards.
        yield from _played(groups[:k] + groups[k + 1 :], ((count, CLOSED),), spares, budget, 0)


def _played(
    left: tuple[Group, ...], done: tuple[Group, ...], spares: int, budget: int, cost: int
) -> Iterator[Round]:
    """Yield all rounds in which the groups ``left`` play and those that are ``done`` have."""
    if not left:
        yield tuple(sorted(done)), spares, cost
        return
    (count, how), others = left[0], left[1:]
    price = cost + (1 << count)
    if how != CLOSED and price <= budget:
        yield from _played(others, (*done, (count + 1, OPEN)), spares, budget, price)
    for k, other in enumerate(others):
        if other in others[:k]:
            continue
        rest = others[:k] + others[k + 1 :]
        for won, lost in {(left[0], other), (other, left[0])}:
            winner = (won[0], AFTER[won[1]])
            yield from _played(rest, (*done, winner), spares, budget, cost)
            again = cost + (1 << (spares + 1))
            if again <= budget:
                yield from _played(rest, (*done, winner, (lost[0], OPEN)), spares + 1, budget, again)
