"""The loop of every daemon.

    read      a snapshot of one block, so that no decision mixes two states of the chain
    decide    job by job, in turns: a dispute is a turn, and so is each other thing that may be due; none sends anything
    act       send what each turn says is due, before the next turn decides

After a crash or a reorganisation the state is read again.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from referee_py.errors import AssayError

from ..chain import Call, JobView, Snapshot, TransactionManager
from ..chain.fees import ETHER
from ..errors import ConfigError, Reverted, RpcCorrupt, RpcUnavailable
from ..limits.waits import MINED_S
from ..observe.problems import Problems
from ..stake.reserved_ether import Reserve
from .due import Due
from .forwarding import Forwarder
from .helping import GasBudget
from .job_queue import JobQueue, Scheduler
from .service import Daemon
from .withdrawals import Teller

COMPARE_S = 60.0
"""Seconds between two comparisons of what several endpoints show, while they do not contradict each other."""
COUNT_S = 300.0
"""Seconds between two looks at our account while no job concerns us."""

_log = structlog.get_logger(__name__)


class Turn(NamedTuple):
    """One decision: what it is about, for the log, and how to make it."""

    of: str
    decide: Callable[[], Iterable[Due]]


def raising(error: Exception) -> Callable[[], Iterable[Due]]:
    """Return a decision that could not be made: the error takes the turn, and the other turns continue."""

    def decide() -> Iterable[Due]:
        raise error

    return decide


class Role(ABC):
    """Part of a daemon in the jobs of the deployment. ``joins``: it may do something in a job that trains."""

    joins = False

    @abstractmethod
    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether the job concerns us, and the turns that we take in it, in their order."""

    def works_at(self, _job_id: int) -> bool:
        """Return whether we compute something for a job."""
        return False

    def pressed(self) -> bool:
        """Return whether the account needs what the contracts owe it, however dear gas is."""
        return False


class Loop:
    """Plays a role for the node's key, or only reads the chain if the node has none."""

    def __init__(self, node: Daemon, role: Role) -> None:
        self._node = node
        self._role = role
        queue = JobQueue(node.database)
        self._scheduler = Scheduler(queue, node.problems, role.works_at, node.metrics, joins=role.joins)
        key = node.transactions
        self._sender = Sender(key, node.reserve, node.gas) if key else None
        self._forwarder = _forwarder(node)
        self._ours = [False, False]
        """True for a round in which a job concerned us: this one, and the one before."""
        self._counted = float("-inf")
        self._teller = Teller(key.address, node.market, role.pressed) if key else None
        self._withheld: str | None = None
        """Reasons why something was not staked in this round."""
        self._compare_at = 0.0

    def tick(self) -> None:
        """Read the chain once and do what is due. Raises only RpcUnavailable and RpcCorrupt, if the chain is gone."""
        self._withheld, self._node.idle = None, False
        if self._sender is not None:
            self._sender.failed.clear()
        try:
            self._round()
        finally:
            self._tell()

    def _round(self) -> None:
        snapshot = self._node.client.snapshot()
        self._node.metrics.set("block", snapshot.block.number)
        self._node.look_at_signer()
        if self._node.transactions is not None and self._node.transactions.open():
            self._node.transactions.recover()  # transactions that were not mined within an earlier round
        self._scheduler.go(snapshot, lambda job: self._attend(snapshot, job))
        # NOTE: while no job concerns us, nobody comes to owe us anything: an idle node asks the chain for little.
        if any(self._ours) or time.monotonic() - self._counted >= COUNT_S:
            self._counted = time.monotonic()
            self._count(snapshot)
        waits = self._node.transactions is not None and bool(self._node.transactions.open())
        self._node.idle = not (any(self._ours) or self._scheduler.at_work or waits)
        self._ours = [False, self._ours[0]]
        self._compare(snapshot)

    def _count(self, snapshot: Snapshot) -> None:
        """Withdraw what we are owed, and show the sums."""
        if self._teller is not None:
            self._send(snapshot, self._teller.due(snapshot))
        node, key = self._node, self._node.transactions
        if self._forwarder is not None and key is not None:
            known = self._scheduler.complete and not key.open()
            self._send(snapshot, self._forwarder.due(snapshot, node.spare(), known=known))
        node.gauges.round(
            balance=None if key is None else key.balance(),
            owed=None if self._teller is None else self._teller.owed,
            reserved=node.reserve.for_others(),
            pending=0 if key is None else len(key.open()),
        )

    def _tell(self) -> None:
        """Let /readyz show what is wrong with endpoints, and what was not sent in this round.

        NOTE: an endpoint that fails while enough others agree keeps us from nothing, so it is a notice.
        """
        problems, agreement = self._node.problems, self._node.client.agreement
        told = "; ".join(agreement.problems)
        if told and agreement.doubt is None:
            problems.note("endpoints", told)
        else:
            say(problems, "endpoints", told)
        say(problems, "stakes", self._withheld)
        failed = self._sender.failed if self._sender is not None else {}
        say(problems, "acts", "; ".join(f"{act}: {reason}" for act, reason in failed.items()))

    def _compare(self, snapshot: Snapshot) -> None:
        """Now and then, and in every round while endpoints contradict each other, compare what they show.

        SAFETY: an endpoint whose blocks are right may still hide a claim or a move, and so make us miss a clock.
        """
        now, client = time.monotonic(), self._node.client
        if not client.endpoints.several:
            return
        if not client.agreement.conflict and (snapshot.doubt is not None or now < self._compare_at):
            return
        self._compare_at = now + COMPARE_S
        # NOTE: what is wrong is a problem of the endpoints, which /readyz shows.
        with contextlib.suppress(RpcUnavailable, RpcCorrupt):
            snapshot.confirm(heeding_doubt=False)

    def _attend(self, snapshot: Snapshot, job: JobView) -> tuple[bool, Exception | None]:
        """Do what is due in a job. Return whether the job concerns us, and the last error of its turns."""
        ours, turns = self._role.turns(snapshot, job)
        self._ours[0] |= ours
        if job.phase.ended and not ours:
            self._node.job_over(job)
        failed: Exception | None = None
        for of, decide in turns:
            # SAFETY: an adversary may have caused an error in one of these turns; the other turns are still taken.
            try:
                self._send(snapshot, decide())
            except Exception as error:
                _log.warning("turn.failed", job=job.id, of=of, error=type(error).__name__, reason=str(error))
                failed = error
        return ours, failed

    def _send(self, snapshot: Snapshot, dues: Iterable[Due]) -> None:
        for due in dues:
            assert self._sender is not None, "without a key nothing is due"
            if due.exposes and (doubt := self._unconfirmed(snapshot)) is not None:
                _log.warning("act.withheld", act=due.call.action, **due.about, reason=doubt)
                self._node.metrics.add("stakes_withheld")
                self._withheld = f"{due.call.action} is withheld: {doubt}"
                continue
            self._sender.send(due)

    def _unconfirmed(self, snapshot: Snapshot) -> str | None:
        """Return why nothing may be staked on what a snapshot shows; None if enough endpoints show the same."""
        try:
            snapshot.confirm()
        except (RpcUnavailable, RpcCorrupt) as error:
            return str(error)
        return None


def say(problems: Problems, topic: str, reason: str | None) -> None:
    """Let /readyz show a reason, or nothing about this topic."""
    if reason:
        problems[topic] = reason
    else:
        problems.clear(topic)


def _forwarder(node: Daemon) -> Forwarder | None:
    """Return what sends our money on, if the settings say where. Raises ConfigError if that is our own account."""
    settings = node.settings
    if node.transactions is None or settings.withdrawal_address is None or settings.keep_eth is None:
        return None
    if settings.withdrawal_address == node.address:
        raise ConfigError(
            f"withdrawal_address {node.address} is the daemon's own account; name another, or none"
        )
    floor = int(settings.keep_eth * ETHER)
    return Forwarder(settings.withdrawal_address, floor, node.client.head(), node.market)


class Sender:
    """Sends what is due from the account of ``transactions``."""

    def __init__(self, transactions: TransactionManager, reserve: Reserve, gas: GasBudget) -> None:
        self._transactions = transactions
        self._reserve = reserve
        self._gas = gas
        self.failed: dict[str, str] = {}
        """By action: why it could not be sent."""

    def send(self, due: Due) -> None:
        """Send, wait and log the outcome. Raises the AssayErrors of a move in a dispute, but not Reverted.

        NOTE: a snapshot is some confirmations old, and somebody may have made the same move meanwhile. The simulation
        then refuses it at no cost.
        """
        told = {"act": due.call.action, **due.about}
        if due.helps is not None and not self._pays(due.helps, due.call):
            return
        if due.event is not None:
            _log.info(due.event, **due.about)
        if due.stakes is not None:
            self._reserve.staking(*due.stakes)
        receipt = None
        try:
            if due.sent is not None:
                due.sent(self._transactions.submit(due.call))
                return
            receipt = self._transactions.send(due.call, timeout_s=MINED_S)
            _log.info("act.done", **told, gas=receipt.gas_used)
            if due.helps is not None:
                self._gas.pay(due.helps, receipt.gas_used * receipt.gas_price)
        except Reverted as error:
            _log.info("act.refused", **told, reason=str(error))
        except AssayError as error:
            if due.dispute:
                raise
            _log.warning("act.failed", **told, reason=str(error))
            self.failed[due.call.action] = str(error)
        due.then(receipt)

    def _pays(self, job: int, call: Call) -> bool:
        """Return whether a call for another party is worth its gas to us, as far as `policy` allows."""
        try:
            return self._gas.pays and self._gas.allows(job, self._transactions.gas_cost(call))
        except Reverted as error:
            _log.info("act.refused", act=call.action, reason=str(error))
            return False
