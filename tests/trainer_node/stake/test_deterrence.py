"""The share of a run that has to be checked for lying not to pay: by all that a liar may win."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.trainer_node.desk import challenged
from tests.trainer_node.roles.member import member
from trainer_node.roles.acceptance import Acceptance
from trainer_node.stake.deterrence import Useless, deterrence
from trainer_node.stake.judge import first

DAY, STAKE = 24 * 3600, 1000
JOB = challenged(1, [(bytes(32), "")], DAY, stake=STAKE)


@pytest.mark.parametrize("reward", [0, 10, 60])
def test_what_a_client_sets_aside_for_watchers_counts_as_a_part_of_the_reward(reward: int) -> None:
    """The attack: a client that has moved the trainer's pay into the pool, as it is told to; nobody watches, the liar's
    accounts show its root, and samplers checked one interval."""
    job = challenged(1, [(bytes(32), "")], DAY, stake=STAKE, reward=reward)
    whole = challenged(1, [(bytes(32), "")], DAY, stake=STAKE, reward=60)
    assert deterrence(job, 3, 60 - reward) == deterrence(whole, 3)


def test_a_sample_that_would_deter_nobody_from_the_pool_is_not_begun(tmp_path: Path) -> None:
    node = member(tmp_path, check="share")
    runner = SimpleNamespace(ready_in_s=lambda _: 1.0, measured=lambda _: None)
    judged = Acceptance(node, runner)  # type: ignore[arg-type]
    for pool, leaves in ((0, False), (100 * STAKE, True)):
        shown = SimpleNamespace(commit_age=lambda: 1, pool=lambda _, wei=pool: SimpleNamespace(amount=wei))
        node.client.snapshot = lambda at=shown: at
        assert isinstance(first(judged.sample(JOB, 0)), Useless) is leaves
