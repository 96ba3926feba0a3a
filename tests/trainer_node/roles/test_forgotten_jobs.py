"""Strangers post jobs and claim roots without end: what a node remembers of one goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import structlog

from tests.trainer_node.desk import REFEREE, job
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.daemon.service import Daemon
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.roles.whole_runs import WholeRuns
from trainer_node.settings.extent import Mode
from trainer_node.stake.policy import TooDear
from trainer_node.storage.database import Database

JOBS = range(1, 51)
ROOT = b"\1" * 32


def node() -> Any:
    """A node without a key, with what a job touches when it is over."""
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    made: Any = SimpleNamespace(
        settings=SimpleNamespace(
            check="sample:0.5", samplers=1, max_check_cpu_h=0, max_check_bytes=0, mode=Mode.WATCH
        ),
        address=None,
        transactions=None,
        remembered=Remembered(),
        database=Database(None),
        client=SimpleNamespace(deployment=SimpleNamespace(referee=REFEREE), forget=nothing),
        keeper=SimpleNamespace(over=nothing),
        duties=SimpleNamespace(over=nothing),
        problems=SimpleNamespace(forget_job=nothing),
        gauges=SimpleNamespace(over=nothing),
        peers=SimpleNamespace(forget=nothing),
    )
    return made


def claimed_jobs() -> list[JobView]:
    claims = (ClaimView(0, "0x" + "bb" * 20, 1, 0, True, False, False, ""),)
    groups = (Group(0, ROOT, b"", 0, 0, 0, 0, (0,)),)
    program = replace(job(0).program, steps=1000, strides=(10,))
    common = {"phase": JobPhase.CHALLENGE, "challenge_end": 10, "program": program}
    return [job(number, claims=claims, groups=groups, **common) for number in JOBS]


def over(made: Any, number: int) -> None:
    """Let a job be over, as the loop does."""
    Daemon.job_over(made, SimpleNamespace(id=number))  # type: ignore[arg-type]


def test_the_draws_of_a_job_that_is_over_are_forgotten_and_the_same_if_it_comes_back() -> None:
    made = node()
    samples, of = Samples(made), claimed_jobs()

    def draws() -> list[list[int]]:
        return [list(samples.plan(one, one.groups[0]).intervals) for one in of]  # type: ignore[union-attr]

    with structlog.testing.capture_logs():
        drawn = draws()
        assert samples._told
        for number in JOBS:
            over(made, number)
        assert not samples._told
        assert draws() == drawn


def test_what_was_begun_and_told_of_a_job_is_forgotten_once_it_is_over() -> None:
    made = node()
    claim = SimpleNamespace(root=ROOT)
    worth = Acceptance(made, SimpleNamespace())  # type: ignore[arg-type]
    whole = WholeRuns(made, lambda *_, **__: claim, worth)  # type: ignore[arg-type]
    worth.whole_after_s = lambda *_, **__: 0.0  # type: ignore[method-assign]
    of = claimed_jobs()

    def told() -> list[str]:
        with structlog.testing.capture_logs() as logs:
            for one in of:
                whole.decide(one, 0)
                worth.takes(one.id, [TooDear(2, 1, "max_stake_eth")])
        return [log["event"] for log in logs]

    once = ["claim.valid", "job.left_to_others"] * len(of)
    assert told() == once
    assert told() == []
    for number in JOBS:
        over(made, number)
    assert not any((worth._told, whole._told, whole._begun))
    assert told() == once, "a reorganisation has brought them back"
