"""The most rounds of matches that a budget buys, after the challenge phase: a search of all ways to spend it.

A round is one match long. In each round every living group but one plays: a refutation, if its root can be refuted, or
another group, of which one dies, unless a spare claims it again. Matches are long beside periods: a root can be refuted
after a refutation that it has won, after it was claimed again, and, by a refutation that has come in time and waits in
its queue, after one match of claims that followed these. Prices are in stakes, and the first roots cost one each.
"""

from __future__ import annotations

from functools import cache

CLOSED, QUEUED, OPEN = range(3)
"""How a root can be refuted: not any more; in the next round or not any more; in any round, one after the other."""
AFTER = {OPEN: QUEUED, QUEUED: CLOSED, CLOSED: CLOSED}
"""What a match of claims makes of it."""

Group = tuple[int, int, int]
"""Its refutations so far, how it can be refuted, and its spares so far."""
Groups = tuple[Group, ...]
"""Living groups, in order."""


def most_rounds(budget: int, roots: int = 8) -> int:
    """Return the most rounds for a budget of stakes, with up to ``roots`` roots at the end of the challenge phase, one
    of which is another's. Any of them can be refuted then, or not."""
    return max(
        _most(((0, CLOSED, 0),) * (count - opened) + ((0, OPEN, 0),) * opened, budget - (count - 1))
        for count in range(1, min(roots, budget + 1) + 1)
        for opened in range(count + 1)
    )


def _most(groups: Groups, budget: int) -> int:
    # NOTE: what the budget does not pay for any more makes no difference.
    most = budget.bit_length()
    alike = ((min(c, most), how if c < most else CLOSED, min(s, max(0, most - 1))) for c, how, s in groups)
    return _searched(tuple(sorted(alike)), budget)


@cache
def _searched(groups: Groups, budget: int) -> int:
    if len(groups) == 1:
        return _alone(groups[0], budget)
    rounds = _rounds(groups, budget)
    return max((1 + _most(left, budget - cost) for left, cost in rounds.items()), default=0)


def _alone(group: Group, budget: int) -> int:
    """Return how often the last group can still be refuted."""
    played, (count, how, _) = 0, group
    while how != CLOSED and budget >= 1 << (count + played):
        budget -= 1 << (count + played)
        played += 1
    return played


def _rounds(groups: Groups, budget: int) -> dict[Groups, int]:
    """Return the groups that may live after a round, and what that costs at least."""
    found = dict(_played(groups, budget))
    for k, (count, _, spares) in enumerate(groups):
        # NOTE: who waits for a whole match cannot be refuted afterwards.
        waiting = ((count, CLOSED, spares),)
        _add(found, waiting, _played(groups[:k] + groups[k + 1 :], budget), 0)
    return found


@cache
def _played(left: Groups, budget: int) -> dict[Groups, int]:
    """Return the same of a round in which all these groups play."""
    if not left:
        return {(): 0}
    found: dict[Groups, int] = {}
    (count, how, spares), others = left[0], left[1:]
    price = 1 << count
    if how != CLOSED and price <= budget:
        _add(found, ((count + 1, OPEN, spares),), _played(others, budget - price), price)
    for k, other in enumerate(others):
        if other in others[:k]:
            continue
        rest = others[:k] + others[k + 1 :]
        for won, lost in {(left[0], other), (other, left[0])}:
            winner = (won[0], AFTER[won[1]], won[2])
            _add(found, (winner,), _played(rest, budget), 0)
            again = 2 << lost[2]
            if again <= budget:
                risen = (lost[0], OPEN, lost[2] + 1)
                _add(found, (winner, risen), _played(rest, budget - again), again)
    return found


def _add(found: dict[Groups, int], groups: Groups, others: dict[Groups, int], cost: int) -> None:
    """Add these groups beside each of the others, unless the same was found for less."""
    for left, more in others.items():
        whole = tuple(sorted((*left, *groups)))
        found[whole] = min(cost + more, found.get(whole, cost + more))
