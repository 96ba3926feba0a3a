"""A second lie, in the last second of the challenge phase, that nobody serves: the right root is claimed before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from referee_py.commit import Tag, Tree
from referee_py.jobs import commitment
from tests.conftest import Anvil
from trainer_node.chain import Call
from trainer_node.local.bundle import Bundle

from .arena import NOWHERE, REWARD, STAKE, TIME_STEP_S, Arena
from .test_disputes import honest_root

SALT = bytes(31) + b"\2"
LAST = b"made up".rjust(32)
LATE_S = 5
"""Seconds before the end of the challenge phase."""


class LateLiar:
    """Claims a root that differs from the trainer's in its last checkpoint, and serves nothing of it."""

    def __init__(self, arena: Arena, bundle: Bundle) -> None:
        self._arena, self._key = arena, arena._transactions()
        (liar,) = (member for member in arena.members if not member.honest)
        assert liar.runner is not None
        theirs = liar.runner.replay(arena.job_id).run_tree(0, 0, bundle.terms.steps)
        self._tree = Tree(Tag.RUN_TREE, [*theirs.leaves[:-1], LAST])
        jobs, where = arena.client.contracts.jobs, arena.client.deployment.chain_id
        bound = where, str(jobs.address), arena.job_id, self._key.account.address
        hashed = commitment(*bound, self._tree.root, LAST, bytes(32), SALT)
        self._key.send(Call.of(jobs, "commitChallenge", arena.job_id, hashed))

    @property
    def root(self) -> bytes:
        return self._tree.root

    def claim(self) -> None:
        told = self.root, LAST, self._tree.path(len(self._tree.leaves) - 1), NOWHERE
        jobs = self._arena.client.contracts.jobs
        self._key.send(Call.of(jobs, "challenge", self._arena.job_id, told, SALT, value=2 * STAKE))


@pytest.mark.parametrize("check", ["sample:1", pytest.param("sample:0.7", marks=pytest.mark.slow)])
def test_a_sampler_that_has_refuted_a_lie_claims_the_right_root_before_a_late_one(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """The sampler finds the trainer's lie in what it is served. Whoever knows the right root only when the second one
    turns out to be withheld cannot claim it any more."""
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.001)
    with Arena.sampled(anvil, tmp_path, bundle, check=check) as arena:
        while not (job := arena.client.snapshot().job(arena.job_id)).claims:
            arena.turn()
        late = LateLiar(arena, bundle)
        while (left := job.challenge_end - arena.client.snapshot().now) > LATE_S + TIME_STEP_S:
            assert not job.phase.ended
            arena.turn()
            job = arena.client.snapshot().job(arena.job_id)
        arena.skip(left - LATE_S)
        late.claim()
        outcome = arena.play()
        assert outcome.job.group_of_root(late.root) is not None, "the lie came in time"
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.profit["challenger"] >= REWARD + STAKE // 2
        assert outcome.profit["trainer-0"] == -STAKE
