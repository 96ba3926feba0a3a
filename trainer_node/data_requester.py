"""DataAvailability the rounding logs that nobody serves, for whoever cannot replay a run without them.

    nobody serves them ─▶ request all digests ─▶ request all blocks ─▶ the run goes on with what was shown
                              │  64 at a time: what is requested while more is open is twice as dear
                              └──────────── unanswered: close, and the job will be void; nothing more is requested

The chain keeps what was requested and answered, so a node that starts again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.availability import Piece, Place
from referee_py.availability.pieces import check
from referee_py.availability.prices import deposit_of, rank_of, request_price
from referee_py.jobs import fee_at
from referee_py.params import ANSWER_GAS, BYTE_GAS, CROWD, MAX_OPEN, STEP
from referee_py.program.mode import is_rounded

from .chain import Contracts, JobPhase, JobView, Snapshot, TransactionManager
from .chain.data_requests import Ledger, OpenRequest
from .chain.fees import next_base_fee
from .chain.outbox import Value
from .job_runner import JobRunner
from .onchain_logs import Shown
from .patience import NONE, Patience
from .submit import act

MAX_CLOSINGS = 64
"""In one transaction."""

_log = structlog.get_logger(__name__)


class DataRequester:
    """Requests logs for the account of ``transactions``. ``max_wei`` bounds what a job may cost, deposits included;
    ``spare``: what no other job may need, by number."""

    def __init__(
        self,
        contracts: Contracts,
        transactions: TransactionManager,
        runner: JobRunner,
        max_wei: int,
        spare: Callable[[int], int],
    ) -> None:
        self._spare = spare
        self._sent: dict[int, int | None] = {}
        """By job: the block of our last request; None while that is not known."""
        self._contracts = contracts
        self._transactions = transactions
        self._runner = runner
        self._max_wei = max_wei
        self._told: set[int] = set()

    def attend(self, snapshot: Snapshot, job: JobView) -> bool:
        """Do what is due for the logs of a job that we could not get. Whether something is requested, or was."""
        if not is_rounded(job.program.mode) or job.phase not in (JobPhase.CHALLENGE, JobPhase.CLOSING):
            return False
        program = self._runner.starved(job.id)
        if program is None:
            return False
        ledger = snapshot.ledger(job)
        late = {
            key: request
            for key, request in ledger.open.items()
            if request.root == job.logs and snapshot.now > request.until
        }
        due = [key for key, request in late.items() if self._is_mine(request)]
        # NOTE: the first that is closed says that logs are withheld, whosever it is. The job goes on, and what is not
        # late stays open.
        if late and not due and job.finder is None:
            due = list(late)[:1]
        if due:
            self._close(job, due)
            return True
        # SAFETY: such a job ends void, whatever is shown; and nobody pays for what nobody has.
        if job.finder is not None:
            return True
        shown = Shown(job.program, program, job.logs, ledger.answers)
        missing = shown.missing()
        if not missing:
            self._runner.deliver(job.id, shown)
            return True
        places = [place for place in missing if (job.logs, place) not in ledger.open]
        # SAFETY: until a block is read that shows our last request, we would pay for the same once more.
        if self._transactions.open():
            return True
        since = self._sent.setdefault(job.id, 0)
        if since is None:
            since = self._sent[job.id] = snapshot.head()
        if snapshot.block.number < since:
            return True
        if places and job.phase is JobPhase.CHALLENGE:
            self._request(snapshot, job, places, ledger)
        return True

    def recover(self, snapshot: Snapshot, job: JobView, patience: Patience = NONE) -> bool:
        """Get the deposits back that are left in a job that has ended, once gas is cheap. Whether there are any."""
        if not is_rounded(job.program.mode):
            return False
        ledger = snapshot.ledger(job)
        mine = [key for key, request in ledger.open.items() if self._is_mine(request)]
        if mine and not patience.lingers(snapshot.now - job.due):
            self._close(job, mine)
        return bool(mine)

    def _close(self, job: JobView, keys: list[tuple[bytes, Place]]) -> None:
        act(self._transactions, self._contracts.closings(job.id, keys[:MAX_CLOSINGS]))

    def _request(self, snapshot: Snapshot, job: JobView, places: list[Place], ledger: Ledger) -> None:
        """DataRequest what comes first of these places: as much as costs no more than it does now.

        The rest comes when that is answered. What others have open makes it dearer, and is paid as far as the limit
        goes.
        """
        # NOTE: what gas counts for may rise until the request is mined; what is too much is credited.
        price, enough = (
            request_price(fee_at(base, job.low_fee, job.high_fee))
            for base in (2 * job.base_fee, next_base_fee(job.base_fee))
        )
        least = {piece: deposit_of(piece, price) for piece in (Piece.DIGESTS, Piece.BLOCKS)}
        opened = [d for d in ledger.open.values() if d.root == job.logs]
        left = self._left(job, ledger)
        # SAFETY: who waits for fewer pages puts no end off by it, and pays for what may never be whole.
        crowd = CROWD * deposit_of(Piece.BLOCKS, enough)
        if left == self._max_wei < crowd:
            self._leave(job, f"to have them shown in time takes {crowd} wei of deposits")
            return
        left = min(left, self._spare(job.id))
        rank = rank_of(len(opened), 0)
        count = min(STEP - len(opened) % STEP, MAX_OPEN - len(opened))
        # NOTE: of our own we wait for the answers first, unless they take their time, which a challenge needs.
        mine = [request for request in opened if self._is_mine(request)]
        patience = job.rules.verdict_period // 2
        if rank and mine and min(request.until for request in mine) - snapshot.now > patience:
            return
        batch: list[Place] = []
        for place in places[:count]:
            if least[place.piece] << rank > left:
                break
            left -= least[place.piece] << rank
            batch.append(place)
        if batch:
            value = Value(*(sum(deposit_of(p.piece, at) << rank for p in batch) for at in (price, enough)))
            _log.info(
                "data_request.made", job=job.id, places=len(batch), left=len(places) - len(batch), rank=rank
            )
            receipt = act(self._transactions, self._contracts.request(job.id, job.logs, batch, value))
            self._sent[job.id] = receipt.block if receipt is not None else None
        elif not mine:
            self._leave(job, f"{len(places)} more pieces of them take more than is left")

    def _leave(self, job: JobView, why: str) -> None:
        """Say once why others have to see to its logs."""
        if job.id not in self._told:
            self._told.add(job.id)
            reason = f"its logs are withheld; {why}, max_data_requests_eth allows {self._max_wei} wei"
            _log.warning("job.left_to_others", job=job.id, reason=reason)

    def _left(self, job: JobView, ledger: Ledger) -> int:
        """What may still be spent on the job: the limit, less our deposits, and what became of those before.

        SAFETY: what others spend is theirs, or they could use our limit up.
        """
        left = self._max_wei
        for request in ledger.open.values():
            if request.root == job.logs and self._is_mine(request):
                left -= request.deposit
        for key, request in ledger.answered.items():
            if request.root == job.logs and self._is_mine(request):
                first = deposit_of(request.place.piece, request.price)
                size = check(job.program, *key, ledger.answers[key])
                fee = min(request.price * (ANSWER_GAS + BYTE_GAS * size), first)
                left -= fee + (request.deposit - first) // 2
        return left

    def _is_mine(self, request: OpenRequest) -> bool:
        return request.requester.lower() == self._transactions.address.lower()
