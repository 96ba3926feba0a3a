"""The costs of a job before it is posted: gas, reward, stakes, deposits and time. In ether, and by a price of ether."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from referee_py.availability.prices import deposit_of, request_price
from referee_py.availability.state import Piece
from referee_py.errors import InvalidInput
from referee_py.jobs import fee_at

from ..chain import Call, ChainClient
from ..chain.account import AccountReader
from ..chain.codec.job import post_call
from ..chain.fees import ETHER, in_ether
from ..chain.pending import LATEST
from ..local.bundle import Bundle
from ..stake.min_stake import schedule_of, worst_gas
from .default_nodes import Market, as_posted
from .posting import Offer, check_offer, job_terms

ASKER = "0x" + "00" * 19 + "01"
"""Account for which gas is estimated: one without ether, so that nothing depends on the client's."""
USUAL_DISPUTE_GAS = 500_000, 1_200_000
"""Units of gas of the disputes that docs/measurements/disputes.md measures, all parties together."""
_PRICE = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-z]{1,8})\s*")


@dataclass(frozen=True, slots=True)
class Price:
    """Price of one ether in a currency."""

    amount: Decimal
    currency: str

    @classmethod
    def of(cls, text: str) -> Price:
        """Read a price such as "2500 USD". Raises InvalidInput."""
        found = _PRICE.fullmatch(text)
        if found is None:
            raise InvalidInput(
                f"{text[:40]!r} is no price of an ether; write a number and a currency: 2500USD"
            )
        return cls(Decimal(found[1]), found[2])

    def of_wei(self, wei: int) -> Decimal:
        """Return the price of an amount, in the currency."""
        return self.amount * wei / ETHER


@dataclass(frozen=True, slots=True)
class PostingCosts:
    """Costs of an offer in this block, in wei, units of gas and seconds.

    gas, gas_price   of the transaction that posts the job, as estimated; wei for a unit: base fee and tip
    reward, bounty   what the client puts up
    stake            of a slot, and the bond of an appeal
    deposit          of a first request for withheld data
    dispute_gas      of the worst dispute, in units
    quiet_s          the longest time to an accepted result that nobody disputes
    clock_s          of each side of a match; a verdict and an appeal have ``verdict_s`` and ``appeal_s`` besides
    """

    gas: int
    gas_price: int
    reward: int
    bounty: int
    slots: int
    stake: int
    deposit: int
    dispute_gas: int
    quiet_s: int
    clock_s: int
    verdict_s: int
    appeal_s: int

    @property
    def fee(self) -> int:
        """Wei for the gas of posting."""
        return self.gas * self.gas_price

    @property
    def total(self) -> int:
        """Wei that the client must have."""
        return self.fee + self.reward + self.bounty


def costs_of(
    client: ChainClient, bundle: Bundle, offer: Offer, uri: str, market: Market, tip: int
) -> PostingCosts:
    """Return what posting an offer costs now; ``tip``: wei that are offered for a unit of gas above the base fee.

    Raises as `check_offer`, Reverted if the contract refuses the offer, RpcUnavailable, RpcCorrupt.
    """
    check_offer(bundle, offer, uri)
    jobs = client.contracts.jobs
    terms = job_terms(bundle.terms, bundle.program.file_hash(), uri, client.deployment.referee, offer)
    function, given = post_call(terms)
    # NOTE: without the reward, so that the account of the estimate needs none.
    asked = AccountReader(client.web3, ASKER, client.contracts.decode_error, 1.0)
    gas, base_fee = asked.cost(Call.of(jobs, function, *given), LATEST)
    job = as_posted(offer, bundle.terms, market)
    fee = fee_at(market.base_fee, offer.low_fee, offer.high_fee)
    return PostingCosts(
        gas=gas,
        gas_price=base_fee + tip,
        reward=offer.reward,
        bounty=offer.bounty,
        slots=offer.slots,
        stake=job.stake_now,
        deposit=deposit_of(Piece.LEAF, request_price(fee)),
        dispute_gas=worst_gas(schedule_of(market.stake_gas)),
        quiet_s=offer.train_period + offer.watch_period + offer.reveal_period + offer.challenge_period,
        clock_s=offer.clock,
        verdict_s=offer.verdict_period if offer.verifiers else 0,
        appeal_s=offer.appeal_period if offer.verifiers else 0,
    )


def lines(costs: PostingCosts, price: Price | None) -> list[str]:
    """Return the costs as lines for people."""

    def worth(wei: int) -> str:
        words = in_ether(wei)
        return words if price is None else f"{words} ({price.of_wei(wei):,.2f} {price.currency})"

    low, high = (worth(gas * costs.gas_price) for gas in USUAL_DISPUTE_GAS)
    bounty = f", the bounty {worth(costs.bounty)}, which takes gas of its own" if costs.bounty else ""
    judged = f", a verdict {costs.verdict_s} s, an appeal {costs.appeal_s} s" if costs.verdict_s else ""
    return [
        f"you pay: gas {worth(costs.fee)}, about {costs.gas:,} units; the reward {worth(costs.reward)}, which comes "
        f"back if no result is accepted{bounty}; together {worth(costs.total)}",
        f"others put up: {worth(costs.stake)} for each slot ({costs.slots}), as much for an appeal, at least as much "
        "for another result",
        f"deposit of a request for withheld data: from {worth(costs.deposit)}",
        f"a dispute: {low} to {high} of gas for its parties, at most {costs.dispute_gas:,} units for one of them",
        f"time: at most {costs.quiet_s} s to a result that nobody disputes; a dispute has {costs.clock_s} s a "
        f"side{judged}",
    ]
