"""Attack: a program in rounded-f64 is posted twice. The slot of the second job is taken by somebody who commits to the
logs of the first, claims a wrong root and serves nothing. A challenger that has replayed the first job knows the right
root, and does nothing: the lie is accepted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from assay_lab.faults import Fault
from referee_py.commit import Tag, Tree
from referee_py.jobs import commitment
from referee_py.program.modes import Rounding
from referee_py.program.terms import leaf_count
from tests.conftest import Anvil
from trainer_node.chain import Call, JobPhase, JobView

from ..trainer_node.compute.test_logs_of_an_earlier_job import collected
from . import brink
from .arena import NOWHERE, STAKE, TIME_STEP_S, Arena

SALT = bytes(31) + b"\2"


def lie(arena: Arena, key: Any, first: JobView) -> bytes:
    """Take the slot of the second job, and claim a wrong root of the first job's run there; return it."""
    jobs, where = arena.client.contracts.jobs, arena.client.deployment
    count = leaf_count(0, first.program.steps, first.program.strides[0])
    right = arena.members[-1].node.store.get_tree(Tag.RUN_TREE, first.accepted_root, count)
    wrong = Tree(Tag.RUN_TREE, [*list(right.leaves)[:-1], bytes(31) + b"\1"])
    last = wrong.leaves[count - 1]
    key.send(Call.of(jobs, "join", 2, value=2 * STAKE))
    about = where.chain_id, str(jobs.address), 2, key.address
    key.send(Call.of(jobs, "commit", 2, commitment(*about, wrong.root, last, first.logs, SALT)))
    claim = wrong.root, last, wrong.path(count - 1), NOWHERE
    key.send(Call.of(jobs, "reveal", 2, claim, first.logs, SALT))
    return wrong.root


@pytest.mark.parametrize("hours_later", [False, True])
def test_a_lie_about_a_run_that_is_known_is_not_accepted(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours_later: bool
) -> None:
    """``hours_later``: what the first job held is collected by then, but for its result."""
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.01)
    options: dict[str, Any] = {"trainers": [Fault.NONE], "verifiers": 0, "threshold": 0}
    with Arena(anvil, tmp_path, brink.bundle(Rounding(32)), **options) as arena:
        first = arena.play().job
        assert first.phase is JobPhase.ACCEPTED
        challenger, key = arena.members[-1], arena._transactions()
        for _ in range(3):
            challenger.loop.tick()
        if hours_later:
            collected(challenger.node.store.root, challenger.node.database)
        arena.post_again(threshold=0)
        wrong = lie(arena, key, first)
        assert challenger.runner is not None
        until = time.monotonic() + 90
        while not (job := arena.client.snapshot().job(2)).phase.ended:
            assert time.monotonic() < until, "it neither ends nor is disputed"
            challenger.loop.tick()
            if len(job.claims) > 1 or arena.client.snapshot().ledger(job).open:
                return  # it is disputed, or the logs are requested
            if challenger.runner.busy:
                time.sleep(0.02)
            elif job.phase is JobPhase.CLOSING and arena.client.snapshot().now >= job.reclaim_end:
                key.send(Call.of(arena.client.contracts.jobs, "finalize", 2))
            else:
                arena.skip(TIME_STEP_S)
        assert job.accepted_root != wrong, "the lie is accepted, and the challenger has seen all of it"
