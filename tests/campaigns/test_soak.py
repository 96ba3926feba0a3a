"""A day of a deployment: all outcomes are right, nobody honest loses, and no node grows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_lab.faults import Fault
from tests.conftest import Anvil
from tests.e2e.arena import REWARD
from trainer_node.chain import JobPhase
from trainer_node.monitor.alerts import Kind

from .soak import LIAR, Day, Plan, Soak

DAY = Plan(jobs=200, hours=24, lies=0.2)
GROWTH_BYTES = 96 << 20
"""By how much the process of all nodes together may grow from the first quarter of the day to its end."""
DISK_BYTES = 64 << 20


def check(soak: Soak, day: Day, plan: Plan) -> None:
    """Check every job of a day, every account, and what the onlookers have said."""
    assert len(day.ended) == len(day.posted) == plan.jobs
    liar, wrong, right = soak.address(LIAR), 0, 0
    for number, job in day.ended.items():
        posted = day.posted[number]
        assert job.phase is JobPhase.ACCEPTED, (number, job.phase, posted.lie)
        assert job.accepted_root == posted.right, (number, posted.lie)
        for claim in job.claims:
            group = job.groups[claim.group]
            honest = group.root == posted.right
            assert claim.lost != honest, (number, claim)
            assert honest or claim.owner.lower() == liar.lower()
        right += sum(group.root == posted.right for group in job.groups)
        wrong += sum(group.root != posted.right for group in job.groups)
    lies = sum(posted.lie.fault is not Fault.NONE for posted in day.posted.values())
    assert wrong == lies, "a liar had no place in its job"
    for member in soak.members:
        if member.name != LIAR:
            assert day.profit[member.name] >= 0, f"{member.name} lost {day.profit[member.name]}"
    assert day.matches >= wrong
    assert 0 < sum(day.profit.values()) <= plan.jobs * REWARD
    # The keyless challenger has seen each root that was claimed: no false alarm, and no lie missed.
    assert day.told == {"valid": right, "invalid": wrong}
    lied = {number for number, posted in day.posted.items() if posted.lie.fault is not Fault.NONE}
    assert {number for kind, number in day.alarms if kind is Kind.WRONG_CLAIM} <= lied
    assert not day.unchecked


def play(anvil: Anvil, folder: Path, plan: Plan) -> Day:
    """Let the day pass and check it."""
    with Soak(anvil, folder, plan) as soak:
        day = soak.run(lambda line: print(line, file=sys.__stderr__, flush=True))
        check(soak, day, plan)
    early = next(sample for sample in day.samples if sample.hour >= plan.hours / 4)
    last = day.samples[-1]
    assert last.memory - early.memory < GROWTH_BYTES, f"{(last.memory - early.memory) >> 20} MiB"
    assert max(last.disk.values()) < DISK_BYTES, last.disk
    return day


@pytest.mark.slow
def test_an_hour_with_many_jobs(start_anvil: Callable[..., Anvil], tmp_path: Path) -> None:
    day = play(start_anvil(), tmp_path, Plan(jobs=2, hours=0.2, lies=1.0, seed=3))
    assert day.matches


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_a_day_of_200_jobs(start_anvil: Callable[..., Anvil], tmp_path: Path) -> None:
    play(start_anvil(), tmp_path, DAY)
