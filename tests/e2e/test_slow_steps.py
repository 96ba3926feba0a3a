"""Later steps that take far longer than the measured one: a trainer gives its slot back, for a small part of its stake.

The attack: a client orders its data so that later steps compute with subnormal numbers, which takes up to 148 times as
long. The run is not done in time, or its dispute could not be played within the clock, and the trainer loses its stake.
"""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from assay_lab.faults import Fault, Lie
from referee_py.execute import Executor, State, StepTrace, executor_for
from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.compute import job_runner
from trainer_node.compute.job_runner import JobRunner
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.run.replay import Replay
from trainer_node.run.step_times import StepTimes
from trainer_node.stake.resigned import Resigned

from ..trainer_node.chain.liar import Liar
from ..trainer_node.desk import until
from ..trainer_node.slow import Hand
from .arena import STAKE, Arena

WAITS_AT = 5
LOST = STAKE // 32


class Alone(Arena):
    """One honest trainer, and nobody else."""

    replay: type[Replay] = Replay

    def __init__(self, anvil: Anvil, folder: Path, bundle: Bundle) -> None:
        super().__init__(
            anvil, folder, bundle, trainers=[Fault.NONE], challenger=None, verifiers=0, threshold=0
        )

    def _open_runner(
        self, node: Any, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        assert lie.fault is Fault.NONE
        return open_runner(node, follows=follows, replay=self.replay)

    @property
    def trainers(self) -> int:
        return len(self.client.snapshot().job(self.job_id).trainers)

    def resigned(self) -> bool:
        """Return whether the slot is free again, and the trainer has been paid. NOTE: nobody ends a job without one."""
        (member,) = self.members
        member.loop.tick()
        snapshot = self.client.snapshot()
        assert snapshot.job(self.job_id).phase is JobPhase.TRAINING
        return not self.trainers and not snapshot.credits(self.address(member.name))

    def profit(self) -> int:
        """Return the wei that the trainer has won or lost, gas aside."""
        return self._outcome(self.client.snapshot()).profit["trainer-0"]


class Gate:
    """Holds a run before a step, until it may continue."""

    def __init__(self) -> None:
        self.reached, self.go = reached, go = threading.Event(), threading.Event()

        class Waits(Executor):
            def __init__(self, within: Executor) -> None:
                self._within = within

            def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
                if state.step == WAITS_AT:
                    reached.set()
                    assert go.wait(120)
                return self._within.step(state, commit)

        class Waiting(Replay):
            def _executor(self) -> Executor:
                return Waits(executor_for(self.program, self._package.constants, self._backend))

        self.replay = Waiting


def slow_at_the_end(bundle: Bundle, slow_s: float) -> type[StepTimes]:
    """Return times by a clock that stands still, but for the last step."""
    clock = Hand()

    class Measured(StepTimes):
        def __init__(self) -> None:
            super().__init__(clock, clock)
            self.ended = 0

        def ends(self, *, committed: bool) -> None:
            self.ended += 1
            if self.ended == bundle.terms.steps:
                clock.on(slow_s)
            super().ends(committed=committed)

    return Measured


def test_a_run_that_is_not_done_in_time_gives_its_slot_back(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    gate = Gate()

    class Slow(Alone):
        replay = gate.replay

        def _node(self, name: str, role: str, **settings: Any) -> Daemon:
            return super()._node(name, role, block_s=3.0, **settings)

    with Slow(anvil, tmp_path, bundle) as arena:
        (member,) = arena.members
        until(lambda: arena.turn() and gate.reached.is_set())
        assert arena.trainers == 1
        snapshot = arena.client.snapshot()
        job = snapshot.job(arena.job_id)
        arena.skip(job.commit_end - snapshot.now - int(2 * member.node.settings.latency_s))
        until(arena.resigned)
        member.loop.tick()
        assert not arena.trainers, "it does not come back"
        assert Resigned(member.node.database).has(job), "after a restart either"
        gate.go.set()
        assert arena.profit() == -LOST


@pytest.mark.parametrize("slow_s", [0.01, 400.0])
def test_what_a_dispute_would_take_is_known_before_the_commitment(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, slow_s: float
) -> None:
    """The last step is slow. It takes no time here: the clock by which it is measured is moved."""
    monkeypatch.setattr(job_runner, "StepTimes", slow_at_the_end(bundle, slow_s))
    with Alone(anvil, tmp_path, bundle) as arena, structlog.testing.capture_logs() as told:
        if slow_s < 1:
            outcome = arena.play()
            assert outcome.job.phase is JobPhase.ACCEPTED
            assert outcome.profit["trainer-0"] > 0
        else:
            until(lambda: arena.turn() and arena.trainers)
            until(arena.resigned)
            assert arena.profit() == -LOST
        reasons = [one["kind"] for one in told if one["event"] == "job.left_to_others"]
        assert reasons == ([] if slow_s < 1 else ["TooSlow"])


def test_a_restart_forgets_no_slow_step(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is back before the job is measured again, and the trainer would commit to what it cannot defend."""
    monkeypatch.setattr(job_runner, "StepTimes", slow_at_the_end(bundle, 400.0))
    with Alone(anvil, tmp_path, bundle) as arena:
        (member,) = arena.members
        until(lambda: arena.turn() and arena.trainers)
        runner = member.runner
        assert runner is not None
        until(lambda: runner.known(arena.job_id))
        arena.restart(member.name)
        until(arena.resigned)
        assert arena.profit() == -LOST


def test_one_endpoint_of_three_makes_nobody_resign(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """The attack: in one look, it says that training ends at once."""
    gate = Gate()
    with Liar(anvil.url) as liar, FaultProxy(anvil.url, 1) as second, FaultProxy(anvil.url, 2) as third:

        class Slow(Alone):
            replay = gate.replay

            def _node(self, name: str, role: str, **settings: Any) -> Daemon:
                return super()._node(name, role, rpc_url=[liar.url, second.url, third.url], **settings)

        with Slow(anvil, tmp_path, bundle) as arena, structlog.testing.capture_logs() as told:
            (member,) = arena.members
            until(lambda: arena.turn() and gate.reached.is_set())
            snapshot = arena.client.snapshot()
            job = snapshot.job(arena.job_id)
            true, false = f"{job.commit_end:064x}", f"{snapshot.now + 1:064x}"

            def lie(answer: dict[str, Any]) -> dict[str, Any]:
                changed: dict[str, Any] = json.loads(json.dumps(answer).replace(true, false))
                return changed

            liar.lies |= {"eth_call": lie, "eth_getLogs": lie}
            while not any(one["event"] == "act.withheld" for one in told):
                member.loop.tick()
            assert arena.trainers == 1
            liar.lies.clear()
            gate.go.set()
            assert arena.play().profit["trainer-0"] > 0


def test_a_program_that_was_too_slow_is_so_in_the_next_job(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run is there, so no step is computed before the commitment."""
    monkeypatch.setattr(job_runner, "StepTimes", slow_at_the_end(bundle, 400.0))
    with Alone(anvil, tmp_path, bundle) as arena, structlog.testing.capture_logs() as told:
        until(lambda: arena.turn() and arena.trainers)
        until(arena.resigned)
        arena.post_again()
        (member,) = arena.members

        def left() -> set[tuple[int, str]]:
            member.loop.tick()
            return {(one["job"], one["kind"]) for one in told if one["event"] == "job.left_to_others"}

        until(lambda: left() == {(1, "TooSlow"), (2, "TooSlow")})
        assert not arena.client.snapshot().job(2).trainers
        assert arena.profit() == 0, "since the second job was posted"
