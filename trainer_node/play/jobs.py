"""Decides what to send to the Jobs contract: a slot, a commitment, a result, a claim, the end, the money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from referee_py.commit import NO_LOG
from referee_py.execute import RunClaim
from referee_py.jobs import commitment

from ..chain import Call, JobView, Receipt, Snapshot
from ..daemon.due import Due
from ..daemon.service import Daemon
from ..run.refutation import Refuted
from ..stake.deadlines import Unripe, last_moment, unripe
from ..stake.funds import kept, living_stakes, offer, refuting, top_up
from ..stake.gas_patience import Patience, Slack
from .actions import JobAction, later
from .salts import Salts

JOIN_LATENCIES, LEAST_JOIN_S = 4, 60
"""Life of a transaction that takes a slot: so many times what a transaction takes, and so many seconds at least."""

_log = structlog.get_logger(__name__)


class JobPlayer:
    """Decides for the node's key. ``NO_LOG`` stands in the commitment of a challenger, who reveals no logs."""

    def __init__(self, node: Daemon) -> None:
        assert node.transactions is not None
        self._node = node
        self._account = node.transactions.account
        self._salts = Salts(self._account, node.database)
        self._jobs = node.client.contracts.jobs
        self._started_at = node.client.head()
        self._committed = node.remembered.of_jobs(dict[bytes, int])
        """By job and commitment to a challenge: the block that mined it."""
        self._refuted = node.remembered.of_jobs(dict[bytes, int])
        """By job and commitment to a refutation: the block that mined the refutation."""
        self._unripe = node.remembered.of_jobs(set[int])
        """By job: the reclaim ends for which it was logged that a challenge came too late."""

    def due(self, snapshot: Snapshot, job: JobView, act: JobAction, own: RunClaim | None) -> list[Due]:
        """Return the transaction of an action, unless it waits for cheaper gas. ``own``: our result, if any."""
        me, node = self._account.address, self._node
        market, max_fee = node.market(snapshot.block.base_fee), node.settings.fees.max_fee
        # SAFETY: a block from before this process started may not show the stakes of an earlier process.
        claims = act is JobAction.CHALLENGE and not node.reserve.kept(job.id)
        stakes = act is JobAction.JOIN or claims
        if stakes and snapshot.block.number < self._started_at:
            return []
        if market.patient_s and later(job, me, act, own, market, snapshot.now, snapshot.commit_age()):
            return []
        if act is JobAction.JOIN:
            # SAFETY: whether there is time for the run was decided now. After an outage it is decided again.
            life = max(LEAST_JOIN_S, int(JOIN_LATENCIES * node.settings.latency_s))
            # NOTE: by the time of blocks, which pauses do not stop.
            until = snapshot.block.timestamp + life
            call = replace(Call.of(self._jobs, "join", job.id, value=job.stake_sent), until=until)
            return [Due(call, stakes=(job.id, kept(job, me, max_fee)), exposes=True, opens=True)]
        if act is JobAction.RESIGN:
            # SAFETY: many slots may end in the same second, so nothing waits for this; while it is on its way, it is
            # not sent again.
            # SAFETY: it cannot be taken back, and what endpoints disagree about may be in time after all. But in the
            # last moment one that is silent must not cost the whole stake, instead of a 32nd.
            sends_s = node.duties.sends_s(job.id)
            urgent = last_moment(job, node.settings.latency_s, sends_s, snapshot.now)
            call = Call.of(self._jobs, "resign", job.id)
            return [Due(call, exposes=True, urgent=urgent, sent=lambda _: node.duties.resigned.note(job))]
        if act is JobAction.FINALIZE:
            return [Due(Call.of(self._jobs, "finalize", job.id))]
        if own is None:
            return []
        claim, salt = (own.root, own.last, list(own.path), node.public_uri), self._salt(job)
        if act is JobAction.COMMIT:
            return [Due(Call.of(self._jobs, "commit", job.id, self._commitment(job, own, own.logs)))]
        if act is JobAction.REVEAL:
            value = top_up(job, me)
            return [Due(Call.of(self._jobs, "reveal", job.id, claim, own.logs, salt, value=value))]
        return self._challenge(snapshot, job, own, (claim, salt))

    def collect(self, snapshot: Snapshot, job: JobView, held: list[int], patience: Patience) -> list[Due]:
        """Return how to get back what an ended job holds of our claim and refutations, once gas is cheap."""
        if patience.waits(Slack(job.due - snapshot.now)):
            return []
        return [Due(Call.of(self._jobs, "collect", job.id, index)) for index in held]

    def _challenge(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, shown: tuple[object, ...]
    ) -> list[Due]:
        """Return how to claim our root."""
        group = job.group_of_root(own.root)
        price = offer(job, own.root)
        self._reserve(job, price.wanted)
        # SAFETY: an open request for the group's data may be late already, and would cost us the claim, too. Once the
        # group has lost the root, we claim it again.
        if group is not None and not group.dead and snapshot.pending(job, group):
            return []
        claiming = Due(Call.of(self._jobs, "challenge", job.id, *shown, value=price), exposes=True)
        too_late = unripe(job, own.root, snapshot.commit_age(), snapshot.now)
        return self._opened(job, self._commitment(job, own, NO_LOG), claiming, too_late)

    def refute(self, snapshot: Snapshot, job: JobView, lie: Refuted, all_now: Sequence[Refuted]) -> list[Due]:
        """Return how to refute an interval of a claimed run. ``all_now``: all that is to be refuted in the job now."""
        # SAFETY: a block from before this process started may not show what an earlier process has sent.
        if snapshot.block.number < self._started_at:
            return []
        prices = [refuting(job, other.against) for other in all_now]
        self._reserve(job, sum(price.wanted for price in prices), stakes=len(prices))
        where, salt = self._where(job), self._refutation_salt(job, lie)
        committed = commitment(*where, lie.root, lie.computed, lie.against, salt)
        if self._refutes(snapshot, job, lie, committed):
            return []

        def sent(receipt: Receipt | None) -> None:
            self._refuted[job.id][committed] = receipt.block if receipt is not None else 0

        told = lie.against, lie.index, lie.claimed, lie.computed, list(lie.siblings), self._node.public_uri
        price = refuting(job, lie.against)
        call = Call.of(self._jobs, "refute", job.id, told, salt, value=price)
        return self._opened(job, committed, Due(call, exposes=True, then=sent), None)

    def _refutes(self, snapshot: Snapshot, job: JobView, lie: Refuted, committed: bytes) -> bool:
        """Return whether our refutation is on the chain, or may be, as far as its newest block shows.

        SAFETY: the contract takes the same refutation again, at twice the price, and a snapshot is some blocks old.
        """
        # SAFETY: what a reorganisation takes back waits in the pools again, where neither outbox nor head show it. Once
        # a snapshot must show it, it is mined again, or nobody has it.
        mined = self._refuted[job.id].get(committed, 0)
        if snapshot.block.number < mined:
            return True

        def shown(head: Snapshot) -> bool:
            # NOTE: an endpoint may consist of several machines, some of which are behind the head.
            if head.block.number < mined:
                return True
            now = head.job(job.id, told=False)
            target = now.group_of_root(lie.against)
            stakes = {claim.group for claim in now.stakes_of(self._account.address)}
            return target is not None and any(
                group.refutes == target.index and group.root == lie.root and group.index in stakes
                for group in now.groups
            )

        return self._node.client.newest(shown)

    def _reserve(self, job: JobView, price: int, stakes: int = 1) -> None:
        """Keep ``price`` wei for so many stakes, and what the job may take from us once they are given.

        SAFETY: also while they wait for a request or for their commitments, or another job might take the money.
        """
        later = kept(job, self._account.address, self._node.settings.fees.max_fee, more=stakes)
        self._node.reserve.staking(job.id, price + later)
        self._node.duties.staked(job.id, living_stakes(job, self._account.address) + stakes)

    def _opened(self, job: JobView, committed: bytes, shown: Due, too_late: Unripe | None) -> list[Due]:
        """Return the commitment first, and what it is to once the commitment is seen on the chain.

        NOTE: until the commitment is old enough, the simulation refuses what it is to, which costs nothing.
        """
        mined = self._committed[job.id].get(committed, 0)
        # NOTE: a snapshot is some blocks old and may not show our commitment; and an endpoint may consist of several
        # machines, some of which are behind the head.
        there, late = self._node.client.newest(
            lambda head: (head.committed_at(job.id, committed) > 0, head.block.number < mined)
        )
        if there:
            return [shown]
        if too_late is not None:
            if job.reclaim_end not in self._unripe[job.id]:
                self._unripe[job.id].add(job.reclaim_end)
                _log.warning("challenge.too_late", job=job.id, reason=str(too_late))
            return []
        if late:
            return []

        def sent(receipt: Receipt | None) -> None:
            self._committed[job.id][committed] = receipt.block if receipt is not None else 0

        return [Due(Call.of(self._jobs, "commitChallenge", job.id, committed), then=sent, exposes=True)]

    def _commitment(self, job: JobView, own: RunClaim, logs: bytes) -> bytes:
        return commitment(*self._where(job), own.root, own.last, logs, self._salt(job))

    def _where(self, job: JobView) -> tuple[int, str, int, str]:
        """Return what binds a commitment to a job and to us."""
        chain_id = self._node.client.deployment.chain_id
        return chain_id, str(self._jobs.address), job.id, self._account.address

    def _salt(self, job: JobView) -> bytes:
        return self._salts.of(*self._where(job)[:3])

    def _refutation_salt(self, job: JobView, lie: Refuted) -> bytes:
        return self._salts.of_refutation(*self._where(job)[:3], lie.against, lie.root)
