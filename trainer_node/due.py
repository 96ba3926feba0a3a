"""What a decision wants sent, and the one place that sends it. The next look at the chain decides anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from referee_py.errors import AssayError

from .chain import Call, Receipt, TransactionManager
from .errors import Reverted
from .reserve import Reserve

ACT_TIMEOUT_S = 60.0
"""Seconds that a round waits for a transaction to be mined; after that the outbox takes care of it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """A transaction that is due. ``event``: how the log announces it, with the fields ``about``."""

    call: Call
    event: str | None = None
    about: Mapping[str, object] = field(default_factory=dict)
    dispute: bool = False
    """True for a move in a dispute: if it cannot be sent, that is the job's problem, which /readyz shows."""
    stakes: tuple[int, int] | None = None
    """The job that it stakes on, and the wei that the job may take from then on (`reserve`)."""
    then: Callable[[Receipt | None], None] = lambda _: None
    """Called afterwards, with the receipt if the transaction was mined in time."""


class Sender:
    """Sends what is due from the account of ``transactions``."""

    def __init__(self, transactions: TransactionManager, reserve: Reserve) -> None:
        self._transactions = transactions
        self._reserve = reserve

    def send(self, due: Due) -> None:
        """Send, wait and log the outcome. Raises the AssayErrors of a move in a dispute, but not Reverted.

        NOTE: a snapshot is some confirmations old, and somebody may have made the same move meanwhile. The simulation
        then refuses it at no cost.
        """
        told = {"act": due.call.action, **due.about}
        if due.event is not None:
            _log.info(due.event, **due.about)
        if due.stakes is not None:
            self._reserve.staking(*due.stakes)
        receipt = None
        try:
            receipt = self._transactions.send(due.call, timeout_s=ACT_TIMEOUT_S)
            _log.info("act.done", **told, gas=receipt.gas_used)
        except Reverted as error:
            _log.info("act.refused", **told, reason=str(error))
        except AssayError as error:
            if due.dispute:
                raise
            _log.warning("act.failed", **told, reason=str(error))
        due.then(receipt)
