"""Attack on a restart: a slot's transaction is signed and on disk when the process is killed. Whatever has become of
the job's time since, the next process sends it, and asks nothing again before it stakes."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay_lab.faults import Fault
from referee_py.jobs import EMPTY_COMMITMENT
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.client.posting import Offer
from trainer_node.daemon import service
from trainer_node.daemon.service import Daemon, Service
from trainer_node.local.bundle import Bundle
from trainer_node.roles.acceptance import Acceptance
from trainer_node.stake.deadlines import TooLate
from trainer_node.stake.judge import first

from ..trainer_node.desk import until
from .arena import STAKE, Arena
from .test_last_moments import LONG

LEFT_S = 20
"""Seconds of training that are left when the node is back: less than two blocks."""


class OnAChain(Arena):
    """With blocks of 12 seconds, as the node is told."""

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        return super()._node(name, role, block_s=12.0, confirmations=2, **settings)

    def _terms(self, slots: int, threshold: int) -> Offer:
        periods: dict[str, Any] = dict.fromkeys(LONG, 20_000)
        return replace(super()._terms(slots, threshold), **periods)


class Killed(BaseException):
    """The process ends here."""


def test_a_slot_that_comes_too_late_by_now_is_not_taken_by_the_next_process(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RECOVERY_S", 1.0)
    options: dict[str, Any] = {"challenger": None, "verifiers": 0, "threshold": 0}
    with OnAChain(anvil, tmp_path, bundle, trainers=[Fault.NONE], **options) as arena:
        (member,) = arena.members
        transactions: Any = member.node.transactions
        broadcast, sent = transactions._first_broadcast, list[str]()

        def killed(row: Any) -> bool:
            sent.append(row.action)
            raise Killed

        def ends() -> bool:
            arena.skip(1)
            with contextlib.suppress(Killed):
                member.loop.tick()
            return bool(sent)

        transactions._first_broadcast = killed
        until(ends)
        assert sent == ["join"]
        transactions._first_broadcast = broadcast
        job = arena.client.snapshot().job(1)
        assert not job.trainers
        arena.skip(job.commit_end - arena.client.snapshot().now - LEFT_S)

        arena.restart("trainer-0")
        runner = member.runner
        assert runner is not None
        job = arena.client.snapshot().job(1)
        until(lambda: runner.prepare(job))
        late = first(Acceptance(member.node, runner).slot(job, arena.client.snapshot().now))
        assert isinstance(late, TooLate), "the same slot would not be taken now"
        play = Service(member.node, member.loop.tick)
        for _ in range(4):
            play.round()
            arena.skip(12)
        ended = arena.client.snapshot().job(1)
        assert ended.phase is not JobPhase.TRAINING
        taken = ended.trainer(transactions.address)
        assert taken is None or taken.commitment != EMPTY_COMMITMENT, f"a stake of {STAKE} wei is lost"
