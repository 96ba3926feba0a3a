"""Jobs of strangers are ours while a stake of ours is in them, or may be soon: what else is known of them makes no
round longer."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_node.desk import challenged, keeper_of, until
from tests.trainer_node.roles.member import YEARS, member
from tests.trainer_node.roles.sampling.test_siege import DAY, INTERVAL, Siege, siege  # noqa: F401
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.job_queue import MAX_AT_WORK, MAX_WAITING, PER_ROUND, JobQueue, Scheduler
from trainer_node.errors import RpcCorrupt
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.roles.participant import Participant
from trainer_node.roles.refutes import Refutes
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.run.refutation import Refuted
from trainer_node.settings.extent import Mode
from trainer_node.storage.database import Database
from trainer_node.storage.resting_states import Given

BAITS = 100
ETHER = 10**18


class Rounds:
    """A sampler's rounds over posted jobs, each with the same lie, which is served."""

    def __init__(
        self,
        siege: Siege,  # noqa: F811
        folder: Path,
        ends: int,
        database: Database | None = None,
    ) -> None:
        self.siege, self.database, self.ends = siege, database or Database(None), ends
        self.node = member(folder, database=self.database, check="sample:1")
        self.takes_part()
        self.dear = 0
        """Jobs up to this number take a stake of an ether."""
        self.looked: list[int] = []
        self.refuted: list[int] = []
        """Jobs in which a refutation was due in the last round."""
        self.confirm: Any = lambda **_: None
        """How others confirm what a look shows."""
        self.begin()
        self._changes: dict[str, Any] = {}

    def takes_part(self) -> None:
        """Create what takes part for the node."""
        self.sampler = Sampler(self.node, self.siege.node)
        refutes = Refutes(self._refutations, self.sampler.pends)
        self.role = Participant(self.node, self.siege.node, self.sampler.decide, refutes=refutes)
        self.sampler.sure = self.role.sure

    def begin(self) -> None:
        """Let another process begin with the same database."""
        works, waits = self.role.works_at, self.role.waits
        self.scheduler = Scheduler(JobQueue(self.database), Problems(Metrics()), works, waits=waits)

    def go(self, jobs: int) -> list[int]:
        """Let a round pass; return the jobs that were looked at."""
        self.looked.clear()
        self.refuted.clear()
        at: Any = SimpleNamespace(
            job_count=lambda: jobs,
            jobs_changed=lambda _: [],
            job=self.job,
            confirm=self.confirm,
            now=int(self.siege.clock()),
            doubt=None,
            block=SimpleNamespace(number=1, base_fee=0),
        )
        self.scheduler.go(at, lambda job: (self.attend(at, job), None))
        until(lambda: not self.siege.node.busy)
        self.siege.clock.on(10.0)
        return list(self.looked)

    def attend(self, at: Any, job: JobView) -> bool:
        """Let the role take its turns; return whether the job concerns us."""
        return self.role.turns(at, job)[0]

    def _refutations(self, job: JobView, now: int) -> tuple[list[Refuted], list[Refuted]]:
        found, due = self.sampler.refutations(job, now)
        self.refuted += [job.id] * len(due)
        return found, due

    @property
    def waits(self) -> list[int]:
        """The jobs that are ours alone because of a lie that may be refuted."""
        return self.database.jobs("waits")

    def job(self, number: int) -> JobView:
        self.looked.append(number)
        job = self.siege.job(number, self.siege.lie, ends=self.ends + number)
        dear = {"stake": ETHER} if number <= self.dear else {}
        return replace(job, **(dear | self._changes))

    @contextlib.contextmanager
    def changed(self, **changes: Any) -> Iterator[None]:
        """Let looks show other terms, or another price of gas."""
        self._changes = changes
        yield
        self._changes = {}


def test_a_round_looks_at_no_more_jobs_however_many_lies_are_posted_on_which_nobody_stakes(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The attack: for the gas of posting and a stake that came back, each was looked at in each round for years, before
    the clocks of our own matches; and after a restart, too."""
    rounds = Rounds(siege, tmp_path, YEARS)
    looks = dict.fromkeys(range(1, BAITS + 1), 0)
    while min(looks.values()) < 8:
        for number in rounds.go(BAITS):
            looks[number] += 1
    assert len(rounds.go(BAITS)) <= PER_ROUND + MAX_AT_WORK
    assert rounds.database.jobs("ours") == rounds.waits == []


def test_lies_that_cannot_be_paid_for_make_no_round_longer_and_one_that_can_be_is_refuted(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The attack: a sampler whose ether or time was taken looked at each lie that it had found in each round, also
    after a restart, while the clocks of its own matches ran. The one that it can pay for ends last."""
    rounds = Rounds(siege, tmp_path, 20 * DAY)
    rounds.dear, rounds.node.wei = BAITS - 1, 0
    until(lambda: rounds.go(BAITS) and len(rounds.waits) == BAITS)
    first = set(range(1, MAX_WAITING + 1))
    for restarts in (False, True, False):
        if restarts:
            rounds.begin()
        looked = rounds.go(BAITS)
        assert len(looked) <= PER_ROUND + MAX_WAITING < BAITS
        assert first <= set(looked), "those that end first"
    rounds.node.wei = ETHER // 10
    for _ in range(math.ceil((BAITS - MAX_WAITING) / PER_ROUND)):
        rounds.go(BAITS)
        if rounds.refuted:
            break
    for _ in range(3):
        rounds.go(BAITS)
        assert rounds.refuted == [BAITS], "and one in each round once it is due"


def test_a_job_is_ours_while_a_lie_in_it_may_be_refuted(siege: Siege, tmp_path: Path) -> None:  # noqa: F811
    rounds = Rounds(siege, tmp_path, DAY)
    rounds.node.wei = 0
    until(lambda: rounds.go(1) and siege.node.found(1))
    rounds.go(1)
    assert rounds.waits == [1], "the account may have enough in any round"
    assert not rounds.role.works_at(1)
    late = DAY + siege.clock()
    closing = JobPhase.CLOSING
    rounds.job = lambda number: replace(siege.job(number, siege.lie), phase=closing)  # type: ignore[method-assign]
    siege.clock.to(late)
    rounds.go(1)
    assert rounds.waits == [], "nobody ends the job, and nobody can refute in it any more"


def test_a_job_is_not_ours_while_its_terms_forbid_a_stake(siege: Siege, tmp_path: Path) -> None:  # noqa: F811
    rounds = Rounds(siege, tmp_path, DAY)
    rounds.node.wei = 0
    until(lambda: rounds.go(1) and siege.node.found(1))
    with rounds.changed(challenge_period=YEARS):
        rounds.go(1)
    assert rounds.waits == []
    assert [lie.index + 1 for lie in siege.node.found(1)] == [INTERVAL]
    rounds.go(1)
    assert rounds.waits == [1]


def test_while_gas_is_dear_what_a_found_lie_rests_on_stays(siege: Siege, tmp_path: Path) -> None:  # noqa: F811
    """The attack: a bound of the gas price just above the present one, so that in one look nobody could stake; a job
    that was considered then took all that we held of the lie, which its author did not serve again."""
    rounds, store = Rounds(siege, tmp_path, DAY), siege.node._fetcher.store
    keeper = rounds.node.keeper = keeper_of(tmp_path, store, rounds.database)[0]
    keeper.considers(2, stakes=True)
    rounds.node.wei = 0
    until(lambda: rounds.go(1) and siege.node.found(1))
    assert store.holders.held(1)
    for path in (path for path in store.root.rglob("*") if path.is_file()):
        os.utime(path, (path.stat().st_mtime - 3600,) * 2)

    def gives() -> Given:
        return keeper._resting_states.give(2, 1, keeper._resting())

    assert gives() == Given()
    with rounds.changed(base_fee=10**9):
        rounds.go(1)
        assert gives() == Given()
        assert rounds.waits == [1], "it may be cheap in any round"
    with rounds.changed(challenge_period=YEARS):
        rounds.go(1)
        assert gives().jobs == (1,), "nobody will stake on it"


def test_a_job_stays_ours_where_it_is_not_known_whether_a_lie_may_be_refuted(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The endpoint fails for a moment. What else is due in the job is done all the same."""
    rounds = Rounds(siege, tmp_path, DAY)
    rounds.node.wei = 0
    until(lambda: rounds.go(1) and siege.node.found(1))

    def fails(*_: Any) -> bool:
        raise RpcCorrupt("no answer")

    rounds.role._refutes = Refutes(rounds.sampler.refutations, fails)
    at: Any = SimpleNamespace(now=int(siege.clock()), block=SimpleNamespace(number=1, base_fee=0))
    ours, turns = rounds.role.turns(at, rounds.job(1))
    assert ours
    assert [turn.of for turn in turns] == ["refutations"]
    with pytest.raises(RpcCorrupt):
        turns[0].decide()


def knowing(folder: Path, *, pays: bool) -> tuple[Participant, JobView]:
    """Return a node that has the right result of a job in which others play, and the job."""
    node = member(folder, mode=Mode.DEFEND, pays=pays)
    runner: Any = SimpleNamespace(works_at=lambda _: False, is_another=lambda _: False)
    part: Any = Participant(node, runner, lambda *_: ([], None))
    own = SimpleNamespace(root=b"\1" * 32)
    part._decide = lambda *_: ([], own)
    part._disputes = SimpleNamespace(
        note=lambda *_: None, hearings=lambda *_, **__: ([], {}), turns=lambda *_: []
    )
    return part, replace(challenged(1, [(own.root, ""), (b"\2" * 32, "")], DAY), open_matches=1)


@pytest.mark.parametrize("pays", [False, True])
def test_matches_of_others_make_a_job_no_more_than_one_that_we_work_at(tmp_path: Path, pays: bool) -> None:
    """Both sides of them may be one attacker, with clocks of a month."""
    part, job = knowing(tmp_path, pays=pays)
    at: Any = SimpleNamespace(now=0, block=SimpleNamespace(number=1, base_fee=0))
    assert part.turns(at, job)[0] is False
    assert part.works_at(1) == pays
    assert part.turns(at, replace(job, open_matches=0))[0] is False
    assert not part.works_at(1)
