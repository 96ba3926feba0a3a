"""The ether that a job takes from us, now and until it ends; and why not to stake it. Pure functions.

Stakes, bonds and the pay of a response follow the base fee, and so does the cost of transactions. A daemon sends
nothing above its own ``max_fee``. Up to that price it can finish what it has begun:

    KEPT   From the first stake until the job is over, the account keeps what the job may still take if gas costs
           ``max_fee``: the rest of a slot's stake at the reveal, the claim of a root that we watch for, the bonds of
           two appeals, and the gas of the worst dispute, as far as its prize pays for that. Several stakes in a job
           may be disputed at the same time, so bonds and gas are kept for each.
"""

from __future__ import annotations

from referee_py.gas_schedule import Counts
from referee_py.jobs import claim_price, fee_at, refutation_price
from referee_py.watch import share_of

from ..chain import JobPhase, JobView
from ..chain.codec.watch import PoolInfo
from ..chain.fees import GWEI
from ..chain.outbox import Value
from ..reason import Reason
from .gas_patience import bearable
from .min_stake import Measured, schedule_of, trial_gas, worst_gas

BONDS = 2
"""Bonds of appeals held at the same time: one is held until each signer of the false verdict has had its trial, and the
next match begins before that. A match won earns half a bond, so two do for three matches in a row, of eight roots."""
WATCH = Measured(350_000, Counts(new=6, overwritten=6, value=1))
"""To commit, show, collect and withdraw, together; see tests/contracts/watch/Watch.t.sol. NOTE: the base of the other
three transactions, of which Amsterdam takes less, is not counted."""
RACED = 2
"""Highest price of a watcher's claim that its account keeps, in stakes of a first claim: after sixteen other new roots,
or of a root that its first claimant has given away, whatever is claimed behind others. NOTE: four would be more than
`policy.max_reserve_prizes` allows at the usual terms; who makes a claim as dear as that loses one and a half stakes."""


# ---------------------------------------------------------------------- sent


def top_up(job: JobView, me: str) -> Value:
    """Return the value to send with a reveal: a slot's stake at that time less what our slot took."""
    slot, stake = job.trainer(me), job.stake_sent
    taken = stake.wanted if slot is None else slot.stake
    return Value(max(0, stake.wanted - taken), max(0, stake.least - taken))


def offer(job: JobView, root: bytes | None) -> Value:
    """Return the value to send with a claim; None for a root that nobody has claimed. A new root gets a little more
    than it takes: others may come first.

    NOTE: if possible the value is less than a second claim of the root would take now. So the claim is refused if
    somebody else has just claimed the root.
    """
    followers = None if root is None else job.followers_of(root)
    soon, least = (claim_price(s, job.founded, followers) for s in job.stake_sent)
    if followers is None:
        price, second = (claim_price(job.stake_now, job.founded, count) for count in (None, 0))
        soon = min(soon * 5 // 4, second - 1) if price < second else soon * 5 // 4
    return Value(soon, min(least, soon))


def refuting(job: JobView, root: bytes) -> Value:
    """Return the value to send with a refutation of a root."""
    count = job.refutation_count(root)
    soon, least = (refutation_price(s, count) for s in job.stake_sent)
    return Value(soon, least)


# ---------------------------------------------------------------------- kept


def kept(job: JobView, me: str, max_fee: int, more: int = 0) -> int:
    """Return the wei that a job may still take from us, if we have a slot or a stake in it, or are about to have
    ``more``: each stake may be disputed at the same time."""
    slot = job.trainer(me)
    taken = job.stake_now if slot is None else slot.stake
    reveals = job.phase is JobPhase.TRAINING or (slot is not None and not slot.revealed)
    disputes = max(1, living_stakes(job, me) + more)
    return (max(0, job.stake_at(max_fee) - taken) if reveals else 0) + disputes * quarrel(job, max_fee)


def living_stakes(job: JobView, me: str) -> int:
    """Return how many of our stakes in a job are not lost."""
    return sum(not claim.lost for claim in job.stakes_of(me))


def kept_to_watch(job: JobView, max_fee: int) -> int:
    """Return the wei that a job that we watch may still take from us."""
    return RACED * job.stake_at(max_fee) + quarrel(job, max_fee)


def quarrel(job: JobView, max_fee: int) -> int:
    """Return the wei that disputes may take: gas, and the bonds of appeals if the job has verifiers."""
    return quarrel_about(job.stake_at(max_fee), job.stake_gas, max_fee, verifiers=job.rules.has_verifiers)


def quarrel_about(stake: int, stake_gas: int, max_fee: int, *, verifiers: bool) -> int:
    """Return the same of a job that takes such a ``stake`` if gas costs ``max_fee``; see `JobView.stake_gas`."""
    gas = worst_gas(schedule_of(stake_gas))
    return (BONDS * stake if verifiers else 0) + gas * min(max_fee, bearable(stake, stake_gas))


def quarrel_gas(job: JobView, max_fee: int) -> int:
    """Return the wei that the gas of the worst dispute may take, as far as its prize pays for it."""
    return quarrel_about(job.stake_at(max_fee), job.stake_gas, max_fee, verifiers=False)


def trial_wei(job: JobView, max_fee: int) -> int:
    """Return the wei that the gas of a trial may take, as far as the prize pays for a unit of it."""
    gas = trial_gas(schedule_of(job.stake_gas))
    return gas * min(max_fee, bearable(job.stake_at(max_fee), job.stake_gas))


# ---------------------------------------------------------------------- reasons not to stake


class TooPoor(Reason):
    text = (
        "its stake is {stake} wei, and it may take {later} wei more if gas costs fees.max_fee_gwei; the account can "
        "spare {spare} wei: send ether to it, or lower fees.max_fee_gwei (nothing is sent above it)"
    )
    stake: int
    later: int
    spare: int


def too_poor(stake: int, later: int, spare: int) -> TooPoor | None:
    """Return why not to stake on a job, or None: the account could not pay for all of it. ``later``: what it may take
    after the stake; ``spare``: what the account has and no other job may need; all in wei."""
    return TooPoor(stake, later, spare) if stake + later > spare else None


class Unpaid(Reason):
    text = (
        "its {term} is {bound:g} gwei, so that a unit of gas counts for {counted:g} gwei; at {fee:g} gwei ({why}) a "
        "response costs more than it earns, and the worst dispute takes {costs} wei, of which the prize of the least "
        "stake pays {pays}"
    )
    term: str
    bound: float
    counted: float
    fee: float
    why: str
    costs: int
    pays: int


def unpaid(job: JobView, expected_fee: int, max_fee: int) -> Unpaid | None:
    """Return why nobody should stake on a job, or None: at twice the present gas price or at ``expected_fee``, the
    worst dispute costs more than its prize, or a response more than is paid for it. Prices are wei for a unit of gas,
    and at most ``max_fee``, above which we never pay.

    NOTE: a unit counts for twice its present price (`fee_at`), unless the job's bounds prevent that. The stake of a
    claim made when gas is cheap pays for no more than the lower bound, however dear gas is in the dispute. A large
    stake may still pay for disputes, but never for responses.
    """
    now, gas = fee_at(job.base_fee, job.low_fee, job.high_fee), worst_gas(schedule_of(job.stake_gas))
    cases = (
        (
            "high_fee",
            job.high_fee,
            min(2 * job.base_fee, max_fee),
            now,
            "twice the price now, or max_fee_gwei",
        ),
        (
            "low_fee",
            job.low_fee,
            min(expected_fee, max_fee),
            job.low_fee,
            "as fees.expected_fee_gwei expects",
        ),
    )
    for term, bound, fee, counted, why in cases:
        if fee > counted:
            return Unpaid(term, bound / GWEI, counted / GWEI, fee / GWEI, why, gas * fee, gas * counted)
    return None


class TooLittle(Reason):
    text = "its bounty has {share} wei for one more watcher, whose transactions may cost {cost}"
    share: int
    cost: int


def too_little(job: JobView, pool: PoolInfo) -> TooLittle | None:
    """Return why not to watch, or None: one more watcher's share would not pay for its transactions. The operator
    accounts for the cost of computing with the limit on stakes."""
    gas = schedule_of(job.stake_gas).gas(WATCH.gas, WATCH.counts)
    share, cost = share_of(pool.amount, pool.shares, pool.watchers + 1), gas * 2 * job.base_fee
    return TooLittle(share, cost) if share <= cost else None
