"""The job of a challenge, as the challenger's node would see it: why an honest challenge could fail in it."""

from __future__ import annotations

from dataclasses import dataclass

from repops.opset import OPSET_VERSION

from referee_py.program.modes import USUAL
from referee_py.program.terms import Terms, suggest_strides
from trainer_node.chain import ChainClient
from trainer_node.chain.fees import in_ether
from trainer_node.client.default_nodes import Market, as_posted
from trainer_node.client.posting import PUBLIC, Offer
from trainer_node.roles.acceptance import SLOT_MOVES, never
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.settings import LOCAL_CHAINS, Settings
from trainer_node.stake.funds import RACED, quarrel

from .pledges import SLOTS, Conditions, least_stake

CHALLENGE_GAS = 900_000
"""Gas of a challenge that nobody disputes, from its commitment to the decision (docs/economics.md, section 11)."""
FEE_RANGE = 25
"""Multiple of the least price of a unit of gas that it must be able to count for: that of jobs by default."""
MOST_TIMES = 4
"""Multiple of what forfeit, charge and chain ask for that a stake may be."""
MOST_NODES = (1 << 16) - 1
TRAIN_S = 3600
"""Training period of a job by default."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The chain on which a challenge is made: what jobs are posted at, and the least stake and price of gas in wei."""

    market: Market
    least_stake: int
    least_fee: int

    @classmethod
    def of(cls, client: ChainClient) -> Chain:
        """Read the newest block. Raises RpcUnavailable or RpcCorrupt."""
        now = client.snapshot()
        market = Market(now.block.base_fee, now.stake_gas, now.commit_age())
        return cls(market, now.least_stake(), now.least_fee())


def terms_of(steps: int) -> Terms:
    """Return the terms of a run of so many steps, of no certain program: the largest there is."""
    return Terms(
        OPSET_VERSION, USUAL.byte, MOST_NODES, 1, 0, steps, *(bytes(32),) * 4, suggest_strides(steps)
    )


def needed(conditions: Conditions, terms: Terms, chain: Chain, settings: Settings) -> int:
    """Return the wei that a challenger's node may take for the job: the gas of the challenge and of a dispute, and the
    stake of a claim where a lie is claimed and no slot is left, the right root given away by who claimed it first."""
    job, max_fee = as_posted(_offer(conditions), terms, chain.market), settings.fees.max_fee
    stake = RACED * max(job.stake_sent.wanted, job.stake_at(max_fee))
    return stake + quarrel(job, max_fee) + CHALLENGE_GAS * max_fee


def job_lacks(
    conditions: Conditions, terms: Terms, chain: Chain, settings: Settings, run_s: float = 0.0
) -> list[str]:
    """Return why an honest challenger might lose or leave the job of a challenge under these conditions. ``run_s``: the
    seconds in which this machine computes the run; ``settings``: those of the challenger's node.

    SAFETY: the conditions are the server's, and its contract takes any that Jobs takes.
    """
    offer = _offer(conditions)
    job, own = as_posted(offer, terms, chain.market), settings.policy
    node = settings.model_copy(update={"policy": own.model_copy(update={"clients": (), "programs": ()})})
    still = CostEstimate(0.0, 0.0, NO_TRIAL)
    reasons = never(job, node, still, chain.market.commit_age)
    found = [f"your node would leave its job: {reason}" for reason in reasons if reason is not None]
    needs = MARGIN * run_s + SLOT_MOVES * settings.latency_s
    if needs > offer.train_period:
        found.append(f"its training period has {offer.train_period} s, your node may take {needs:.0f} s")
    if settings.chain_id not in LOCAL_CHAINS:
        found += _shorter(offer)
        if offer.high_fee < FEE_RANGE * chain.least_fee:
            found.append(
                f"a unit of gas counts for {offer.high_fee} wei in its job at most, not for "
                f"{FEE_RANGE * chain.least_fee}: where gas is dearer, nobody is paid for it"
            )
    usual = max(
        chain.least_stake,
        chain.market.stake_gas * 2 * chain.market.base_fee,
        least_stake(conditions.forfeit, conditions.charge),
    )
    if job.stake_now > MOST_TIMES * usual:
        found.append(f"its job takes stakes of {in_ether(job.stake_now)}, where {in_ether(usual)} would do")
    if conditions.forfeit // 2 < (gas := CHALLENGE_GAS * chain.market.base_fee):
        found.append(f"a challenge takes gas for {in_ether(gas)} now, more than half a forfeit")
    return found


def _shorter(offer: Offer) -> list[str]:
    """Return which periods are shorter than those of jobs by default, for which nodes keep themselves free."""
    periods = {
        "training period": (offer.train_period, TRAIN_S),
        "reveal period": (offer.reveal_period, PUBLIC.reveal),
        "challenge period": (offer.challenge_period, PUBLIC.challenge),
        "clock": (offer.clock, PUBLIC.clock),
        "verdict period": (offer.verdict_period, PUBLIC.verdict),
        "appeal period": (offer.appeal_period, PUBLIC.appeal),
    }
    return [
        f"its {name} has {have} s, jobs have {least} s by default"
        for name, (have, least) in periods.items()
        if have < least
    ]


def _offer(conditions: Conditions) -> Offer:
    rules = conditions.rules
    return Offer(
        reward=0,
        stake=conditions.stake,
        low_fee=conditions.low_fee,
        high_fee=conditions.high_fee,
        slots=SLOTS,
        train_period=conditions.train_period,
        reveal_period=conditions.reveal_period,
        challenge_period=conditions.challenge_period,
        clock=rules.clock,
        verdict_period=rules.verdict_period,
        appeal_period=rules.appeal_period,
    )
