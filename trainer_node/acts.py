"""Sending what was decided, when nobody waits for the answer: the next look at the chain decides anew."""

from __future__ import annotations

import structlog

from referee_py.errors import AssayError

from .chain import Call, TransactionManager
from .errors import Reverted

ACT_TIMEOUT_S = 60.0
"""How long a round waits for a block; the outbox goes on with the rest."""

_log = structlog.get_logger(__name__)


def act(transactions: TransactionManager, call: Call) -> None:
    """Send it, and log how that ended. Raises nothing that Assay knows."""
    try:
        receipt = transactions.send(call, timeout_s=ACT_TIMEOUT_S)
        _log.info("act.done", act=call.action, gas=receipt.gas_used)
    except Reverted as error:
        # NOTE: somebody was faster, or the phase has ended.
        _log.info("act.refused", act=call.action, reason=str(error))
    except AssayError as error:
        _log.warning("act.failed", act=call.action, reason=str(error))
