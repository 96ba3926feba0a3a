"""Closes what is demanded of a claimed root and late, so that a job goes on without whoever withholds.

Anybody may; the prize is the demander's, and whoever closes pays the gas. So it is left to nobody's goodwill: each node
that has a result of its own in a job does it, for roots that are not that result.
"""

from __future__ import annotations

import structlog

from referee_py.demand import Place

from .acts import act
from .chain import Contracts, Group, Job, Snapshot, TransactionManager
from .chain.demands import Demanded

_log = structlog.get_logger(__name__)


class Closer:
    """Closes for whoever holds the key of ``transactions``."""

    def __init__(self, contracts: Contracts, transactions: TransactionManager) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._quiet: dict[int, tuple[bytes, int, int]] = {}
        """By job: a root, its life, and the last second in which nothing that is demanded of it there can be late."""

    def attend(self, snapshot: Snapshot, job: Job, right: bytes) -> None:
        """Close one late demand of what is not the root that we hold ``right``. Raises RpcUnavailable and RpcCorrupt.

        NOTE: of the living groups at most one is in no match, the one that waits. Only it can lose by a demand now, and
        only its demands keep a job from its end. The first closing ends its life, and one is all that a round needs.
        """
        group = next((group for group in job.groups if group.index == job.waiting), None)
        if group is None or group.dead or group.root == right or job.phase.ended:
            return
        root, life, until = self._quiet.get(job.id, (b"", 0, 0))
        if ((root, life) == (group.root, group.life) and snapshot.now <= until) or not snapshot.pending(
            job, group
        ):
            return
        late = self._late(snapshot, job, group)
        if late is not None:
            _log.info("demand.late", job=job.id, root=group.root.hex(), place=str(late.place))
            act(self._transactions, self._contracts.closings(job.id, [(group.root, late.place)]))

    def _late(self, snapshot: Snapshot, job: Job, group: Group) -> Demanded | None:
        """What is late of a group, ours before that of others: half of the stakes is for whoever demanded it."""
        now, ledger = snapshot.now, snapshot.ledger(job)
        opened = [d for d in ledger.open.values() if (d.root, d.life) == (group.root, group.life)]
        late = [demand for demand in opened if now > demand.until]
        # SAFETY: whoever pays for demands decides how long a ledger is. It is read again when something may be late: of
        # what is open by then, or of what is demanded from now on, for which there is a verdict period at least.
        if not late:
            until = min([now + job.rules.verdict_period, *(demand.until for demand in opened)])
            self._quiet[job.id] = group.root, group.life, until
        return min(late, key=self._order, default=None)

    def _order(self, demand: Demanded) -> tuple[bool, int, Place]:
        mine = demand.demander.lower() == self._transactions.address.lower()
        return not mine, demand.until, demand.place
