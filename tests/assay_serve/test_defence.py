"""The node of a server with a pledge learns of challenges of its receipts from the chain, and takes no other jobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assay_serve.answer_run import AnswerRuns
from assay_serve.defence import Defence, settings_of
from assay_serve.model import Model
from trainer_node.chain import JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.daemon.service import Daemon
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import Settings
from trainer_node.storage.retention import Policy, Retention
from trainer_node.storage.store import Store

from .pledged import Ground, answered, run_of
from .test_pledges import ground as _ground

ground = _ground


@dataclasses.dataclass
class Scene:
    """Challenges of receipts of two owners, and the node of the first."""

    defence: Defence
    store: Store
    ours: JobView
    others: JobView
    count: int
    """Artifacts of our run."""


def scene(ground: Ground, model: Model, folder: Path, *, kept: bool = True) -> Scene:
    jobs = []
    owner, terms, backing = ground.pledged()
    _, other_terms, other = ground.pledged()
    signed = answered(model, backing, ground.now)
    for receipt, conditions in ((signed, terms), (answered(model, other, ground.now), other_terms)):
        number = ground.challenge(ground.account(), conditions, receipt, run_of(model, receipt))
        jobs.append(ground.client.snapshot().job(number))
    if kept:
        (folder / f"{signed.receipt.id}.json").write_bytes(signed.to_bytes())
    store = Store(folder / "artifacts")
    node = cast("Daemon", SimpleNamespace(remembered=Remembered(), store=store))
    runs = {signed.receipt.places: AnswerRuns(model)}
    defence = Defence(node, ground.pledges, owner.address, runs.__getitem__, folder)
    bundle = run_of(model, signed)
    tensors = {one.hash for one in (*bundle.program.constants, *bundle.program.initial)}
    return Scene(defence, store, jobs[0], jobs[1], len(tensors) + 1)


def test_a_challenge_of_an_own_receipt_is_taken_and_its_run_is_held(
    ground: Ground, model: Model, tmp_path: Path
) -> None:
    at = scene(ground, model, tmp_path)
    assert at.defence.wants(at.ours)
    assert len({path for _, path in at.store.holders.held(at.ours.id)}) == at.count
    later = Retention(at.store, None, Policy(), clock=lambda: 1e11)
    assert later.collect().removed == 0, "the job is not over"
    at.store.holders.end(at.ours.id)
    assert later.collect().removed == at.count


def test_whoever_pledges_and_challenges_himself_gets_nothing(
    ground: Ground, model: Model, tmp_path: Path
) -> None:
    """The attack: a pledge of the attacker's own at the same contract, whose challenges are jobs of it, too."""
    at = scene(ground, model, tmp_path)
    assert not at.defence.wants(at.others)
    assert not at.defence.wants(dataclasses.replace(at.ours, client="0x" + "11" * 20))
    assert not list(at.store.holders.held(at.others.id))


def test_a_challenge_is_played_without_the_receipt_too(ground: Ground, model: Model, tmp_path: Path) -> None:
    at = scene(ground, model, tmp_path, kept=False)
    assert at.defence.wants(at.ours)
    assert not list(at.store.holders.held(at.ours.id))


def test_what_an_endpoint_does_not_know_yet_is_asked_again(
    ground: Ground, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = scene(ground, model, tmp_path)
    with monkeypatch.context() as behind:
        behind.setattr(ground.pledges, "challenged", lambda _job: None)
        assert not at.defence.wants(at.ours)
    assert at.defence.wants(at.ours)


def test_another_job_of_the_same_number_is_looked_at(
    ground: Ground, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reorganisation the number may be another challenge's."""
    at = scene(ground, model, tmp_path)
    asked: list[JobView] = []
    known = ground.pledges.challenged

    def challenged(job: JobView) -> Any:
        asked.append(job)
        return known(job)

    monkeypatch.setattr(ground.pledges, "challenged", challenged)
    again = dataclasses.replace(at.others, posted=at.others.posted + 12)
    for job in (at.others, at.others, again):
        at.defence.wants(job)
    assert len(asked) == 2


def test_own_receipts_are_defended_at_any_price() -> None:
    policy = {"clients": ["0x" + "11" * 20], "programs": ["22" * 32], "max_open_jobs": 3}
    chosen: dict[str, Any] = {"chain_id": 1, "check": "sample:0.1", "policy": policy}
    found = settings_of(Settings(**chosen))
    assert (found.mode, found.check) == (Mode.CHALLENGE, "all")
    watches: dict[str, Any] = {"mode": Mode.CHALLENGE, "max_watch_eth": 1.0}
    assert settings_of(Settings(**watches)).max_watch == 0
    assert (found.node_price, found.max_reserve_prizes) == (0, 0)
    assert (found.policy.clients, found.policy.programs, found.policy.max_open_jobs) == ((), (), 0)
