"""What a sampler refutes now: pure functions of the chain's state and of what it has found.

INVARIANT: nobody else's act is taken for its own. It waits while another refutation of the root lives, because a lost
one opens a period for the next (docs/protocol.md, section 6); and it does not wait where that could make the next one
too dear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ..chain import Group, JobView
from ..funds import refuting
from ..refuted import Refuted


def sampler_actions(
    job: JobView, me: str, found: Sequence[Refuted], now: int, *, affordable: Callable[[int], bool]
) -> list[Refuted]:
    """Return which of the lies that we have found are to be refuted now, at most one of each root.

    ``affordable``: whether so many wei can be staked now, for all that this function returns.
    """
    chosen, sum_wei = dict[bytes, Refuted](), 0
    for lie in found:
        target = job.group_of_root(lie.against)
        if target is None or lie.against in chosen or not job.refutable(lie.against, now):
            continue
        living = [group for group in _refutations(job, target) if not group.dead]
        if lost(job, me, lie) or any(_of(job, group, me) for group in living):
            continue
        price = refuting(job, lie.against).wanted
        # SAFETY: each refutation doubles the price. Who waits until it is beyond its means has waited too long.
        if living and affordable(sum_wei + 2 * price):
            continue
        if affordable(sum_wei + price):
            chosen[lie.against], sum_wei = lie, sum_wei + price
    return list(chosen.values())


def lost(job: JobView, me: str, lie: Refuted) -> bool:
    """Return whether we have lost a refutation that says the same.

    NOTE: it is not repeated. Who plays in time loses it only if its machine computes something else than the referee.
    """
    target = job.group_of_root(lie.against)
    return target is not None and any(
        group.dead and group.root == lie.root and _of(job, group, me) for group in _refutations(job, target)
    )


def claimable_s(job: JobView, wrong: Collection[bytes], now: float) -> float:
    """Return the seconds for which a root that may be the right one can still be claimed: any new one in the challenge
    phase; later those that have lost a claim, with no end while another claim of theirs lives. ``wrong``: the roots
    that we have found wrong."""
    roots = [group.root for group in job.groups if group.refutes is None and group.root not in wrong]
    return max(job.challenge_end, *(job.claimable_until(root) or 0 for root in roots), now) - now


def at_large(job: JobView, group: Group, now: float) -> bool:
    """Return whether a claimed root may be accepted as far as we can know: it lives, or can be claimed again.

    SAFETY: a root that has died can come back in the last second, when it is too late to replay anything.
    """
    return not group.dead or now < (job.claimable_until(group.root) or 0)


def own_refutations(job: JobView, me: str, target: Group) -> list[Group]:
    """Return our refutations of a claimed group, living ones first."""
    return sorted(
        (group for group in _refutations(job, target) if _of(job, group, me)), key=lambda g: (g.dead, g.index)
    )


def _refutations(job: JobView, target: Group) -> Iterator[Group]:
    return (group for group in job.groups if group.refutes == target.index)


def _of(job: JobView, group: Group, me: str) -> bool:
    return job.claims[group.members[0]].owner.lower() == me.lower()
