"""The loop of every daemon.

    read      a snapshot of one block, so that no decision mixes two states of the chain
    decide    job by job, in turns: a dispute is a turn, and so is each other thing that may be due; none sends anything
    act       send what each turn says is due, before the next turn decides (`job_turns`)
    finish    wait, a minute at most, until what was sent is mined

After a crash or a reorganisation the state is read again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from functools import partial

from ..chain import Snapshot
from ..chain.fees import ETHER
from ..errors import ConfigError, RpcCorrupt, RpcUnavailable
from ..observe.problems import Problems
from .forwarding import Forwarder
from .job_queue import JobQueue, Scheduler
from .job_turns import JobTurns, Role, Sender
from .service import Daemon
from .withdrawals import Teller

COMPARE_S = 60.0
"""Seconds between two comparisons of what several endpoints show, while they do not contradict each other."""
COUNT_S = 300.0
"""Seconds between two looks at our account while no job concerns us."""


class Loop:
    """Plays a role for the node's key, or only reads the chain if the node has none. The jobs ``first`` do not wait for
    their turn among all others."""

    def __init__(self, node: Daemon, role: Role, first: Iterable[int] = ()) -> None:
        self._node = node
        queue = JobQueue(node.database)
        queue.happened(first)
        key = node.transactions
        self._scheduler = Scheduler(
            *(queue, node.problems, role.works_at, node.metrics),
            waits=role.waits,
            joins=role.joins,
            lost=lambda: key is not None and key.means.lacks_sent(),
            known=lambda: key.means.know_sent() if key is not None else None,
        )
        self._sender = Sender(key, node.reserve, node.gas) if key else None
        self._turns = JobTurns(node, role, self._sender, lambda: self._scheduler.unread)
        self._forwarder = _forwarder(node)
        self._was_concerned = False
        """True if a job concerned us in the round before."""
        self._counted = float("-inf")
        self._teller = Teller(key.address, node.market, role.pressed) if key else None
        self._compare_at = 0.0

    def tick(self) -> None:
        """Read the chain once and do what is due. Raises only RpcUnavailable and RpcCorrupt, if the chain is gone."""
        self._turns.withheld, self._node.idle = None, False
        if self._sender is not None:
            self._sender.begin()
        try:
            self._round()
        finally:
            self._tell()

    def _round(self) -> None:
        snapshot = self._node.client.snapshot()
        self._node.metrics.set("block", snapshot.block.number)
        self._node.look_at_signer()
        if self._node.transactions is not None:
            self._node.transactions.recover(
                snapshot.block.number
            )  # of earlier rounds: not mined yet, or no more
        self._finish(waits=False)
        self._scheduler.go(snapshot, partial(self._turns.attend, snapshot))
        self._finish()
        concerned = self._turns.concerned or self._was_concerned
        # NOTE: while no job concerns us, nobody comes to owe us anything: an idle node asks the chain for little.
        if concerned or time.monotonic() - self._counted >= COUNT_S:
            self._counted = time.monotonic()
            self._count(snapshot)
            self._finish()
        waits = self._node.transactions is not None and bool(self._node.transactions.open())
        self._node.idle = not (concerned or self._scheduler.at_work or waits or self._scheduler.unread)
        self._was_concerned, self._turns.concerned = self._turns.concerned, False
        self._compare(snapshot)

    def _finish(self, *, waits: bool = True) -> None:
        if self._sender is not None:
            self._sender.finish(waits=waits)

    def _count(self, snapshot: Snapshot) -> None:
        """Withdraw what we are owed, and show the sums."""
        if self._teller is not None:
            self._turns.send(snapshot, self._teller.due(snapshot))
        node, key = self._node, self._node.transactions
        if self._forwarder is not None and key is not None:
            known = self._scheduler.complete and not key.open()
            self._turns.send(snapshot, self._forwarder.due(snapshot, node.spare(), known=known))
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
        say(problems, "stakes", self._turns.withheld)
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
