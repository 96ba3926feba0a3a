"""Closes late data requests for a claimed root, so that a job continues without the claimants that withhold data.

Anybody may close a request; the requester gets the prize, and the closer pays the gas. So as not to rely on goodwill,
each daemon that has a result of its own in a job closes requests for all other roots.
"""

from __future__ import annotations

from referee_py.availability import Place

from ..chain import Call, Contracts, Group, JobView, Snapshot
from ..chain.codec.availability import OpenRequest, close_call
from ..daemon.due import Due


class Closer:
    """Decides for the account ``me``."""

    def __init__(self, contracts: Contracts, me: str) -> None:
        self._contracts = contracts
        self._me = me
        self._quiet: dict[int, tuple[bytes, int, int]] = {}
        """By job: a root, its life, and the last second in which no request for it can be late."""

    def due(self, snapshot: Snapshot, job: JobView, right: bytes, *, helps: int | None = None) -> list[Due]:
        """Return the closing of one late request for a root other than ``right``. Raises RpcUnavailable and RpcCorrupt.
        ``helps``: see `Due`; to close a request of our own is never help. SAFETY: nor is one for a root that we claim
        closed, whatever ``right`` is: after a restart another of our results may be the first at hand.

        NOTE: at most one living group is in no match: the one that waits. Only that group can lose by a request now,
        and only its requests delay the job's end. The first closing ends its life, so one a round is enough.
        """
        group = next((group for group in job.groups if group.index == job.waiting), None)
        if group is None or group.dead or group.root == right or job.phase.ended or self._claims(job, group):
            return []
        root, life, until = self._quiet.get(job.id, (b"", 0, 0))
        if ((root, life) == (group.root, group.life) and snapshot.now <= until) or not snapshot.pending(
            job, group
        ):
            return []
        late = self._late(snapshot, job, group)
        if late is None:
            return []
        about = {"job": job.id, "root": group.root.hex(), "place": str(late.place)}
        made = close_call(self._contracts.subject(job.id, group.root), late.place)
        call = Call.batch(self._contracts.data_availability, made)
        return [Due(call, "data_request.late", about, helps=None if self._mine(late) else helps)]

    def _late(self, snapshot: Snapshot, job: JobView, group: Group) -> OpenRequest | None:
        """Return a late request for a group's data, our own first: half of the stakes goes to the requester."""
        now, ledger = snapshot.now, snapshot.ledger(job)
        opened = [d for d in ledger.open.values() if (d.root, d.life) == (group.root, group.life)]
        late = [request for request in opened if now > request.until]
        # SAFETY: requesters decide how long a ledger is, so it is not read every round. It is read again when an open
        # request may be late, or a new one, which has at least a verdict period.
        if not late:
            until = min([now + job.rules.verdict_period, *(request.until for request in opened)])
            self._quiet[job.id] = group.root, group.life, until
        return min(late, key=self._order, default=None)

    def _claims(self, job: JobView, group: Group) -> bool:
        ours = {claim.index for claim in job.claims if claim.owner.lower() == self._me.lower()}
        return not ours.isdisjoint(group.members)

    def _order(self, request: OpenRequest) -> tuple[bool, int, Place]:
        return not self._mine(request), request.until, request.place

    def _mine(self, request: OpenRequest) -> bool:
        return request.requester.lower() == self._me.lower()
