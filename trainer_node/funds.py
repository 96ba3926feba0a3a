"""What a job takes of our ether, now and as long as it lasts; and why not to stake on it. Pure functions.

A stake, a bond and what an answer is paid follow the base fee, and so does what transactions cost. A node sends nothing
above its own ``max_fee``; up to there it can go through with what it has begun:

    KEPT   From the first stake on, until the job is over, what it may still take if gas costs ``max_fee``: the rest of
           a slot's stake at the reveal, the claim of a root that we watch for, the bonds of two appeals, and the gas
           of the worst dispute, as far as its prize pays for that.
"""

from __future__ import annotations

from referee_py.jobs import claim_price, fee_at

from .chain import JobPhase, JobView
from .chain.fees import GWEI
from .chain.outbox import Value
from .min_stake import worst_gas
from .patience import bearable

BONDS = 2
"""Of appeals at a time: one is held until each signer of the false verdict has had its trial, while the next match
begins. Each match that is won brings half of one, so that two will do for three matches in a row, of eight roots."""
RACED = 2
"""How many times a first claim's stake a claim of a root that we watch for may take: sixteen others came before."""


# ---------------------------------------------------------------------- what is sent


def top_up(job: JobView, me: str) -> Value:
    """What is sent with a reveal: what a slot takes by then beyond what ours took."""
    slot, stake = job.trainer(me), job.stake_sent
    taken = stake.wanted if slot is None else slot.stake
    return Value(max(0, stake.wanted - taken), max(0, stake.least - taken))


def offer(job: JobView, root: bytes) -> Value:
    """What is sent with a claim; of a new root a little more than it takes, because others may come first.

    NOTE: less than a second claim of the root would take now, if that is possible, so that it is refused if somebody
    else has just claimed it.
    """
    claimed = job.group_of_root(root) is not None
    soon, least = (claim_price(s, job.founded, job.followers, claimed=claimed) for s in job.stake_sent)
    if not claimed:
        price, second = job.price_of(root), job.stake_now << (job.followers + 1)
        soon = min(soon * 5 // 4, second - 1) if price < second else soon * 5 // 4
    return Value(soon, min(least, soon))


# ---------------------------------------------------------------------- what is kept


def kept(job: JobView, me: str, max_fee: int) -> int:
    """What a job in which we have a slot or a claim, or are about to, may still take of us, in wei."""
    slot = job.trainer(me)
    taken = job.stake_now if slot is None else slot.stake
    reveals = job.phase is JobPhase.TRAINING or (slot is not None and not slot.revealed)
    return (max(0, job.stake_at(max_fee) - taken) if reveals else 0) + quarrel(job, max_fee)


def kept_to_watch(job: JobView, max_fee: int) -> int:
    """What a job that we watch may still take of us, in wei."""
    return RACED * job.stake_at(max_fee) + quarrel(job, max_fee)


def quarrel(job: JobView, max_fee: int) -> int:
    """What disputes may take, in wei: bonds of appeals, if there are verifiers to appeal from, and gas."""
    bonds = BONDS * job.stake_at(max_fee) if job.rules.has_verifiers else 0
    return bonds + quarrel_gas(job, max_fee)


def quarrel_gas(job: JobView, max_fee: int) -> int:
    """What the gas of the worst dispute may take, in wei, as far as its prize pays for it."""
    return worst_gas() * min(max_fee, bearable(job.stake_at(max_fee), job.stake_gas))


# ---------------------------------------------------------------------- why not


def too_poor(stake: int, later: int, spare: int) -> str | None:
    """Why not to stake on a job: the account could not go through with it. ``later``: what it may take after the stake;
    ``spare``: what the account has and no other job may need; all in wei."""
    if spare >= stake + later:
        return None
    return (
        f"its stake is {stake} wei, and it may take {later} wei more if gas becomes as dear as fees.max_fee_gwei; the "
        f"account can spare {spare} wei: send it more, or lower the limit, above which nothing is sent"
    )


def too_dear(stake: int, most: int, setting: str = "max_stake_eth") -> str | None:
    """Why not to stake on a job: it asks for more than the configuration allows."""
    if most and stake > most:
        return f"its stake is {stake} wei, {setting} allows {most}"
    return None


def unpaid(job: JobView, expected_fee: int, max_fee: int) -> str | None:
    """Why nobody should stake on a job: if gas stays as dear as it is, or becomes as dear as we expect (wei for a
    unit), the worst dispute would cost more than its prize, or answers to requests more than is paid for them.
    ``max_fee``: we never pay more.

    NOTE: by the rule a unit counts for twice what it costs now (`fee_at`), which bounds alone can keep from it. What is
    claimed when gas is cheap bears no more than the lower bound, however dear gas is in the dispute. A large stake may
    pay for disputes all the same, but never for answers.
    """
    now = fee_at(job.base_fee, job.low_fee, job.high_fee)
    cases = {
        "high_fee": (min(2 * job.base_fee, max_fee), now, "gas costs that, twice over, now"),
        "low_fee": (min(expected_fee, max_fee), job.low_fee, "expected_fee_gwei says so"),
    }
    for term, (fee, counted, why) in cases.items():
        if fee > counted:
            bound = getattr(job, term)
            return (
                f"its {term} is {bound / GWEI:g} gwei, so that a unit of gas counts for {counted / GWEI:g} gwei; at "
                f"{fee / GWEI:g} gwei ({why}) answers to requests cost more than they are paid, and the worst dispute "
                f"takes {worst_gas() * fee} wei, of which the prize of the least stake pays {worst_gas() * counted}"
            )
    return None
