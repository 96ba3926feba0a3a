"""The turns of a job: each decides what is due, and that is sent before the next one decides.

SAFETY: an adversary may have caused an error in one of the turns; the other turns are still taken. Nor does a turn wait
until what an earlier one has sent is mined, or whoever lets a node act in many jobs at once would decide how late it is
in one of them: what a round has sent is waited for together, at its end.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import structlog

from referee_py.errors import AssayError

from ..chain import Call, JobView, Receipt, Snapshot, TransactionManager
from ..errors import Disagreement, DiskFailed, Reverted, RpcCorrupt, RpcUnavailable
from ..limits.waits import MINED_S
from ..stake.reserved_ether import Reserve
from .due import Due
from .helping import GasBudget
from .service import Daemon

_log = structlog.get_logger(__name__)


class Turn(NamedTuple):
    """One decision: what it is about, for the log, and how to make it. ``helps``, ``opens``: see `Due`; for all that is
    due."""

    of: str
    decide: Callable[[], Iterable[Due]]
    helps: int | None = None
    opens: bool = False


def raising(error: Exception) -> Callable[[], Iterable[Due]]:
    """Return a decision that could not be made: the error takes the turn, and the other turns continue."""

    def decide() -> Iterable[Due]:
        raise error

    return decide


def adding(turns: list[Turn], of: str, decide: Callable[[], list[Due] | None]) -> bool:
    """Add a turn for what is due; return False if there is nothing to attend to (None). An error takes the turn."""
    try:
        dues = decide()
    except Exception as error:
        turns.append(Turn(of, raising(error)))
        return True
    if dues is not None:
        turns.append(Turn(of, lambda: dues))
    return dues is not None


class Role(ABC):
    """Part of a daemon in the jobs of the deployment. ``joins``: it may do something in a job that trains."""

    joins = False

    @abstractmethod
    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether the job concerns us, and the turns that we take in it, in their order."""

    def works_at(self, _job_id: int) -> bool:
        """Return whether we compute something for a job."""
        return False

    def waits(self, _job_id: int) -> float | None:
        """Return the instant of the chain by which a job should be looked at again that concerns us only because a lie
        in it may be refuted; None of any other job."""
        return None

    def pressed(self) -> bool:
        """Return whether the account needs what the contracts owe it, however dear gas is."""
        return False


class JobTurns:
    """Takes a role's turns for the node's key, or only computes if it has none. ``unread`` returns the number of jobs
    of which it is not known whether they are ours."""

    def __init__(
        self, node: Daemon, role: Role, sender: Sender | None, unread: Callable[[], int] = lambda: 0
    ) -> None:
        self._node = node
        self._role = role
        self._sender = sender
        self._unread = unread
        self.concerned = False
        """True if a job has concerned us in this round; the loop resets it after the round."""
        self.withheld: str | None = None
        """Reason why something was not staked in this round; the loop resets it before the round."""

    def attend(self, snapshot: Snapshot, job: JobView) -> tuple[bool, Exception | None]:
        """Do what is due in a job, and notify the operator where it is disputed and concerns us. Return whether the job
        concerns us, and the last error of its turns."""
        ours, failed = self._take(snapshot, job)
        if ours:
            self._node.notices.see(job)
        return ours, failed

    def _take(self, snapshot: Snapshot, job: JobView) -> tuple[bool, Exception | None]:
        ours, turns = self._role.turns(snapshot, job)
        self.concerned |= ours
        if job.phase.ended and not ours:
            self._node.job_over(job)
        failed: Exception | None = None
        for turn in turns:
            try:
                self.send(snapshot, turn.decide(), helps=turn.helps, opens=turn.opens)
            except Exception as error:
                _log.warning(
                    "turn.failed", job=job.id, of=turn.of, error=type(error).__name__, reason=str(error)
                )
                failed = error
        return ours, failed

    def send(
        self, snapshot: Snapshot, dues: Iterable[Due], *, helps: int | None = None, opens: bool = False
    ) -> None:
        """Send what is due, but for what puts money at risk on a view that too few endpoints share, or before it is
        known which jobs are ours. ``helps``, ``opens``: see `Turn`."""
        for due in dues:
            assert self._sender is not None, "without a key nothing is due"
            doubt = self._too_early() if opens or due.opens else None
            if doubt is None and due.exposes:
                doubt = self._unconfirmed(snapshot, urgent=due.urgent)
            if doubt is not None:
                _log.warning("act.withheld", act=due.call.action, **due.about, reason=doubt)
                self._node.metrics.add("stakes_withheld")
                self.withheld = f"{due.call.action} is withheld: {doubt}"
                continue
            made = due if due.make is None else replace(due, call=due.make(), make=None)
            self._sender.send(made if helps is None else replace(made, helps=helps))

    def _too_early(self) -> str | None:
        """Return why nothing is staked on one more job yet.

        SAFETY: after the loss of the database, ether in the account may belong to jobs of ours that nobody knows yet.
        """
        if not (unread := self._unread()):
            return None
        return f"the database lacks what this account has sent before; {unread} jobs are read first"

    def _unconfirmed(self, snapshot: Snapshot, *, urgent: bool) -> str | None:
        """Return why nothing may be staked on what a snapshot shows; None if enough endpoints show the same. Where it
        is ``urgent``, None also if too few answer and none contradicts."""
        try:
            # NOTE: where it is urgent, what an endpoint has said before, and does not say now, stops nothing.
            snapshot.confirm(heeding_doubt=not urgent)
        except (RpcUnavailable, RpcCorrupt) as error:
            contradicted = not isinstance(error, Disagreement) or error.contradicted
            return str(error) if contradicted or not urgent else None
        return None


class _Sent(NamedTuple):
    """A transaction that a round waits for: its number in the outbox, what it is, and the wei that it counts for as
    help."""

    number: int
    due: Due
    helped: int


class Sender:
    """Sends what is due from the account of ``transactions``. ``clock``: seconds."""

    def __init__(
        self,
        transactions: TransactionManager,
        reserve: Reserve,
        gas: GasBudget,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transactions = transactions
        self._reserve = reserve
        self._gas = gas
        self._clock = clock
        self._patience_s = MINED_S
        self._sent: list[_Sent] = []
        self.failed: dict[str, str] = {}
        """By action: why it could not be sent, or was not mined, in this round."""

    def begin(self) -> None:
        """Begin a round."""
        self.failed.clear()
        self._patience_s = MINED_S

    def send(self, due: Due) -> None:
        """Send, and log what is refused. Raises the AssayErrors of a move in a dispute, but not Reverted.

        NOTE: a snapshot is some confirmations old, and somebody may have made the same move meanwhile. The simulation
        then refuses it at no cost. What was sent in an earlier round, and is not mined yet, is not sent again.
        """
        told = {"act": due.call.action, **due.about}
        helped = 0 if due.helps is None else self._price(due.helps, due.call)
        if helped is None:
            return
        if due.event is not None:
            _log.info(due.event, **due.about)
        if due.stakes is not None:
            self._reserve.staking(*due.stakes)
        try:
            number = self._transactions.submit(due.call)
            if due.sent is not None:
                due.sent(number)
            elif all(one.number != number for one in self._sent):
                # SAFETY: it counts before it is mined, or a round would spend the same rest of the budget many times.
                if due.helps is not None:
                    self._gas.pay(due.helps, helped)
                self._sent.append(_Sent(number, due, helped))
            return
        except Reverted as error:
            _log.info("act.refused", **told, reason=str(error))
        except AssayError as error:
            if due.dispute:
                raise
            _log.warning("act.failed", **told, reason=str(error))
            self.failed[due.call.action] = str(error)
        due.then(None)

    def finish(self, *, waits: bool = True) -> None:
        """Wait until all that was sent is mined, a minute of a round at most, and log the outcomes. If it ``waits`` for
        nothing, only those that have ended are noted. What has not ended is kept for the next time.

        SAFETY: whoever decides again must know the block of what was mined meanwhile: an endpoint may be behind it.
        """
        if not self._sent:
            return
        began = self._clock()
        patience_s, numbers = self._patience_s if waits else 0.0, [one.number for one in self._sent]
        # NOTE: without patience all are looked at, however long that takes: once in a round, at its begin.
        ended = {} if waits and not patience_s else self._transactions.wait_all(numbers, timeout_s=patience_s)
        sent, self._sent = self._sent, [one for one in self._sent if one.number not in ended]
        for one in sent:
            if one.number in ended:
                self._ended(one, ended[one.number])
            elif waits:
                self.failed[one.due.call.action] = "it is not mined yet, and stays in the outbox"
        self._patience_s = max(0.0, self._patience_s - (self._clock() - began))

    def _ended(self, one: _Sent, outcome: Receipt | AssayError) -> None:
        """Log how a transaction has ended, and tell who has decided it."""
        due, told = one.due, {"act": one.due.call.action, **one.due.about}
        if isinstance(outcome, AssayError):
            _log.warning("act.failed", **told, reason=str(outcome))
            self.failed[due.call.action] = str(outcome)
            due.then(None)
            return
        _log.info("act.done", **told, gas=outcome.gas_used)
        if due.helps is not None:
            with contextlib.suppress(DiskFailed):  # NOTE: it has counted for more
                self._gas.pay(due.helps, outcome.gas_used * outcome.gas_price - one.helped)
        due.then(outcome)

    def _price(self, job: int, call: Call) -> int | None:
        """Return the wei of a call for another party; None if it is not worth its gas to us, as far as `policy` allows,
        or is refused."""
        if not self._gas.pays:
            return None
        try:
            cost = self._transactions.gas_cost(call)
        except Reverted as error:
            _log.info("act.refused", act=call.action, reason=str(error))
            return None
        return cost if self._gas.allows(job, cost) else None
