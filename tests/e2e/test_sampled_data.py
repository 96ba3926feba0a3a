"""What samplers make of data that come late, or that cannot be of the run: the claim falls, and they lose nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay_lab.faults import Fault, Lie
from referee_py.commit import Tag, Tree
from referee_py.execute import RunClaim
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.compute.job_runner import JobRunner
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.run.replay import Replay

from .arena import STAKE, Arena, in_intervals
from .slow import SlowServer
from .test_disputes import honest_root

INTERVALS = 10


class MadeUp(Replay):
    """One real step; every checkpoint of the run is its records, with slots of another shape."""

    def train(
        self,
        on_step: Callable[[int], None] = lambda _: None,
        stop: Callable[[], bool] = bool,  # noqa: ARG002
        due: Callable[[], bool] = bool,  # noqa: ARG002
    ) -> RunClaim:
        after, trace = self._run.commit_step(self._run.initial())
        records = list(trace.records)
        for slot, array in zip(self.program.slots, after.arrays, strict=True):
            odd = np.asarray(array).reshape((1, *array.shape))
            outputs = list(records[slot.node].outputs)
            outputs[slot.output] = self._store.put_tensor(odd)
            records[slot.node] = replace(records[slot.node], outputs=tuple(outputs))
        tree = Tree(Tag.STEP_TREE, [record.hash() for record in records])
        self._store.put_tree(tree)
        self._store.put_records(records)
        run = Tree(Tag.RUN_TREE, [tree.root] * INTERVALS)
        self._keep(0, 0, self.terms.steps, run)
        on_step(self.terms.steps)
        return RunClaim(run.root, run.leaves[-1], tuple(run.path(INTERVALS - 1)))


class OfAnotherShape(Arena):
    """Its liar makes everything up."""

    def _open_runner(
        self, node: Daemon, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        if lie.fault is Fault.NONE:
            return super()._open_runner(node, lie, follows=follows)
        return open_runner(node, follows=follows, replay=MadeUp)


@pytest.mark.usefixtures("parts_alone")
def test_states_of_another_shape_are_refuted_where_the_first_one_ends(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine of ten intervals begin with a state that cannot be of the program; the sampler has drawn only such."""
    monkeypatch.setattr(Samples, "plan", lambda *_: Plan(tuple(range(2, INTERVALS + 1))))
    with OfAnotherShape.sampled(anvil, tmp_path, in_intervals(INTERVALS), check="sample:0.9") as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.matches[0][1] == {arena.address("trainer-0")}
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == STAKE // 2


class Slow(Arena):
    """The trainer's server answers right, and every answer takes two minutes of the chain."""

    DELAY_S = 120

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        if name == "trainer-0":
            self.server = SlowServer(self._folder / name / "artifacts", self.DELAY_S)
            self._stack.callback(self.server.close)
            settings["public_uri"] = self.server.uri
        return super()._node(name, role, **settings)

    def turn(self) -> bool:
        idle = super().turn()
        # NOTE: in a match it is gone. How long an opponent's server is waited for there is another matter.
        if self.client.snapshot().job(self.job_id).open_matches:
            self.server.vanish()
        if self.server.waiting:
            self.skip(self.DELAY_S)
            return False
        return idle

    def skip(self, seconds: int) -> None:
        super().skip(seconds)
        self.server.pass_s(seconds)


def test_right_and_slow_is_withheld_before_the_challenges_end(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """One interval's data would take more than the sampler can spare: so it replays the whole run, in time."""
    with Slow.sampled(anvil, tmp_path, bundle, fault_step=33) as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] >= STAKE // 2
