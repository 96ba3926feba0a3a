"""Attack: a sweep of a large store takes minutes. A job that rests as it begins has a lie claimed and served meanwhile,
which is found, or refuted, or met with the right root; and the sweep took all that this rests on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_node.desk import STRANGER, new_runner, serving, until
from trainer_node.chain import ClaimView, Group, JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.mending import MEND_S
from trainer_node.play.actions import JobAction
from trainer_node.roles.participant import Participant
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.job_holds import Holders

from .member import ME
from .sampling.test_siege import INTERVAL, Siege, siege  # noqa: F401
from .test_found_lies_that_wait import Waiting
from .test_right_roots_that_wait import CLAIM, JOB, SILENT, Challenger, one, shown  # noqa: F401
from .test_what_a_lie_rests_on import same_numbers  # noqa: F401


def sweeps(keeper: Keeper, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Let what is urgent be swept, and something happen in the loop once that has begun."""
    jobs = Holders.jobs

    def lists(holders: Holders) -> dict[int, float | None]:
        monkeypatch.setattr(Holders, "jobs", jobs)
        found = jobs(holders)
        meanwhile()
        return found

    monkeypatch.setattr(Holders, "jobs", lists)
    keeper.make_room(1 << 60)


@pytest.mark.parametrize("refuted", [False, True])
def test_an_interval_keeps_what_it_rests_on(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuted: bool,
) -> None:
    rounds, node, of = Waiting(siege, tmp_path), siege.node, siege.job(1, siege.lie)
    rounds.keeper.works_at = node.works_at
    rounds.node.wei = 0
    siege.prepared(of)
    with rounds.changed(claims=(), groups=()):
        rounds.go(1)
    rounds.later(600)
    assert 1 in rounds.keeper._resting()
    changes: dict[str, Any] = {}

    def found() -> None:
        until(lambda: bool(rounds.go(1) and node.found(1)))
        rounds.go(1)
        if refuted:
            (lie,) = node.found(1)
            siege.wanted.refuted, siege.wanted.of = (INTERVAL,), siege.run.root
            ours = ClaimView(1, ME, 1, 1, False, False, False, "")
            group = Group(1, lie.root, bytes(32), 1, 0, 0, 0, (1,), 0)
            changes.update(claims=(*of.claims, ours), groups=(*of.groups, group))
            with rounds.changed(**changes):
                rounds.go(1)

    sweeps(rounds.keeper, monkeypatch, found)
    before = len(list(rounds.store.holders.held(1)))
    assert before > 4, "its package, and its interval"
    with rounds.changed(**changes):
        for _ in range(5):
            rounds.go(1)
    rounds.later(7200)
    rounds.keeper.collect()
    assert len(list(rounds.store.holders.held(1))) == before
    assert all((rounds.store.root / path).exists() for _, path in rounds.store.holders.held(1))
    if not refuted:
        assert rounds.refutes()


def test_a_whole_run_keeps_what_it_rests_on(
    one: Challenger,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right root is claimed during the sweep. After a restart it can be played, though nobody serves anything."""
    works, keeper, acts = one.works, one.keeper, list[JobAction]()
    keeper.works_at, store = works.works_at, keeper._store

    def decide(job: JobView, _: int) -> tuple[list[JobAction], Any]:
        found = one.whole.decide(job, 0)
        acts[:] = found[0]
        return found

    role, sure = Participant(one.node, works, decide), lambda **_: None
    block = SimpleNamespace(number=1, base_fee=0)

    def go(of: JobView) -> list[JobAction]:
        acts.clear()
        role.turns(SimpleNamespace(now=0, confirm=sure, doubt=None, block=block), of)  # type: ignore[arg-type]
        return list(acts)

    with serving(tmp_path / "client") as uri:
        right = ClaimView(0, STRANGER, 1, 0, True, False, False, uri)
        group = Group(0, CLAIM.root, b"", 0, 0, 0, 0, (0,))
        agreed = replace(shown(uri), claims=(right,), groups=(group,))
        until(lambda: go(agreed) == [] and works.known(JOB) == CLAIM)
        until(lambda: not works.busy)
        go(agreed)
    one.later()
    keeper._at_rest._fitted.clear()  # it has fitted some minutes ago
    assert JOB in keeper._resting()
    lie = shown(SILENT, ally=True, given_away=True)

    def claims() -> None:
        assert any(JobAction.CHALLENGE in go(lie) for _ in range(5))
        keeper.stake(JOB, True)  # as `Reserve.staking` does when it is sent

    sweeps(keeper, monkeypatch, claims)
    ours = replace(
        lie,
        claims=(*lie.claims, ClaimView(2, ME, 1, 1, False, False, False, "")),
        groups=(lie.groups[0], Group(1, CLAIM.root, b"", 0, 1, 1, 0, (1, 2))),
    )
    go(ours)
    again = new_runner(JobRunner, store, works._database, keeper=keeper, clock=one.clock)
    restarted = Challenger(one.node, again, keeper, one.clock, set())

    def playable() -> bool:
        one.clock.on(MEND_S)
        return restarted.whole.decide(ours, 0)[1] is not None and again._works[JOB].replay is not None

    with contextlib.closing(again):
        until(playable)
