"""Closes what is requested of a claimed root and late, so that a job goes on without whoever withholds.

Anybody may; the prize is the requester's, and the closer pays the gas. So it is left to nobody's goodwill: each daemon
that has a result of its own in a job does it, for roots that are not that result.
"""

from __future__ import annotations

import structlog

from referee_py.availability import Place

from .chain import Contracts, Group, JobView, Snapshot, TransactionManager
from .chain.data_requests import OpenRequest
from .submit import act

_log = structlog.get_logger(__name__)


class Closer:
    """Closes for whoever holds the key of ``transactions``."""

    def __init__(self, contracts: Contracts, transactions: TransactionManager) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._quiet: dict[int, tuple[bytes, int, int]] = {}
        """By job: a root, its life, and the last second in which nothing that is requested of it there can be late."""

    def attend(self, snapshot: Snapshot, job: JobView, right: bytes) -> None:
        """Close one late request of what is not the root that we hold ``right``. Raises RpcUnavailable and RpcCorrupt.

        NOTE: of the living groups at most one is in no match, the one that waits. Only it can lose by a request now,
        and only its requests keep a job from its end. The first closing ends its life, so a round needs
        only one.
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
            _log.info("data_request.late", job=job.id, root=group.root.hex(), place=str(late.place))
            act(self._transactions, self._contracts.closings(job.id, [(group.root, late.place)]))

    def _late(self, snapshot: Snapshot, job: JobView, group: Group) -> OpenRequest | None:
        """What is late of a group, ours before that of others: half of the stakes is for whoever requested it."""
        now, ledger = snapshot.now, snapshot.ledger(job)
        opened = [d for d in ledger.open.values() if (d.root, d.life) == (group.root, group.life)]
        late = [request for request in opened if now > request.until]
        # SAFETY: who pays for requests decides how long a ledger is. It is read again when something may be late: of
        # what is open by then, or of what is requested from now on, for which there is a verdict period at least.
        if not late:
            until = min([now + job.rules.verdict_period, *(request.until for request in opened)])
            self._quiet[job.id] = group.root, group.life, until
        return min(late, key=self._order, default=None)

    def _order(self, request: OpenRequest) -> tuple[bool, int, Place]:
        mine = request.requester.lower() == self._transactions.address.lower()
        return not mine, request.until, request.place
