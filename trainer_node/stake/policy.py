"""The operator's choice of jobs, and what the node pays for others: reasons to leave a job, and a budget of gas.

A participant that has a result but no claim of its own in a job can make other parties' moves for them. That wins it
nothing, so the gas for it has a limit of its own, ``policy.max_gas_loss_eth`` for each job.
"""

from __future__ import annotations

import structlog

from ..chain import JobView
from ..settings.sections import Policy
from ..storage.database import Database

_log = structlog.get_logger(__name__)


def unwanted(job: JobView, policy: Policy) -> str | None:
    """Return why the operator wants nothing to do with a job, or None: its client or program is not on a list."""
    clients = {address.lower() for address in policy.clients}
    if clients and job.client.lower() not in clients:
        return f"its client is {job.client}; policy.clients allows {', '.join(policy.clients)}"
    program = job.program.hash().hex()
    if policy.programs and program not in policy.programs:
        return f"its program hash is {program}; policy.programs allows {', '.join(policy.programs)}"
    return None


def underpaid(job: JobView, policy: Policy) -> str | None:
    """Return why a trainer should not take a slot, or None: the slot's share of the reward is too small."""
    share = job.reward // job.slots
    if share >= policy.min_reward:
        return None
    return (
        f"a slot's share of its reward is {share} wei ({job.reward} wei for {job.slots} slots); "
        f"policy.min_reward_eth asks for {policy.min_reward}"
    )


def crowded(job: JobView, at_stake: set[int], policy: Policy) -> str | None:
    """Return why not to stake on one more job, or None. ``at_stake``: jobs that may still take ether from us."""
    others = len(at_stake - {job.id})
    if not policy.max_open_jobs or others < policy.max_open_jobs:
        return None
    return (
        f"{others} jobs hold stakes or reserves of ours; policy.max_open_jobs allows {policy.max_open_jobs}"
    )


class GasBudget:
    """Wei spent on gas for other parties, by job; kept in the database, so that a restart grants no new budget.

    ``limit``: wei for each job; None: no limit.
    """

    def __init__(self, database: Database, limit: int | None) -> None:
        self._database = database
        self._limit = limit
        self._told: set[int] = set()

    @property
    def pays(self) -> bool:
        """True if it pays for anything at all."""
        return self._limit != 0

    def allows(self, job: int, wei: int) -> bool:
        """Return whether a transaction for others may be sent whose gas costs ``wei``. Log a refusal once per job."""
        spent = self._spent(job)
        if self._limit is None or spent + wei <= self._limit:
            return True
        if job not in self._told:
            self._told.add(job)
            _log.warning(
                "gas.not_paid",
                job=job,
                reason=f"a move for another party costs {wei} wei and wins us nothing; {spent} wei are spent in this "
                f"job, policy.max_gas_loss_eth allows {self._limit}: raise it to help anyway",
            )
        return False

    def pay(self, job: int, wei: int) -> None:
        """Note that gas for another party has cost ``wei``."""
        self._database.put(_key(job), str(self._spent(job) + wei))

    def _spent(self, job: int) -> int:
        return int(self._database.get(_key(job), "0"))


def _key(job: int) -> str:
    return f"gas for others in job {job}"
