"""Attack: an ally of a liar refutes the lie first, so that a sampler that has found it waits, with nothing at stake;
and the liar serves nothing any more. What the sampler's refutation rests on went where the disk was full, and where one
look of one endpoint showed the job otherwise."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_node.desk import STRANGER, keeper_of, new_runner, rules, until
from tests.trainer_node.storage.test_considered import begins
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.errors import Disagreement, RoomKept
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.run.tensors import Takes
from trainer_node.stake.gas_patience import Market
from trainer_node.storage.database import Database

from .member import ME, RICH, YEARS
from .sampling.test_siege import DAY, Siege, siege  # noqa: F401
from .test_strangers_turns import Rounds

STRANGERS = 2  # a job of the attacker's in which a stake of ours is possible


class Waiting(Rounds):
    """Rounds of a sampler that has found the lie of job 1, and waits."""

    def __init__(
        self,
        siege: Siege,  # noqa: F811
        folder: Path,
        database: Database | None = None,
    ) -> None:
        super().__init__(siege, folder, DAY, database)
        self.silent, self.store = False, siege.node._fetcher.store
        self.keeper = self.node.keeper = keeper_of(folder, siege.node._fetcher.store, self.database)[0]
        self.takes_part()  # NOTE: as a process that begins, with this keeper
        self.begin()
        siege.node._keeper = siege.node._packages._keeper = self.keeper
        self.node.market = lambda _: Market(0, 0)
        self.keeper.considers(STRANGERS, stakes=True)

    @contextlib.contextmanager
    def another_process(self, folder: Path) -> Iterator[Waiting]:
        """Let the process end, and another one begin with the same database and store."""
        before = self.siege
        samples, clock = before.wanted, before.clock
        node = new_runner(SampleRunner, self.store, Database(None), samples=samples, clock=clock)
        after = Siege(before.run, node, samples, clock, before.quick, before.stalling)
        yield Waiting(after, folder, self.database)
        node.close()

    def fills(self) -> None:
        """Let a stranger's run have filled the disk, so that what is in the way goes."""
        self.later(3600)
        self.keeper._urgent = -math.inf
        self.keeper._store_bytes = self.store.usage.total - 4096
        self.keeper.collect()
        self.keeper._store_bytes = 0

    def job(self, number: int) -> JobView:
        of, dead = super().job(number), "http://127.0.0.1:9"
        silent = replace(of, uri=dead, claims=tuple(replace(claim, uri=dead) for claim in of.claims))
        return silent if self.silent else of

    def attend(self, at: Any, job: JobView) -> bool:
        ours, _ = self.role.turns(at, job)
        if job.phase.ended and not ours:  # as `JobTurns` does
            self.keeper.over(job.id)
        return ours

    @contextlib.contextmanager
    def false_look(self, **shown: Any) -> Iterator[None]:
        """Let one look show something else of the job, which others do not confirm."""
        with self.changed(**shown):
            self.confirm = self.refused
            self.go(1)
            yield
        self.confirm = lambda **_: None

    def refused(self, **_: Any) -> None:
        raise Disagreement("two endpoints show another state", contradicted=True)

    def later(self, seconds: float) -> None:
        """Let the files of the store be older."""
        for path in (path for path in self.store.root.rglob("*") if path.is_file()):
            os.utime(path, (path.stat().st_mtime - seconds,) * 2)

    def refutes(self) -> bool:
        """Return whether the lie is refuted once that is possible, though nobody serves it, and what was in memory has
        given way to a stranger's run."""
        self.silent, tensors = True, self.siege.node._tensors
        for job in (1, STRANGERS):
            tensors.of(job, Takes(step=tensors.limit))
        with tensors.lent(STRANGERS, waits=False):
            pass
        self.node.wei = RICH
        return any(self.go(1) and self.refuted for _ in range(20))


@pytest.fixture
def waiting(siege: Siege, tmp_path: Path) -> Waiting:  # noqa: F811
    rounds = Waiting(siege, tmp_path)
    rounds.node.wei = 0
    until(lambda: bool(rounds.go(1) and siege.node.found(1)))
    rounds.go(1)
    assert rounds.waits == [1]
    rounds.later(3600)
    return rounds


LOOKS: dict[str, dict[str, Any]] = {
    "another period": {"challenge_period": YEARS},
    "another clock": {"rules": rules(clock=YEARS)},
    "another stake": {"stake": 1 << 79},
    "another worth of gas": {"stake_gas": 1 << 79},
    "no claim": {"claims": (), "groups": ()},
    "too late": {"phase": JobPhase.CLOSING},
    "its end": {"phase": JobPhase.UNCLAIMED},
}


@pytest.mark.parametrize("shown", LOOKS)
def test_one_false_look_takes_nothing(waiting: Waiting, shown: str) -> None:
    """In the round of that look a stranger's job asks for room; and a day later garbage is collected."""
    before = list(waiting.store.holders.held(1))
    with waiting.false_look(**LOOKS[shown]):
        given = waiting.keeper._resting_states.give(STRANGERS, 1, waiting.keeper._resting(states=True))
    assert given.jobs == ()
    waiting.go(1)
    waiting.later(DAY)
    waiting.keeper.collect()
    assert list(waiting.store.holders.held(1)) == before
    assert waiting.refutes()


def test_what_others_confirm_goes(waiting: Waiting) -> None:
    with waiting.changed(claims=(), groups=()):
        waiting.go(1)
        given = waiting.keeper._resting_states.give(STRANGERS, 1, waiting.keeper._resting(states=True))
    assert given.jobs == (1,)
    with waiting.changed(phase=JobPhase.UNCLAIMED):
        waiting.go(1)
    assert waiting.store.holders.jobs()[1] is not None, "it is over"
    waiting.go(1)
    assert waiting.store.holders.jobs()[1] is None, "a reorganisation has brought it back"


@pytest.mark.parametrize("full", ["the disk", "the quota", "the quota, with a stake elsewhere"])
def test_strangers_data_take_nothing_from_it(waiting: Waiting, full: str) -> None:
    """The attack: a job with a right claim serves many large states, which are checked and kept."""
    keeper, store = waiting.keeper, waiting.store
    if full.endswith("elsewhere"):
        keeper.stake(3, True)
    keeper.works_at = lambda job: job == STRANGERS
    keeper.stake(STRANGERS, False)
    keeper._store_bytes = store.usage.total + 30_000
    before, view = list(store.holders.held(1)), store.held_by(STRANGERS)
    with contextlib.suppress(RoomKept):
        for number in range(20):
            view.put_tensor(np.full(1000, number, np.float32))
    assert len(list(store.holders.held(STRANGERS))) < 20
    if full == "the disk":
        keeper.make_room(1 << 60)
    keeper.collect()
    keeper._store_bytes = 0
    assert list(store.holders.held(1)) == before
    assert waiting.refutes()


def test_beside_it_a_write_takes_what_rests_and_a_fetch_takes_nothing(waiting: Waiting) -> None:
    """As on a full disk where nothing is staked; anybody can have something fetched."""
    keeper, store, rests = waiting.keeper, waiting.store, 5
    for number in range(8):
        store.held_by(rests).put_tensor(np.full(1000, -number, np.float32))
    for job, age in ((1, 7200), (rests, 3600)):  # a lie may wait for years
        begins(store, job, store.holders.began(job) - age)
    keeper.stake(rests, False)
    waiting.later(1800)
    keeper.works_at = lambda job: job == STRANGERS
    keeper._store_bytes = store.usage.total + 1000 + keeper._next_stake(1)
    before = list(store.holders.held(1))

    def held_after(ask: Callable[[], object]) -> int:
        keeper._tried = -math.inf
        assert ask() is not None
        assert keeper._making is not None
        keeper._making.join(30)
        return len(list(store.holders.held(rests)))

    assert held_after(lambda: keeper.fits(STRANGERS, 9000)) == 8
    assert held_after(lambda: keeper.refuses(STRANGERS, 9000)) == 0
    assert list(store.holders.held(1)) == before


@pytest.mark.parametrize("lied", ["", "a dead root", "a claim of ours"])
def test_a_whole_run_that_one_look_calls_for_takes_the_place_of_no_part(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lied: str,
) -> None:
    """The attack: by that look the claimed root is dead, or one of ours, and a run of ten days is in time."""
    rounds, node, begun = Waiting(siege, tmp_path), siege.node, list[int]()

    def begins(work: Any) -> Future[Any]:
        begun.append(work.job.id)
        return Future()

    siege.wanted.whole_s, whole_s = math.inf, 10.0 * DAY
    monkeypatch.setattr(node, "_begin_run", begins)
    monkeypatch.setattr(node, "_whole_s", lambda _: whole_s)
    monkeypatch.setattr(node, "whole_ready_in_s", lambda of: whole_s if node.prepare(of) else None)
    monkeypatch.setattr(node, "whole_after_s", lambda of: 0.0 if node.prepare(of) else None)
    siege.prepared(siege.job(1, siege.lie))
    claim, dead = (
        siege.job(1, siege.lie).claims[0],
        Group(0, siege.run.root, bytes(32), 0, 1, 1, 1000 * DAY, (0,)),
    )
    looks: dict[str, dict[str, Any]] = {
        "a dead root": {
            "groups": (dead,),
            "claims": (replace(claim, lost=True),),
            "challenge_end": 1000 * DAY,
        },
        "a claim of ours": {"claims": (replace(claim, owner=ME),)},
    }
    with rounds.false_look(**looks[lied]) if lied else contextlib.nullcontext():
        assert begun == []
    until(lambda: bool(rounds.go(1) and node.found(1)))
    assert (begun, node._checks[1].whole) == ([], False)


ALLY = "0x" + "dd" * 20


@pytest.mark.parametrize("full", [False, True])
def test_a_restart_while_a_match_is_played_in_closing_forgets_no_lie(
    waiting: Waiting, tmp_path: Path, full: bool
) -> None:
    """The attack: an ally of the liar has refuted first, and its match is played for days. To begin with the job was
    too late by what the look said, so another process did not look for the lie."""
    of, (lie,), now = (
        waiting.siege.job(1, waiting.siege.lie),
        waiting.siege.node.found(1),
        int(waiting.siege.clock()),
    )
    root, uri, ends = waiting.siege.run.root, of.claims[0].uri, now + 10 * DAY

    def shown(*, lost: bool) -> dict[str, Any]:
        claims = (
            ClaimView(0, STRANGER, 1, 0, True, False, False, uri),
            ClaimView(1, ALLY, 1, 1, False, lost, False, ""),
        )
        groups = (
            Group(0, root, bytes(32), 0 if lost else 77, 0, 0, 0, (0,), None, ends if lost else 0),
            Group(1, lie.root, bytes(32), 0, int(lost), 0, 0, (1,), 0),
        )
        closing: dict[str, Any] = {"phase": JobPhase.CLOSING, "challenge_end": now - 5}
        closing |= {"open_matches": int(not lost), "reclaim_end": ends if lost else 0}
        return closing | {"claims": claims, "groups": groups}

    with waiting.changed(**shown(lost=False)):
        waiting.go(1)
        assert waiting.waits == [1]
    with waiting.another_process(tmp_path) as after:
        assert after.keeper._resting_states.lies() == {1}, "before it was looked at"
        after.silent, after.node.wei = True, 0
        with after.changed(**shown(lost=False)):
            for _ in range(3):
                after.go(1)
            assert after.waits == [1]
            assert after.siege.node.found(1) == [lie]
            if full:
                after.fills()
        with after.changed(**shown(lost=True)):
            assert after.refutes()


def test_what_waits_goes_from_the_disk_with_its_job(waiting: Waiting, tmp_path: Path) -> None:
    with waiting.changed(phase=JobPhase.UNCLAIMED):
        waiting.go(1)
    with waiting.another_process(tmp_path) as after:
        assert after.keeper._resting_states.lies() == frozenset()
        assert after.siege.node.found(1) == []
        assert after.database.get("lies in job 1") is None
