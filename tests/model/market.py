"""Prices of jobs, which follow the price of gas: `feeOf`, `stakeOf` and `priceOf` of the contract `Jobs`
(docs/protocol.md, section 6)."""

from __future__ import annotations

from referee_py.jobs import claim_price, fee_at, refutation_price

from .escrow import Escrow
from .jobs import Job


class Market(Escrow):
    """The jobs of a chain, and each job's present stake, claim prices and gas price, in wei."""

    def __init__(self, stake_gas: int) -> None:
        super().__init__()
        self.jobs: dict[int, Job] = {}
        self.stake_gas = stake_gas
        """Least worth of a stake, in units of gas."""
        self.base_fee = 0
        """Base fee of the chain's block, in wei for a unit of gas."""

    def fee_of(self, job_id: int) -> int:
        """Return the job's present gas price, in wei for a unit of gas."""
        terms = self.jobs[job_id].terms
        return fee_at(self.base_fee, terms.low_fee, terms.high_fee)

    def stake_of(self, job_id: int) -> int:
        """Return the present stake of a slot, which is also the bond of an appeal, in wei."""
        return max(self.jobs[job_id].terms.stake, self.stake_gas * self.fee_of(job_id))

    def price_of(self, job_id: int, root: bytes) -> int:
        """Return the present stake of a challenger's claim of a root, in wei."""
        job = self.jobs[job_id]
        return claim_price(self.stake_of(job_id), job.founded, job.followers_of(root))

    def refutation_price_of(self, job_id: int, root: bytes) -> int:
        """Return the present stake of a refutation of a root, in wei."""
        group = self.jobs[job_id].group_of(root)
        return refutation_price(self.stake_of(job_id), len(group.queue) if group else 0)
