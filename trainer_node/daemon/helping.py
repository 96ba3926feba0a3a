"""Help for other parties: moves that win us nothing, and the gas that we pay for them.

    help      all moves about a result of ours in a job in which we have nothing to win or lose; moves for another's
              refutation that says the same as ours, always: if it loses, we can still send ours
    no help   moves in a hearing in which we are a player: our bond or the panel's pay may be in it; closing a request
              of our own

The roles say which it is: of a whole turn (`Turn.helps`), or of one transaction (`Due.helps`). The gas for it has a
limit of its own, ``policy.max_gas_loss_eth`` for each job, which is asked before anything is read for it, and when it
is sent.
"""

from __future__ import annotations

from ..chain.fees import ETHER
from ..reason import Reason
from ..settings.extent import Mode
from ..settings.settings import Settings
from ..stake.judge import JobJudge
from ..storage.database import Database


def max_gas_loss(settings: Settings) -> int | None:
    """Return the wei that gas for other parties may cost in one job; None is no limit.

    NOTE: if the operator sets none, a challenger that only defends helps whatever it costs, as that is its purpose.
    """
    limit = settings.policy.max_gas_loss_eth
    if limit is None:
        return None if settings.mode is Mode.DEFEND else 0
    return int(limit * ETHER)


class NotPaid(Reason):
    text = (
        "a move for another party costs {wei} wei and wins us nothing; {spent} wei are spent in this job, "
        "policy.max_gas_loss_eth allows {limit}: raise it to help anyway"
    )
    wei: int
    spent: int
    limit: int


class GasBudget:
    """Wei spent on gas for other parties, by job; kept in the database, so that a restart grants no new budget.

    ``limit``: wei for each job; None is no limit.
    """

    def __init__(self, database: Database, limit: int | None) -> None:
        self._database = database
        self._limit = limit
        self._judge = JobJudge("gas.not_paid")

    @property
    def pays(self) -> bool:
        """Whether it pays for anything at all."""
        return self._limit != 0

    def allows(self, job: int, wei: int) -> bool:
        """Return whether a transaction for others may be sent whose gas costs ``wei``. Log a refusal once per job."""
        spent, limit = self._spent(job), self._limit
        dear = limit is not None and spent + wei > limit
        return self._judge.takes(job, [NotPaid(wei, spent, limit) if limit is not None and dear else None])

    def pay(self, job: int, wei: int) -> None:
        """Note that gas for another party has cost ``wei``."""
        self._database.put(_key(job), str(self._spent(job) + wei))

    def _spent(self, job: int) -> int:
        return int(self._database.get(_key(job), "0"))


def _key(job: int) -> str:
    return f"gas for others in job {job}"
