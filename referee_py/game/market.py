"""What jobs ask for, which follows what gas costs: the contract `Jobs`, `feeOf`, `stakeOf` and `priceOf`, in Python
(docs/protocol.md, section 6)."""

from __future__ import annotations

from .escrow import Escrow
from .jobs import Job, claim_price, fee_at


class Market(Escrow):
    """The jobs of a chain, and what a slot, a claim and a unit of gas count for in each, in wei."""

    def __init__(self, stake_gas: int) -> None:
        super().__init__()
        self.jobs: dict[int, Job] = {}
        self.stake_gas = stake_gas
        """How many units of gas a stake is worth at least."""
        self.base_fee = 0
        """What the chain's block asks for a unit of gas, in wei."""

    def fee_of(self, job_id: int) -> int:
        """What a unit of gas counts for in a job now, in wei."""
        terms = self.jobs[job_id].terms
        return fee_at(self.base_fee, terms.low_fee, terms.high_fee)

    def stake_of(self, job_id: int) -> int:
        """What a slot takes now, and the bond of an appeal."""
        return max(self.jobs[job_id].terms.stake, self.stake_gas * self.fee_of(job_id))

    def price_of(self, job_id: int, root: bytes) -> int:
        """What a challenger's claim of a root has to stake now."""
        job = self.jobs[job_id]
        claimed = job.group_of(root) is not None
        return claim_price(self.stake_of(job_id), job.founded, job.followers, claimed=claimed)
