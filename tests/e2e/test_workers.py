"""A trainer whose runs are computed by two processes, against a liar that has one: the dispute knows of neither."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay_lab.faults import Fault
from referee_py.execute import Run
from tests.conftest import Anvil
from tests.trainer_node.workers.jobs import job
from tests.trainer_node.workers.processes import workers_of
from trainer_node.daemon.service import Daemon
from trainer_node.run.modes import backend_here

from .arena import Arena

STEPS = 20
LIES_AT = 13


class Workers(Arena):
    """The first trainer has two workers. ``seen`` are their numbers, while they were there."""

    seen: set[int]

    def turn(self) -> bool:
        before = set(workers_of())
        went = super().turn()
        self.seen = getattr(self, "seen", set()) | before | set(workers_of())
        return went

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        if name == "trainer-0":
            settings |= {"workers": 2, "threads": 1}
        return super()._node(name, role, **settings)


@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_dispute_of_two_workers_with_a_liar_that_has_one(
    anvil: Anvil, tmp_path: Path, capfd: pytest.CaptureFixture[str], dies: bool
) -> None:
    small = job("mlp")
    bundle = replace(small, terms=type(small.terms).of(small.program, STEPS, (4, 1), small.terms.mode))
    faults = [Fault.NONE, Fault.WRONG_OP_OUTPUT]
    with Workers(anvil, tmp_path, bundle, trainers=faults, challenger=None, fault_step=LIES_AT - 1) as arena:
        while dies and not (found := workers_of()):
            arena.turn()
        if dies:
            os.kill(found[1], signal.SIGKILL)
        outcome = arena.play()
    assert [losers for _, losers in outcome.matches] == [{arena.address("trainer-1")}]
    right = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch")).commit_run()
    assert outcome.job.accepted_root == right.root
    assert outcome.profit["trainer-0"] > 0 > outcome.profit["trainer-1"]
    assert arena.seen == {1}
    lost = [line for line in capfd.readouterr().err.splitlines() if "worker.lost" in line]
    assert ["worker 1 (" in line for line in lost] == [True] * dies
    assert not workers_of()
