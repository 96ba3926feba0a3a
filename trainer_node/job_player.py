"""Decides what to send to the Jobs contract: a slot, a commitment, a result, a claim, the end, the money."""

from __future__ import annotations

import structlog

from referee_py.commit import NO_LOG
from referee_py.execute import RunClaim
from referee_py.jobs import commitment

from .chain import Call, JobView, Receipt, Snapshot
from .chain.outbox import Value
from .decide import JobAction, later, unripe
from .due import Due
from .funds import kept, offer, refuting, top_up
from .patience import Patience
from .refuted import Refuted
from .salt import Salts
from .service import Daemon

_log = structlog.get_logger(__name__)


class JobPlayer:
    """Decides for the node's key. ``NO_LOG`` stands in the commitment of a challenger, who reveals no logs."""

    def __init__(self, node: Daemon) -> None:
        assert node.transactions is not None
        self._node = node
        self._account = node.transactions.account
        self._salts = Salts(self._account, node.database)
        self._jobs = node.client.contracts.jobs
        self._started_at = node.client.block().number
        self._committed: dict[bytes, int] = {}
        """By commitment to a challenge: the block that mined it."""
        self._unripe: set[tuple[int, int]] = set()
        """Jobs in which a challenge came too late, with the reclaim end for which that was logged."""

    def due(self, snapshot: Snapshot, job: JobView, act: JobAction, own: RunClaim | None) -> list[Due]:
        """Return the transaction of an action, unless it waits for cheaper gas. ``own``: our result, if any."""
        me, node = self._account.address, self._node
        market, max_fee = node.settings.market(snapshot.block.base_fee), node.settings.fees.max_fee
        # SAFETY: a block from before this process started may not show the stakes of an earlier process.
        claims = act in (JobAction.CHALLENGE, JobAction.REFUTE)
        stakes = act is JobAction.JOIN or (claims and not node.reserve.kept(job.id))
        if stakes and snapshot.block.number < self._started_at:
            return []
        if market.patient_s and later(job, me, act, own, market, snapshot.now, snapshot.commit_age()):
            return []
        if act is JobAction.JOIN:
            call = Call.of(self._jobs, "join", job.id, value=job.stake_sent)
            return [Due(call, stakes=(job.id, kept(job, me, max_fee)), exposes=True)]
        if act is JobAction.FINALIZE:
            return [Due(Call.of(self._jobs, "finalize", job.id))]
        if own is None:
            return []
        if act is JobAction.REFUTE:
            assert isinstance(own, Refuted)
            return self._refute(job, own)
        claim, salt = (own.root, own.last, list(own.path), node.public_uri), self._salt(job)
        if act is JobAction.COMMIT:
            return [Due(Call.of(self._jobs, "commit", job.id, self._commitment(job, own, own.logs)))]
        if act is JobAction.REVEAL:
            value = top_up(job, me)
            return [Due(Call.of(self._jobs, "reveal", job.id, claim, own.logs, salt, value=value))]
        return self._challenge(snapshot, job, own, (claim, salt))

    def collect(self, snapshot: Snapshot, job: JobView, held: list[int], patience: Patience) -> list[Due]:
        """Return how to get back what an ended job holds of our claim and refutations, once gas is cheap."""
        if patience.lingers(snapshot.now - job.due):
            return []
        return [Due(Call.of(self._jobs, "collect", job.id, index)) for index in held]

    def _challenge(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, shown: tuple[object, ...]
    ) -> list[Due]:
        """Return how to claim our root."""
        group = job.group_of_root(own.root)
        price = offer(job, own.root)
        self._reserve(job, price)
        # SAFETY: an open request for the group's data may be late already, and would cost us the claim, too. Once the
        # group has lost the root, we claim it again.
        if group is not None and not group.dead and snapshot.pending(job, group):
            return []
        claiming = Call.of(self._jobs, "challenge", job.id, *shown, value=price)
        too_late = unripe(job, own.root, snapshot.commit_age(), snapshot.now)
        return self._opened(job, self._commitment(job, own, NO_LOG), claiming, too_late)

    def _refute(self, job: JobView, own: Refuted) -> list[Due]:
        """Return how to refute an interval of a claimed run."""
        price = refuting(job, own.against)
        self._reserve(job, price)
        where = self._node.client.deployment.chain_id, str(self._jobs.address), job.id, self._account.address
        committed = commitment(*where, own.root, own.computed, own.against, self._salt(job))
        told = own.against, own.index, own.claimed, own.computed, list(own.siblings), self._node.public_uri
        return self._opened(
            job, committed, Call.of(self._jobs, "refute", job.id, told, self._salt(job), value=price), None
        )

    def _reserve(self, job: JobView, price: Value) -> None:
        """SAFETY: also while it waits for a request or for its commitment, or another job might take the money."""
        later = kept(job, self._account.address, self._node.settings.fees.max_fee)
        self._node.reserve.staking(job.id, price.wanted + later)

    def _opened(self, job: JobView, committed: bytes, shown: Call, too_late: str | None) -> list[Due]:
        """Return the commitment first, and what it is to once the commitment is seen on the chain.

        NOTE: until the commitment is old enough, the simulation refuses what it is to, which costs nothing.
        """
        # NOTE: a snapshot is some blocks old and may not show our commitment.
        head = self._node.client.at_head()
        if head.committed_at(job.id, committed):
            return [Due(shown, exposes=True)]
        if too_late is not None:
            if (job.id, job.reclaim_end) not in self._unripe:
                self._unripe.add((job.id, job.reclaim_end))
                _log.warning("challenge.too_late", job=job.id, reason=too_late)
            return []
        # NOTE: an endpoint may consist of several machines, some of which are behind the head.
        if head.block.number < self._committed.get(committed, 0):
            return []

        def sent(receipt: Receipt | None) -> None:
            self._committed[committed] = receipt.block if receipt is not None else 0

        return [Due(Call.of(self._jobs, "commitChallenge", job.id, committed), then=sent, exposes=True)]

    def _commitment(self, job: JobView, own: RunClaim, logs: bytes) -> bytes:
        where = self._node.client.deployment.chain_id, str(self._jobs.address), job.id, self._account.address
        return commitment(*where, own.root, own.last, logs, self._salt(job))

    def _salt(self, job: JobView) -> bytes:
        return self._salts.of(self._node.client.deployment.chain_id, str(self._jobs.address), job.id)
