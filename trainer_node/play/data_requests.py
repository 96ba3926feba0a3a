"""Requests on the chain the rounding logs that nobody serves, for a node that cannot replay a run without them.

    nobody serves them ─▶ request all digests ─▶ request all blocks ─▶ the run resumes with the logs shown
                              │  64 at a time: the deposit doubles with every 64 open pieces
                              └──────────── unanswered: close, and the job will be void; nothing more is requested

The chain keeps the requests and responses, so a restarted node continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice

from referee_py.availability import Piece, Place
from referee_py.availability.pieces import check, check_kind, check_place
from referee_py.availability.prices import deposit_of, rank_of, request_price
from referee_py.errors import InvalidInput
from referee_py.jobs import fee_at
from referee_py.params import ANSWER_GAS, BYTE_GAS, CROWD, MAX_OPEN, STEP
from referee_py.walk.refusals import Refusal

from ..chain import Call, Contracts, JobPhase, JobView, Receipt, Snapshot, TransactionManager
from ..chain.codec.availability import Ledger, OpenRequest, close_call, request_call
from ..chain.fees import ETHER, next_base_fee
from ..chain.on_their_way import OnTheirWay
from ..chain.outbox import Value
from ..compute.job_runner import JobRunner
from ..daemon.due import Due
from ..errors import RpcCorrupt
from ..reason import Reason
from ..run.onchain_logs import Shown
from ..stake.gas_patience import NONE, Patience, Slack
from ..stake.judge import JobJudge

LEAST_WEI = ETHER // 2
"""Limit of the cost of any job's logs, unless the settings say otherwise: half an ether."""
MAX_CLOSINGS = 64
"""Requests closed in one transaction."""


class LogsWithheld(Reason):
    text = (
        "its logs are withheld; {why}, max_data_requests_eth allows {limit} wei; raise it, or leave the job to "
        "others"
    )
    why: str
    limit: int


class DataRequester:
    """Requests logs for the account of ``transactions``. ``max_wei`` bounds the cost of a job, deposits included; None
    is `limit_of` the job. ``spare`` returns the wei that no job other than the given one may need."""

    def __init__(
        self,
        contracts: Contracts,
        transactions: TransactionManager,
        runner: JobRunner,
        max_wei: int | None,
        spare: Callable[[int], int],
    ) -> None:
        self._spare = spare
        self._known: set[int] = set()
        """Jobs of which it is known what an earlier process may have requested."""
        self._right: dict[int, set[int]] = {}
        """By job: marks of the answers that the contract cannot have refused."""
        self._requests_sent = OnTheirWay(transactions.open)
        self._contracts = contracts
        self._transactions = transactions
        self._runner = runner
        self._max_wei = max_wei
        self._judge = JobJudge()

    def due(self, snapshot: Snapshot, job: JobView, *, opens: bool = False) -> list[Due] | None:
        """Return what is due for logs that we could not fetch; None if we do not request the logs of this job.
        ``opens``: what deposits for them, see `Due`."""
        if not job.program.arithmetic.follows_logs or job.phase not in (JobPhase.CHALLENGE, JobPhase.CLOSING):
            return None
        starved = self._runner.starved(job.id)
        program = starved or self._runner.lacks_logs(job.id)
        if program is None:
            return None
        ledger = snapshot.ledger(job, partial(self._check, job))
        shown = Shown(job.program, program, job.logs, ledger.answers)
        if starved is None:
            # NOTE: what was computed by logs that the chain has shown gets them from there again. Nothing is requested
            # before a move needs it.
            if next(shown.missing(), None) is None:
                self._runner.deliver(job.id, shown)
            return None
        late = {
            key: request
            for key, request in ledger.open.items()
            if request.root == job.logs and snapshot.now > request.until
        }
        due = [key for key, request in late.items() if self._is_mine(request)]
        # NOTE: the first closed request, of any party, shows that logs are withheld. The job is open, and requests that
        # are not late stay open.
        if late and not due and job.finder is None:
            due = list(late)[:1]
        if due:
            return [self._closings(job, due)]
        # SAFETY: once logs are withheld, the job ends void, and we pay for no more of them.
        if job.finder is not None:
            return []
        # SAFETY: the run's author chooses how many places there are, and this is the loop's thread: we list no more of
        # them than are open and can be requested at once.
        missing = list(islice(shown.missing(), MAX_OPEN + STEP))
        if not missing:
            self._runner.deliver(job.id, shown)
            return []
        places = [place for place in missing if (job.logs, place) not in ledger.open]
        # SAFETY: until we have read a block that shows our last request, we would pay for the same places again.
        if job.id not in self._known:
            self._known.add(job.id)
            self._requests_sent.sent(job.id)
        shows = self._requests_sent.shows(job.id, snapshot.block.number, snapshot.head)
        if not shows or not places or job.phase is not JobPhase.CHALLENGE:
            return []
        made = self._requests(snapshot, job, places, ledger, shown.least_gas())
        return [replace(due, opens=opens) for due in made]

    def _check(self, job: JobView, ledger: Ledger) -> None:
        """Raise RpcCorrupt for an answer about a job's logs that the contract would have refused.

        SAFETY: that it has checked them is what one endpoint says. A run would follow false logs to its end, and claim
        what comes out, or find nothing wrong.
        """
        right = self._right.setdefault(job.id, set())
        for (root, place), answer in ledger.answers.items():
            # NOTE: each is checked once. This process's own hash tells them apart, which nobody else knows.
            if root != job.logs or (mark := hash((place, answer))) in right:
                continue
            try:
                check_place(job.program, place)
                check_kind(place, answer)
                check(job.program, root, place, answer)
            except (Refusal, InvalidInput) as error:
                told = f"an answer about the logs of job {job.id} that the contract refuses: {error}"
                raise RpcCorrupt(f"the endpoint shows {told}; others are asked") from error
            right.add(mark)

    def refunds(self, snapshot: Snapshot, job: JobView, patience: Patience = NONE) -> list[Due] | None:
        """Return how to get our deposits back from an ended job, once gas is cheap; None if it holds none."""
        if not job.program.arithmetic.follows_logs:
            return None
        ledger = snapshot.ledger(job)
        mine = [key for key, request in ledger.open.items() if self._is_mine(request)]
        if not mine:
            return None
        return [] if patience.waits(Slack(job.due - snapshot.now)) else [self._closings(job, mine)]

    def _closings(self, job: JobView, keys: list[tuple[bytes, Place]]) -> Due:
        subject = self._contracts.subject
        made = (close_call(subject(job.id, root), place) for root, place in keys[:MAX_CLOSINGS])
        return Due(Call.batch(self._contracts.data_availability, *made))

    def _requests(
        self, snapshot: Snapshot, job: JobView, places: list[Place], ledger: Ledger, least_gas: int
    ) -> list[Due]:
        """Return a request for the first of these places: as many as the present deposit applies to.

        The others follow once these are answered. Open requests of others raise the deposit; we pay up to the limit.
        Nothing is requested where the limit is less than the fees of ``least_gas``, which all logs take at least.
        """
        # NOTE: the price of gas may rise until the request is mined; the excess is credited.
        price, enough = (
            request_price(fee_at(base, job.low_fee, job.high_fee))
            for base in (2 * job.base_fee, next_base_fee(job.base_fee))
        )
        least = {piece: deposit_of(piece, price) for piece in (Piece.DIGESTS, Piece.BLOCKS)}
        opened = [d for d in ledger.open.values() if d.root == job.logs]
        limit = self._limit(job)
        left = limit - self._spent(job, ledger)
        # SAFETY: fewer than CROWD open pages do not move the job's end, and the logs might come too late.
        crowd = CROWD * deposit_of(Piece.BLOCKS, enough)
        if left == limit < crowd:
            self._leave(job, f"to get them in time takes {crowd} wei of deposits")
            return []
        # SAFETY: pieces without the rest are of no use, and their fees are paid to who withheld them.
        if left < enough * least_gas:
            self._leave(job, f"their digests alone take {enough * least_gas} wei of fees")
            return []
        left = min(left, self._spare(job.id))
        rank = rank_of(len(opened), 0)
        count = min(STEP - len(opened) % STEP, MAX_OPEN - len(opened))
        # NOTE: at a higher rank we first wait for responses to our own requests, but leave time for a challenge.
        mine = [request for request in opened if self._is_mine(request)]
        patience = job.rules.verdict_period // 2
        if rank and mine and min(request.until for request in mine) - snapshot.now > patience:
            return []
        batch: list[Place] = []
        for place in places[:count]:
            if least[place.piece] << rank > left:
                break
            left -= least[place.piece] << rank
            batch.append(place)
        if not batch:
            if not mine:
                self._leave(job, "more pieces of them cost more than is left")
            return []

        def sent(receipt: Receipt | None) -> None:
            if receipt is not None:
                self._requests_sent.mined(job.id, receipt.block)

        self._requests_sent.sent(job.id)
        value = Value(*(sum(deposit_of(p.piece, at) << rank for p in batch) for at in (price, enough)))
        about = {"job": job.id, "places": len(batch), "rank": rank}
        made = request_call(self._contracts.subject(job.id, job.logs), batch)
        call = Call.batch(self._contracts.data_availability, made, value=value)
        return [Due(call, "data_request.made", about, then=sent, exposes=True)]

    def _leave(self, job: JobView, why: str) -> None:
        """Log once why we leave a job's logs to others."""
        self._judge.takes(job.id, [LogsWithheld(why, self._limit(job))])

    def _limit(self, job: JobView) -> int:
        return limit_of(job) if self._max_wei is None else self._max_wei

    def _spent(self, job: JobView, ledger: Ledger) -> int:
        """Return the wei that our requests have taken of a job's limit: our deposits and the cost of past requests.

        SAFETY: requests of others do not count, or they could use up our limit.
        """
        spent = 0
        for request in ledger.open.values():
            if request.root == job.logs and self._is_mine(request):
                spent += request.deposit
        for key, request in ledger.answered.items():
            if request.root == job.logs and self._is_mine(request):
                first = deposit_of(request.place.piece, request.price)
                size = check(job.program, *key, ledger.answers[key])
                fee = min(request.price * (ANSWER_GAS + BYTE_GAS * size), first)
                spent += fee + (request.deposit - first) // 2
        return spent

    def _is_mine(self, request: OpenRequest) -> bool:
        return request.requester.lower() == self._transactions.address.lower()


def limit_of(job: JobView) -> int:
    """Return the wei that the logs of a job may cost us where the settings do not say it: half an ether, or where gas
    is dear the deposits that make them come in time, but no more than what the job decides about.

    SAFETY: the client chooses ``low_fee``, and his trainer may be paid for what we request. So the deposits are
    those at twice the present price, of which the job's lower bound can make no more.
    """
    price = request_price(fee_at(2 * job.base_fee, 0, job.high_fee))
    worth = job.reward + sum(claim.stake for claim in job.claims if not claim.lost)
    return max(LEAST_WEI, min(CROWD * deposit_of(Piece.BLOCKS, price), worth))
