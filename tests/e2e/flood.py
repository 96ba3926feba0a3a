"""An arena in which one party's machine is slow, in time that the test moves itself, and in which a stranger floods it.

The chain's time goes on by a second with each block, and by `STEP_S` with each step that the victim computes once the
clocks matter: at once for a move, for which its loop waits; and for answers, which are computed outside the loop, while
everybody has one turn. Nothing depends on the speed of the machine that plays it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from assay_lab.faults import Fault, Lie
from referee_py.availability import Place
from referee_py.params import MAX_REQUEST_PLACES
from tests.support.slow_run import ticking
from trainer_node.chain import Call, JobView, TransactionManager
from trainer_node.chain.codec.availability import Ledger, close_call, request_call
from trainer_node.client.posting import Offer
from trainer_node.compute import run_execution
from trainer_node.compute.job_runner import JobRunner
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon
from trainer_node.run import cost_estimate
from trainer_node.run.cost_estimate import CostEstimate

from .arena import STAKE, TIME_STEP_S, Arena, transactions

STEP_S = 3
"""Seconds of a step: an interval of 20 steps takes 60."""
BLOCK_S = 12
"""Seconds of a block of the main chain."""
_POLL_S = 0.002


def measured_as(monkeypatch: pytest.MonkeyPatch, step_s: float = STEP_S) -> None:
    """Let every party's measurement say what the victim's steps take."""

    def slow(*args: Any, **named: Any) -> CostEstimate:
        found = cost_estimate.measure(*args, **named)
        return CostEstimate(step_s, step_s, found.trial, found.worst)

    monkeypatch.setattr(run_execution, "measure", slow)


class FloodArena(Arena):
    """``victim``: the slow party's name. ``verdict_s``: the job's verdict period. ``step_s``: seconds of its steps."""

    def __init__(self, *args: Any, victim: str, verdict_s: int, step_s: int = STEP_S, **named: Any) -> None:
        self._victim, self._verdict_s, self._step_s = victim, verdict_s, step_s
        self.steps = 0
        """Steps that the victim has computed since `slow` is set."""
        self.slow = False
        self.leisure_s = 0
        """If set, seconds that pass while nobody has anything to do."""
        self._computing, self._go = threading.Event(), threading.Event()
        super().__init__(*args, **named)

    # ------------------------------------------------------------------ time

    def skip(self, seconds: int) -> None:
        if seconds == TIME_STEP_S and self.leisure_s:
            seconds = self.leisure_s
        now = int(self.web3.eth.get_block("latest")["timestamp"])
        for method, params in (("evm_setNextBlockTimestamp", [now + seconds]), ("evm_mine", [])):
            self.web3.provider.make_request(method, params)  # type: ignore[arg-type]

    def turn(self) -> bool:
        if not self._computing.is_set():
            return super().turn()
        for member in self.members:
            member.loop.tick()
        if self._computing.is_set():  # a move may have waited for the step meanwhile
            self.skip(self._step_s)
            self._computing.clear()
            self._go.set()
        while self._answering() and not self._computing.is_set():
            time.sleep(_POLL_S)
        return False

    def _tick(self, _kind: str) -> None:
        if not self.slow:
            return
        self.steps += 1
        if not threading.current_thread().name.startswith("answers"):
            self.skip(self._step_s)
            return
        self._go.clear()
        self._computing.set()
        turns = self.member(self._victim).runner._turns
        while not self._go.wait(_POLL_S):
            if turns._moves and self._computing.is_set():
                # A move waits in its loop for this step, and so does everybody for the move.
                self._computing.clear()
                self.skip(self._step_s)
                return

    def _answering(self) -> bool:
        return bool(self.member(self._victim).part.answering)

    # ------------------------------------------------------------------ parties

    def member(self, name: str) -> Any:
        return next(member for member in self.members if member.name == name)

    def _deploy(self) -> TransactionManager:
        client = super()._deploy()
        self.web3.provider.make_request("anvil_setBlockTimestampInterval", [1])  # type: ignore[arg-type]
        return client

    def _open_runner(self, node: Daemon, lie: Lie, *, follows: bool) -> AbstractContextManager[JobRunner]:
        if node.role != self._victim:
            return super()._open_runner(node, lie, follows=follows)
        assert lie.fault is Fault.NONE
        return open_runner(node, follows=follows, replay=ticking(self._tick))

    def _terms(self, slots: int, threshold: int) -> Offer:
        return replace(super()._terms(slots, threshold), verdict_period=self._verdict_s)


class Flooder:
    """A stranger who requests, and closes at once whatever is late."""

    def __init__(self, arena: FloodArena) -> None:
        self._arena = arena
        self._sender = arena._transactions()
        self.address = self._sender.address
        self._start = self._wealth()

    def request(self, job: JobView, root: bytes, places: Sequence[Place]) -> None:
        """Request all of these, in calls of as many of one checkpoint as fit."""
        contracts = self._arena.client.contracts
        calls: dict[int, list[Place]] = {}
        for place in places:
            calls.setdefault(0 if place.piece.of_logs else place.tree, []).append(place)
        for asked in calls.values():
            for first in range(0, len(asked), MAX_REQUEST_PLACES):
                made = request_call(
                    contracts.subject(job.id, root), asked[first : first + MAX_REQUEST_PLACES]
                )
                self._sender.send(Call.batch(contracts.data_availability, made, value=1500 * STAKE))

    def close_late(self, job: JobView) -> int:
        """Close a request that is late; return how many are."""
        snapshot, contracts = self._arena.client.snapshot(), self._arena.client.contracts
        late = [one for one in snapshot.ledger(job).open.values() if snapshot.now > one.until]
        if late:
            made = close_call(contracts.subject(job.id, late[0].root), late[0].place)
            self._sender.send(Call.batch(contracts.data_availability, made))
        return len(late)

    @property
    def profit(self) -> int:
        """What it has won so far, in wei, gas included."""
        return self._wealth() - self._start

    def _wealth(self) -> int:
        held = self._arena.web3.eth.get_balance(self.address)  # type: ignore[arg-type]
        return held + sum(wei for _, wei in self._arena.client.snapshot().credits(self.address))


def ledger_of(arena: Arena) -> Ledger:
    snapshot = arena.client.snapshot()
    return snapshot.ledger(snapshot.job(arena.job_id))


def answers_of(arena: Arena, sender: str) -> list[tuple[int, int]]:
    """Return block and gas of each transaction of an account to the contract of requests."""
    contract, found = arena.client.contracts.data_availability.address, []
    for number in range(arena._posted_block, arena.web3.eth.block_number + 1):
        for one in transactions(arena.web3, number):
            if (one["from"], one.get("to")) == (sender, contract):
                receipt = arena.web3.eth.get_transaction_receipt(one["hash"])
                found.append((number, receipt["gasUsed"]))
    return found


def delays(arena: Arena, sender: str) -> list[int]:
    """Return, for each transaction of an account to the referee, the seconds since the last that came before it to the
    referee or the jobs: since it was due."""
    deployment, since, found = arena.client.deployment, 0, list[int]()
    for number in range(arena._posted_block, arena.web3.eth.block_number + 1):
        now = int(arena.web3.eth.get_block(number)["timestamp"])
        for one in transactions(arena.web3, number):
            if one.get("to") not in (deployment.referee, deployment.jobs):
                continue
            if one["from"] == sender and one.get("to") == deployment.referee:
                found.append(now - since)
            since = now
    return found
