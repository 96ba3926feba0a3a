"""Demands the rounding logs that nobody serves, for whoever cannot replay a run without them.

    nobody serves them ─▶ demand all digests ─▶ demand all blocks ─▶ the run goes on with what was shown
                              └──────────── unanswered: close, and the job is void

The chain keeps what was demanded and answered, so a node that starts again goes on where it was.
"""

from __future__ import annotations

import structlog

from referee_py.demand import Piece, Place
from referee_py.demand.contract import ANSWER_GAS, BYTE_GAS, MAX_BYTES
from referee_py.demand.pieces import check
from referee_py.rounding.mode import is_rounded

from .acts import act
from .chain import Contracts, Job, JobPhase, Snapshot, TransactionManager
from .chain.demands import Ledger
from .shown import Shown
from .workshop import Workshop

MAX_PLACES = 64
"""That are demanded in one transaction."""

_log = structlog.get_logger(__name__)


class Demander:
    """Demands for whoever holds the key of ``transactions``. ``max_wei`` bounds what a job may cost, deposits too."""

    def __init__(
        self, contracts: Contracts, transactions: TransactionManager, workshop: Workshop, max_wei: int
    ) -> None:
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
        late = [d for d in ledger.open.values() if d.root == job.logs and snapshot.now > d.until]
        if late:
            # NOTE: the first makes the job void, and with that all others are over.
            self._close(job, ledger, (late[0].root, late[0].place))
            return True
        shown = Shown(job.program, program, job.logs, ledger.answers)
        missing = shown.missing()
        if not missing:
            self._workshop.deliver(job.id, shown)
            return True
        places = [place for place in missing if (job.logs, place) not in ledger.open]
        if places and job.phase is JobPhase.CHALLENGE:
            self._demand(snapshot, job, places, ledger)
        return True

    def recover(self, snapshot: Snapshot, job: Job) -> bool:
        """Get the deposits back that are left in a job that has ended. Whether there were any."""
        if not is_rounded(job.program.mode):
            return False
        ledger = snapshot.ledger(job)
        mine = self._mine(ledger)
        if mine:
            self._close(job, ledger, mine[0])
        return bool(mine)

    def _mine(self, ledger: Ledger) -> list[tuple[bytes, Place]]:
        me = self._transactions.address.lower()
        return [key for key, demand in ledger.open.items() if demand.demander.lower() == me]

    def _close(self, job: Job, ledger: Ledger, first: tuple[bytes, Place]) -> None:
        keys = dict.fromkeys([first, *self._mine(ledger)])
        act(self._transactions, self._contracts.closings(job.id, list(keys)[:MAX_PLACES]))

    def _demand(self, snapshot: Snapshot, job: Job, places: list[Place], ledger: Ledger) -> None:
        deposits = {piece: snapshot.deposit(piece) for piece in (Piece.DIGESTS, Piece.BLOCKS)}
        price = deposits[Piece.DIGESTS] // (ANSWER_GAS + BYTE_GAS * MAX_BYTES)
        left = self._max_wei - sum(deposits[place.piece] for root, place in ledger.open if root == job.logs)
        for (root, place), answer in ledger.answers.items():
            if root == job.logs:
                left -= price * (ANSWER_GAS + BYTE_GAS * check(job.program, root, place, answer))
        while places and left >= deposits[places[0].piece]:
            batch: list[Place] = []
            while places and len(batch) < MAX_PLACES and left >= deposits[places[0].piece]:
                left -= deposits[places[0].piece]
                batch.append(places.pop(0))
            value = sum(deposits[place.piece] for place in batch)
            _log.info("demand.made", job=job.id, places=len(batch), left=len(places))
            act(self._transactions, self._contracts.demand(job.id, job.logs, batch, value))
        if places and not ledger.open and job.id not in self._told:
            self._told.add(job.id)
            _log.warning(
                "job.left_to_others",
                job=job.id,
                reason=f"its logs are withheld; {len(places)} more pieces would cost more than max_demands_eth",
            )
