"""Demands the rounding logs that nobody serves, for whoever cannot replay a run without them.

    nobody serves them ─▶ demand all digests ─▶ demand all blocks ─▶ the run goes on with what was shown
                              │  64 at a time: what is demanded while more is open is twice as dear
                              └──────────── unanswered: close, and the job will be void; nothing more is demanded

The chain keeps what was demanded and answered, so a node that starts again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.demand import Piece, Place
from referee_py.demand.contract import (
    ANSWER_GAS,
    BYTE_GAS,
    CROWD,
    MAX_OPEN,
    STEP,
    demand_price,
    deposit_of,
    rank_of,
)
from referee_py.demand.pieces import check
from referee_py.game.jobs import fee_at
from referee_py.rounding.mode import is_rounded

from .acts import act
from .chain import Contracts, Job, JobPhase, Snapshot, TransactionManager
from .chain.demands import Demanded, Ledger
from .chain.fees import next_base_fee
from .chain.outbox import Value
from .patience import NONE, Patience
from .shown import Shown
from .workshop import Workshop

MAX_CLOSINGS = 64
"""In one transaction."""

_log = structlog.get_logger(__name__)


class Demander:
    """Demands for whoever holds the key of ``transactions``. ``max_wei`` bounds what a job may cost, deposits too;
    ``spare``: what no other job may need, by number."""

    def __init__(
        self,
        contracts: Contracts,
        transactions: TransactionManager,
        workshop: Workshop,
        max_wei: int,
        spare: Callable[[int], int],
    ) -> None:
        self._spare = spare
        self._sent: dict[int, int | None] = {}
        """By job: the block of our last demand; None while that is not known."""
        self._contracts = contracts
        self._transactions = transactions
        self._workshop = workshop
        self._max_wei = max_wei
        self._told: set[int] = set()

    def attend(self, snapshot: Snapshot, job: Job) -> bool:
        """Do what is due for the logs of a job that we could not get. Whether something is demanded, or was."""
        if not is_rounded(job.program.mode) or job.phase not in (JobPhase.CHALLENGE, JobPhase.CLOSING):
            return False
        program = self._workshop.starved(job.id)
        if program is None:
            return False
        ledger = snapshot.ledger(job)
        late = {
            key: demand
            for key, demand in ledger.open.items()
            if demand.root == job.logs and snapshot.now > demand.until
        }
        due = [key for key, demand in late.items() if self._is_mine(demand)]
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
            self._workshop.deliver(job.id, shown)
            return True
        places = [place for place in missing if (job.logs, place) not in ledger.open]
        # SAFETY: until a block is read that shows our last demand, we would pay for the same once more.
        if self._transactions.open():
            return True
        since = self._sent.setdefault(job.id, 0)
        if since is None:
            since = self._sent[job.id] = snapshot.head()
        if snapshot.block.number < since:
            return True
        if places and job.phase is JobPhase.CHALLENGE:
            self._demand(snapshot, job, places, ledger)
        return True

    def recover(self, snapshot: Snapshot, job: Job, patience: Patience = NONE) -> bool:
        """Get the deposits back that are left in a job that has ended, once gas is cheap. Whether there are any."""
        if not is_rounded(job.program.mode):
            return False
        ledger = snapshot.ledger(job)
        mine = [key for key, demand in ledger.open.items() if self._is_mine(demand)]
        if mine and not patience.lingers(snapshot.now - job.due):
            self._close(job, mine)
        return bool(mine)

    def _close(self, job: Job, keys: list[tuple[bytes, Place]]) -> None:
        act(self._transactions, self._contracts.closings(job.id, keys[:MAX_CLOSINGS]))

    def _demand(self, snapshot: Snapshot, job: Job, places: list[Place], ledger: Ledger) -> None:
        """Demand what comes first of these places: as much as costs no more than it does now.

        The rest comes when that is answered. What others have open makes it dearer, and is paid as far as the limit
        goes.
        """
        # NOTE: what gas counts for may rise until the demand is mined; what is too much is credited.
        price, enough = (
            demand_price(fee_at(base, job.low_fee, job.high_fee))
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
        mine = [demand for demand in opened if self._is_mine(demand)]
        patience = job.rules.verdict_period // 2
        if rank and mine and min(demand.until for demand in mine) - snapshot.now > patience:
            return
        batch: list[Place] = []
        for place in places[:count]:
            if least[place.piece] << rank > left:
                break
            left -= least[place.piece] << rank
            batch.append(place)
        if batch:
            value = Value(*(sum(deposit_of(p.piece, at) << rank for p in batch) for at in (price, enough)))
            _log.info("demand.made", job=job.id, places=len(batch), left=len(places) - len(batch), rank=rank)
            receipt = act(self._transactions, self._contracts.demand(job.id, job.logs, batch, value))
            self._sent[job.id] = receipt.block if receipt is not None else None
        elif not mine:
            self._leave(job, f"{len(places)} more pieces of them take more than is left")

    def _leave(self, job: Job, why: str) -> None:
        """Say once why others have to see to its logs."""
        if job.id not in self._told:
            self._told.add(job.id)
            reason = f"its logs are withheld; {why}, max_demands_eth allows {self._max_wei} wei"
            _log.warning("job.left_to_others", job=job.id, reason=reason)

    def _left(self, job: Job, ledger: Ledger) -> int:
        """What may still be spent on the job: the limit, less our deposits, and what became of those before.

        SAFETY: what others spend is theirs, or they could use our limit up.
        """
        left = self._max_wei
        for demand in ledger.open.values():
            if demand.root == job.logs and self._is_mine(demand):
                left -= demand.deposit
        for key, demand in ledger.answered.items():
            if demand.root == job.logs and self._is_mine(demand):
                first = deposit_of(demand.place.piece, demand.price)
                size = check(job.program, *key, ledger.answers[key])
                fee = min(demand.price * (ANSWER_GAS + BYTE_GAS * size), first)
                left -= fee + (demand.deposit - first) // 2
        return left

    def _is_mine(self, demand: Demanded) -> bool:
        return demand.demander.lower() == self._transactions.address.lower()
