"""Decisions of a sampler on what to refute now: pure functions of the chain's state and of what it has found.

INVARIANT: nobody else's act is taken for its own. It waits while another refutation of the root lives, because a lost
one opens a period for the next (docs/protocol.md, section 6); and it does not wait where that could make the next one
too dear, unless that is already dearer than a lie pays for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from ...chain import Group, JobView
from ...play.actions import is_over
from ...run.refutation import Refuted
from ...stake.funds import refuting


def sampler_actions(
    job: JobView,
    me: str,
    found: Sequence[Refuted],
    now: int,
    *,
    affordable: Callable[[int, Collection[Refuted]], bool],
    dearest_beside: float = math.inf,
) -> list[Refuted]:
    """Return which of the lies that we have found are to be refuted now, at most one of each root: none while our own
    claim of the right root lives, which plays against all others itself.

    ``affordable``: whether so many wei can be staked now against these lies, for all that this function returns.
    Those that come first are asked for first.
    ``dearest_beside``: the most wei for one beside a living refutation of the same root.
    """
    chosen, sum_wei = dict[bytes, Refuted](), 0
    if claims_right(job, me, {lie.against for lie in found}):
        return []
    for lie in found:
        target = job.group_of_root(lie.against)
        if target is None or lie.against in chosen or not job.refutable(lie.against, now):
            continue
        living = [group for group in _refutations(job, target) if not group.dead]
        if lost(job, me, lie) or any(_of(job, group, me) for group in living):
            continue
        price = refuting(job, lie.against).wanted
        # SAFETY: each refutation doubles the price. Who waits until it is beyond its means has waited too long.
        if (
            living
            and 2 * price <= dearest_beside
            and affordable(sum_wei + 2 * price, [*chosen.values(), lie])
        ):
            continue
        # SAFETY: beyond that it waits for the living ones to lose, which costs their author the price.
        if living and price > dearest_beside:
            continue
        if affordable(sum_wei + price, [*chosen.values(), lie]):
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


def pending_until(job: JobView, lie: Refuted, now: float) -> float | None:
    """Return until when a lie can be refuted, or its root be claimed again, by the chain's time; infinite where that is
    for others to decide; None where nobody claims it, or nothing can change any more.

    SAFETY: it is never too late in a job that runs. Others may still reveal, a refutation that was first may lose, and
    whoever refutes another lie opens a challenge phase in which a root that is dead is claimed again.
    """
    target = job.group_of_root(lie.against)
    if target is None or job.phase.ended or is_over(job, int(now)):
        return None
    if target.dead:
        until = job.claimable_until(target.root) or 0
        return until if now < until else math.inf
    if job.refutable(target.root, int(now)):
        return max(job.challenge_end, target.until, target.refutable_until)
    return math.inf


def claims_right(job: JobView, me: str, wrong: Collection[bytes]) -> bool:
    """Return whether a claim of ours lives whose root we have not found wrong. NOTE: a sampler claims nothing but the
    result of a whole run."""
    own = job.claim_of(me)
    group = None if own is None else job.groups[own.group]
    return group is not None and not group.dead and group.root not in wrong


def forsaken(
    job: JobView, wrong: Collection[bytes], passed: Collection[bytes], *, last_moment: bool = False
) -> bool:
    """Return whether nobody claims a root that may be the right one, as far as we know: then we compute and claim it.

    ``wrong``: the roots that we have found wrong; ``passed``: those of which all that we have drawn is right.
    ``last_moment``: a while later there is no time for that any more. Then a root that is still being checked does not
    count beside one that was wrong.

    SAFETY: a new root is admitted in the challenge phase alone. Who refutes what it finds, and computes the right root
    only once a lie comes that nobody serves, cannot claim it if that lie comes in the last second. A root that is right
    and lives can be claimed for a period after its death.
    """
    roots = {group.root: group.dead for group in job.groups if group.refutes is None}
    open_ = {root for root, dead in roots.items() if not dead} - set(wrong)
    if last_moment and not roots.keys().isdisjoint(wrong):
        open_ &= set(passed)
    return bool(roots) and not open_


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
