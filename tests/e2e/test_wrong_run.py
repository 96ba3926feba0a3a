"""A hearing is played with the run that it is about, and with no other, also while a restart brings runs back."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from assay_lab.faults import Fault, Lie, Target, executor_of, values_of, watched
from referee_py.execute import Executor, NodeHook, NodeValues, State, StepTrace
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from tests.trainer_node.desk import until
from trainer_node.chain import Group, JobPhase, JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.network.opponents import Opponents
from trainer_node.roles.challenger import challenger
from trainer_node.roles.participant import Participant
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.found_lies import LieRunner
from trainer_node.roles.sampling.interval_runner import Task
from trainer_node.roles.sampling.sampler import Sampler, Samples
from trainer_node.run.replay import Replay
from trainer_node.settings.extent import Mode

from .arena import REWARD, STAKE, Arena, Member

LIE, HALF = Fault.WRONG_OP_OUTPUT, 20
FIRST_LIES, SECOND_LIES = 7, 33
"""Steps of the second liar's lies, one in each of the two intervals."""


class WrongTwice(Replay):
    """A run that lies in both intervals: so the second one begins with a state that no other run has."""

    def _lie(self, step: int) -> Target:
        package, at = self._package, FIRST_LIES if step <= HALF else SECOND_LIES
        return Target(self.program, package.constants, package.initial, self._backend, at, None)

    def _executor(self) -> Executor | None:
        made = {half: executor_of(LIE, self._lie(half)) for half in (1, HALF + 1)}

        class Both:
            def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
                one = made[1 if state.step < HALF else HALF + 1]
                assert one is not None
                return one.step(state, commit)

        return Both()

    def _values(self, state: State, node: int) -> NodeValues:
        return values_of(LIE, self._lie(state.step + 1), state, node)

    def _watched(self, before: State, hook: NodeHook) -> StepTrace | None:  # type: ignore[override]
        watched(LIE, self._lie(before.step + 1), before, hook)
        return self._run.commit_step(before)[1]


class Nobody:
    """Opponents whose servers a liar does not ask, so that it concludes nothing in their place."""

    def ask(self, _: Sequence[str]) -> Nobody:
        return self

    def tensor(self, *_: object) -> None:
        """Nothing is served."""


class LiesTwice(Arena):
    """The trainer's run lies in both intervals."""

    def _open_runner(
        self, node: Daemon, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        return open_runner(node, follows=follows, replay=Replay if lie.fault is Fault.NONE else WrongTwice)


@pytest.mark.slow
def test_a_restart_beside_a_claim_of_the_right_root_loses_no_refutation(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by default, the sampler has refuted the only claim, and claims the right root as well. Its whole run is back
    from the disk while the interval of the refutation is replayed."""
    go = threading.Event()
    go.set()
    found = LieRunner._find_staked

    def slowly(self: LieRunner, task: Task) -> None:
        go.wait(600.0)
        found(self, task)

    takes_whole = Sampler._takes_whole

    def later(self: Sampler, job: JobView, now: int) -> bool:
        """As a whole run takes longer than an interval, its claim comes after the refutation."""
        return any(group.refutes is not None for group in job.groups) and takes_whole(self, job, now)

    monkeypatch.setattr(Sampler, "_takes_whole", later)
    monkeypatch.setattr(Samples, "plan", lambda *_: Plan((2,)))
    monkeypatch.setattr(LieRunner, "_find_staked", slowly)
    with LiesTwice.sampled(anvil, tmp_path, bundle) as arena:
        me = arena.address("challenger")
        sampler = next(member for member in arena.members if member.name == "challenger")

        def in_trial() -> bool:
            snapshot = arena.client.snapshot()
            job = snapshot.job(arena.job_id)
            assert not job.phase.ended
            heard = [hearing for hearing in snapshot.hearings(job)[0] if hearing.state.in_trial]
            return bool(heard) and len(job.stakes_of(me)) == 2

        def stakes() -> int:
            return len(arena.client.snapshot().job(arena.job_id).stakes_of(me))

        while not stakes():
            arena.turn()
        while stakes() < 2:
            sampler.loop.tick()
            arena.skip(1)
        liar = next(member.part for member in arena.members if member.name == "trainer-0")
        assert isinstance(liar, Participant)
        assert liar._disputes is not None
        liar._disputes._hearings._opponents = cast(Opponents, Nobody())
        while not in_trial():
            arena.turn()
        go.clear()
        arena.restart("challenger")
        runner = sampler.runner
        assert runner is not None

        def known() -> bool:
            sampler.loop.tick()
            return bool(runner.known(arena.job_id))

        until(known)
        for _ in range(50):
            sampler.loop.tick()
            time.sleep(0.02)
        go.set()
        outcome = arena.play()
        assert outcome.matches[0] == (Reason.OPERATOR, {arena.address("trainer-0")})
        assert outcome.profit["challenger"] == REWARD + STAKE // 2


@pytest.mark.slow
@pytest.mark.usefixtures("parts_alone")
def test_a_restart_between_two_refutations_of_a_job_loses_none(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is won long ago. The second is in its trial when the sampler restarts, and takes longer to be found
    again than the first."""
    liar, go = "", threading.Event()
    go.set()

    def plan(_: Samples, job: JobView, group: Group) -> Plan:
        return Plan((2 if job.claims[group.members[0]].owner == liar else 1,))

    found = LieRunner._find_staked

    def slowly(self: LieRunner, task: Task) -> None:
        if task.root.begun == [2]:
            go.wait(600.0)
        found(self, task)

    monkeypatch.setattr(Samples, "plan", plan)
    monkeypatch.setattr(LieRunner, "_find_staked", slowly)
    with Arena.sampled(anvil, tmp_path, bundle) as arena:
        node = arena._node("liar", "liar", mode=Mode.CHALLENGE)
        liar, me = node.address or "", arena.address("challenger")
        sampler = next(member for member in arena.members if member.name == "challenger")

        def job() -> JobView:
            return arena.client.snapshot().job(arena.job_id)

        while not any(claim.lost for claim in job().claims):
            arena.turn()
            assert not job().phase.ended
        runner = arena._stack.enter_context(open_runner(node, follows=True, replay=WrongTwice))
        arena.members.append(Member("liar", False, node, challenger(node, runner), runner))

        def heard() -> Any:
            snapshot = arena.client.snapshot()
            hearings = snapshot.hearings(snapshot.job(arena.job_id))[0]
            return next((h for h in hearings if h.player(me) and h.player(liar) and h.state.in_trial), None)

        while heard() is None:
            arena.turn()
            assert not job().phase.ended
        go.clear()
        arena.restart("challenger")
        for _ in range(200):
            sampler.loop.tick()
        go.set()
        while not job().phase.ended:
            arena.turn()
        assert job().phase is JobPhase.UNCLAIMED, "the lie is not accepted"
        mine = [claim for claim in job().claims if claim.owner == me]
        assert len(mine) == 2
        assert not any(claim.lost for claim in mine), f"the sampler is right, and lost {STAKE} wei"
