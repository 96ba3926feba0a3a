"""The last moments of slots, while other jobs ask something of the trainer: what is computed and sent for those keeps
no slot from being committed to, or given back.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from referee_py.commit import Tag, Tree
from referee_py.execute import Executor, State, StepTrace, executor_for
from referee_py.jobs import EMPTY_COMMITMENT, commitment
from trainer_node.chain import Call, JobPhase
from trainer_node.client.posting import Offer
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.run.replay import Replay
from trainer_node.stake.deadlines import LEAST_S
from trainer_node.storage.store import Store

from ..conftest import Anvil
from ..trainer_node.desk import until
from .arena import STAKE, Member, in_intervals
from .test_slow_steps import Alone

SALT = bytes(31) + b"\2"
LONG = ("clock", "verdict_period", "challenge_period", "appeal_period", "reveal_period")
LEFT_S = 300
"""Seconds until the end of training in which a move of another job is computed."""


class Between:
    """Steps of two jobs: those of the first wait while its dispute asks for a move, those of the second until told."""

    def __init__(self, first: bytes) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.disputed, self.moves = threading.Event(), threading.Event()
        self.disputed.set()
        between = self

        class Steps(Executor):
            def __init__(self, within: Executor, plays: bool) -> None:
                self._within, self._plays = within, plays

            def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
                if self._plays and not between.disputed.is_set():
                    between.moves.set()
                    assert between.disputed.wait(120)
                if not self._plays and state.step == 1:
                    between.reached.set()
                    assert between.go.wait(120)
                return self._within.step(state, commit)

        class Between(Replay):
            def _executor(self) -> Executor:
                within = executor_for(self.program, self._package.constants, self._backend)
                return Steps(within, self.terms.hash() == first)

        self.replay = Between


@pytest.mark.parametrize("in_time", [True, False])
def test_a_move_that_is_computed_keeps_no_slot_from_its_end(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, in_time: bool
) -> None:
    """The attack: whoever disputes one job some minutes before training ends in another one has a move computed
    meanwhile, which the loop waited for, and the slot was lost. ``in_time``: its run is done."""
    steps = Between(bundle.terms.hash())

    class Two(Alone):
        replay = steps.replay
        train_s = 100_000

        def _terms(self, slots: int, threshold: int) -> Offer:
            periods: dict[str, Any] = dict.fromkeys(LONG, 20_000)
            return replace(super()._terms(slots, threshold), train_period=self.train_s, **periods)

        def _node(self, name: str, role: str, **settings: Any) -> Daemon:
            return super()._node(name, role, block_s=3.0, **settings)

    with Two(anvil, tmp_path, bundle) as arena:
        (member,) = arena.members
        me, runner = member.node.address, member.runner
        assert me is not None
        assert runner is not None
        try:
            until(lambda: arena.turn() and bool(arena.client.snapshot().job(1).claims))
            arena._bundle, arena.train_s = in_intervals(2), 3000
            arena.post_again()
            until(lambda: arena.turn() and steps.reached.is_set())
            end = arena.client.snapshot().job(2).commit_end

            key, jobs = arena._transactions(), arena.client.contracts.jobs
            lie = Tree(Tag.RUN_TREE, [bytes(31) + b"\1", bytes(31) + b"\2"])
            where = arena.client.deployment.chain_id, str(jobs.address), 1, key.account.address
            committed = commitment(*where, lie.root, lie.leaves[1], bytes(32), SALT)
            key.send(Call.of(jobs, "commitChallenge", 1, committed))
            arena.skip(end - arena.client.snapshot().now - LEFT_S)
            member.loop.tick()
            store = Store(tmp_path / "attacker", sync=False)
            store.put_tree(lie)  # it is served, so the first move is computed as soon as the match is seen
            with ArtifactServer(store) as server:
                told = lie.root, lie.leaves[1], lie.path(1), server.uri
                key.send(Call.of(jobs, "challenge", 1, told, SALT, value=2 * STAKE))
                if in_time:
                    steps.go.set()
                    until(lambda: runner.known(2))
                steps.disputed.clear()
                member.loop.tick()
                assert steps.moves.wait(60), "the move is being computed"
                if not in_time:
                    last_s = 2 * max(member.node.settings.latency_s, LEAST_S) + member.node.duties.sends_s(2)
                    arena.skip(end - arena.client.snapshot().now - int(last_s) + 1)
                until(lambda: ticked(member) and ended(arena, me, in_time))
                assert arena.client.snapshot().job(2).phase is JobPhase.TRAINING or in_time
                assert not steps.disputed.is_set(), "it is still computed"
        finally:
            steps.disputed.set()
            steps.go.set()


def ticked(member: Member) -> bool:
    """Let a daemon look once; no time passes."""
    member.loop.tick()
    return True


def ended(arena: Alone, me: str, in_time: bool) -> bool:
    """Return whether the slot in the second job is committed to, or given back."""
    mine = arena.client.snapshot().job(2).trainer(me)
    if in_time:
        return mine is not None and (mine.revealed or mine.commitment != EMPTY_COMMITMENT)
    return mine is None


def test_a_root_is_revealed_while_a_move_is_computed(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """The attack: a liar has a move computed, and commits to the last slot of the other job meanwhile."""
    steps = Between(bundle.terms.hash())
    steps.go.set()

    class Two(Alone):
        replay = steps.replay
        slots = 1

        def _terms(self, _: int, threshold: int) -> Offer:
            periods: dict[str, Any] = dict.fromkeys(LONG, 20_000)
            return replace(super()._terms(self.slots, threshold), train_period=3000, **periods)

    with Two(anvil, tmp_path, bundle) as arena:
        (member,) = arena.members
        me = member.node.address
        assert me is not None
        try:
            until(lambda: arena.turn() and bool(arena.client.snapshot().job(1).claims))
            arena._bundle, arena.slots = in_intervals(2), 2
            arena.post_again()
            key, jobs = arena._transactions(), arena.client.contracts.jobs
            lie = Tree(Tag.RUN_TREE, [bytes(31) + b"\1", bytes(31) + b"\2"])
            chain = arena.client.deployment.chain_id, str(jobs.address)

            def hidden(job: int) -> bytes:
                return commitment(*chain, job, key.account.address, lie.root, lie.leaves[1], bytes(32), SALT)

            key.send(Call.of(jobs, "join", 2, value=2 * STAKE))
            key.send(Call.of(jobs, "commitChallenge", 1, hidden(1)))
            until(lambda: ticked(member) and committed(arena, me))
            arena.skip(LEFT_S)
            store = Store(tmp_path / "attacker", sync=False)
            store.put_tree(lie)
            with ArtifactServer(store) as server:
                told = lie.root, lie.leaves[1], lie.path(1), server.uri
                key.send(Call.of(jobs, "challenge", 1, told, SALT, value=2 * STAKE))
                steps.disputed.clear()
                member.loop.tick()
                assert steps.moves.wait(60), "the move is being computed"
                key.send(Call.of(jobs, "commit", 2, hidden(2)))
                assert arena.client.snapshot().job(2).phase is JobPhase.REVEAL
                until(lambda: ticked(member) and revealed(arena, me))
                assert not steps.disputed.is_set(), "it is still computed"
        finally:
            steps.disputed.set()


def committed(arena: Alone, me: str) -> bool:
    """Return whether the slot in the second job is committed to."""
    mine = arena.client.snapshot().job(2).trainer(me)
    return mine is not None and mine.commitment != EMPTY_COMMITMENT


def revealed(arena: Alone, me: str) -> bool:
    """Return whether the root of the second job is revealed."""
    mine = arena.client.snapshot().job(2).trainer(me)
    return mine is not None and mine.revealed


def test_slots_that_end_in_the_same_second_are_all_given_back(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """The attack: a client posts many jobs that end together, with a step that lasts. Each slot takes a block to be
    given back, and all but the first five were lost."""
    block_s, count = 12, 8
    steps = Between(bytes(32))

    class Many(Alone):
        replay = steps.replay
        train_s = 6000

        def _terms(self, slots: int, threshold: int) -> Offer:
            periods: dict[str, Any] = dict.fromkeys(LONG, 200_000)
            return replace(super()._terms(slots, threshold), train_period=self.train_s, **periods)

        def _node(self, name: str, role: str, **settings: Any) -> Daemon:
            return super()._node(name, role, block_s=float(block_s), confirmations=1, **settings)

    with Many(anvil, tmp_path, bundle) as arena:
        (member,) = arena.members
        me, key = member.node.address, member.node.transactions
        assert me is not None
        assert key is not None
        try:
            end = arena.client.snapshot().job(1).commit_end
            for _ in range(count - 1):
                arena.train_s = end - arena.client.snapshot().now
                arena._keys.append(anvil.keys[-1])
                arena.post_again()

            def slots() -> int:
                snapshot = arena.client.snapshot()
                return sum(snapshot.job(number + 1).trainer(me) is not None for number in range(count))

            until(lambda: ticked(member) and slots() == count)
            assert steps.reached.wait(60)
            send = key.send

            def in_the_next_block(call: Call, **options: Any) -> Any:
                arena.skip(block_s)
                return send(call, **options)

            key.send = in_the_next_block  # type: ignore[method-assign]
            snapshot = arena.client.snapshot()
            before_s = 2 * count * block_s + 2 * int(member.node.settings.latency_s)
            arena.skip(snapshot.job(1).commit_end - snapshot.now - before_s - 2 * block_s)
            assert slots() == count, "it waits as long as it might be in time"
            while arena.client.snapshot().job(1).phase is JobPhase.TRAINING:
                block = arena.web3.eth.block_number
                member.loop.tick()
                if arena.web3.eth.block_number == block:
                    arena.skip(block_s // 2)
            assert slots() == 0
        finally:
            steps.go.set()
