"""The price of the node: a stake is given only where whoever keeps the node busy by it loses enough. Pure functions.

All our stakes must fit together in time (`admission`) and ether (`funds`), first come, first served. So a lie that we
refute keeps time and ether from other stakes until its job has ended, and its author may have posted that job for it.

    TIME    `policy.node_price_eth` * the share of the node that is occupied <= what the other side surely loses
    ETHER   what a stake keeps in reserve <= `policy.max_reserve_prizes` * what the other side surely loses

The share is what is taken from a job with three quarters of the periods with which `assay job post` posts on public
chains (`free_s`). A job takes from that in two ways: what it asks of us counts in every other job's limits, and its own
limits count against what all others ask. A short clock occupies a node in which nothing is computed.

INVARIANT: a job whose limits leave `free_s` is refused by `too_much_at_once` only if

    the shares of all jobs that hold stakes > 1 - its own share

    Either the limit that is too short is its own, or that of a job whose share says by how much it is shorter. Shares
    add up, because what is asked at once of several jobs is no more than the sum of what each asks.

SAFETY: it is asked before a check or a run is begun and before the first stake is given, never later: what is staked is
defended, and each further lie in a job with a stake of ours is refuted. All of it follows from the job's terms, our
settings and what was measured (which only gets less), and not from the price of gas. So what was accepted before a run
is accepted before its stake.
"""

from __future__ import annotations

import math
from dataclasses import replace

from referee_py.params import PRIZE_DIVISOR

from ..reason import Reason
from ..run.cost_estimate import MARGIN
from ..settings.sections import DAY_S
from .admission import APPEALS, CLOCK, VERDICTS, Duty, Means, asked_at_once

POSTED_S = {CLOCK: DAY_S, VERDICTS: DAY_S // 4, APPEALS: DAY_S}
"""Clock and periods of jobs that are posted on public chains, if the client chooses no others."""
LATE = 4
"""Share of them, as a divisor, that may pass while the moves of such a job are on their way."""
WHOLE_STAKES, SAMPLER_STAKES = 1, 2
"""Most stakes of ours for one loss of the other side. A sampler may refute a root that another refutation overtakes in
the same block, and claim the right root afterwards."""
_FIELDS = {CLOCK: "clock", VERDICTS: "verdict_period", APPEALS: "appeal_period"}
"""The limits as a duty has them."""
MILLION = 10**6
"""Parts of a share, rounded up, so that a price of many digits keeps them."""


def free_s(limit: str) -> float:
    """Return the seconds that a node wants to have free of other jobs, of a limit by that name."""
    return POSTED_S[limit] * (1 - 1 / LATE)


def least_prize(stake: int) -> int:
    """Return what a liar loses at least, whoever refutes it, if it has staked so many wei: its ally may win half."""
    return stake // PRIZE_DIVISOR


def shares(duty: Duty, means: Means) -> dict[str, float]:
    """Return which share of the node a job with our stakes keeps from others, by limit, from 0 to 1."""
    limits, asked = duty.limits, asked_at_once((duty,), means)
    found = dict[str, float]()
    for name, free in ((name, free_s(name)) for name in POSTED_S):
        lacks = 1 - (limits[name] - MARGIN * duty.seen_s(name, means)) / free if name in limits else 0.0
        takes_s = MARGIN * (asked[name].seconds + asked[name].part * POSTED_S[name])
        found[name] = min(1.0, max(0.0, lacks) + takes_s / free)
    return found


class TooCheap(Reason):
    text = (
        "{stakes} stakes there may keep {share:.2%} of this node from other jobs (its {name} has {limit} s, of which "
        "{takes_s:.0f} may be ours; {free_s:.0f} free are wanted); {who} {pays} wei, and policy.node_price_eth asks "
        "for {asks}: {remedy}"
    )
    stakes: int
    share: float
    name: str
    limit: int
    takes_s: float
    free_s: float
    who: str
    pays: int
    asks: int
    remedy: str


def too_cheap(duty: Duty, means: Means, pays: int, price: int, who: str = "a liar loses") -> TooCheap | None:
    """Return why not to stake in a job, or None: it would keep a larger share of the node from others than is paid for.
    ``pays``: the wei that ``who`` at least; ``price``: of the whole node, 0 for none."""
    by_limit = shares(duty, means)
    name = max(by_limit, key=lambda name: by_limit[name])
    asks = -(-price * math.ceil(by_limit[name] * MILLION) // MILLION)
    if pays >= asks:
        return None
    limit, free = duty.limits.get(name, 0), free_s(name)
    asked = asked_at_once((duty,), means)[name]
    takes_s = MARGIN * (asked.seconds + asked.part * POSTED_S[name] + duty.seen_s(name, means))
    remedy = _remedy(duty, name, means, pays, price)
    return TooCheap(duty.stakes, by_limit[name], name, limit, takes_s, free, who, pays, asks, remedy)


def _remedy(duty: Duty, name: str, means: Means, pays: int, price: int) -> str:
    """Return what makes a limit payable, or would for a node that counts blocks at once; larger stakes always do."""

    def payable(duty: Duty, means: Means) -> bool:
        return price * shares(duty, means)[name] <= pays

    longer = replace(duty, **{_FIELDS[name]: max(POSTED_S[name], duty.limits.get(name, 0))})
    prompt = replace(means, latency_s=means.mined_s)
    if name in duty.limits and duty.limits[name] < POSTED_S[name]:
        if payable(longer, means):
            return f"a {name} of {POSTED_S[name]} s, or larger stakes"
    elif payable(duty, prompt):
        late = f"moves are seen {means.latency_s - means.mined_s:.0f} s late"
        return f"larger stakes, or fewer confirmations and an earlier finality here ({late})"
    return "larger stakes"


class TooMuchKept(Reason):
    text = (
        "a stake there may keep {kept} wei in reserve if gas costs fees.max_fee_gwei, and {who} {pays}; "
        "policy.max_reserve_prizes allows {most} times as much: a lower high_fee or larger stakes, or a lower "
        "fees.max_fee_gwei"
    )
    kept: int
    who: str
    pays: int
    most: int


def too_much_kept(kept: int, pays: int, most: int, who: str = "a liar loses") -> TooMuchKept | None:
    """Return why not to stake in a job, or None: a stake of ours would keep more in reserve than ``most`` times what
    ``who`` at least, ``pays``. In wei; 0 for no limit."""
    return TooMuchKept(kept, who, pays, most) if most and kept > most * pays else None


def dearest_beside(kept: int, pays: int, most: int) -> float:
    """Return the most wei that we stake on a refutation while another one of the root lives: with what it keeps in
    reserve, ``most`` times what a liar loses at least; no limit if ``most`` is 0.

    SAFETY: living refutations of the liar's ally double the price each, and come back. Who waits loses nothing: the
    root is not accepted before all of them have lost, and then half of each is burned, and the root can be refuted for
    a whole period (docs/protocol.md, section 6), at a price that is paid for.
    """
    return most * pays - kept if most else math.inf


def stakes_paid(check: str, held: int) -> int:
    """Return how many stakes of ours one loss of the other side has to pay for, if we have ``held`` in the job: 0 if
    nothing has to be paid for any more. ``check``: the setting.

    SAFETY: it is asked once, at the first stake, in every mode, also for several lies at once. Who stops at the k-th
    lie has defended the job against all before it for nothing.
    NOTE: each further stake of ours meets one more that the other side loses. Not so where a trainer can end the job
    for one stake, whatever is open (docs/rounding-logs.md): there one loss may stand for all of ours.
    """
    return 0 if held else WHOLE_STAKES if check == "all" else SAMPLER_STAKES
