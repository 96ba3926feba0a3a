"""What we have staked on and signed is known over a restart, and counts before the next stake."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_node.chain import JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import DiskFailed
from trainer_node.play.actions import JobAction
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.trainer import trainer
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.extent import Mode
from trainer_node.settings.sections import Policy
from trainer_node.stake.admission import Bond, Means
from trainer_node.stake.duty_book import BondBook, DutyBook
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

from ..desk import REFEREE, job, rules

ME = "0x" + "aa" * 20
MEANS = Means(0.0, 0.0, 2)
QUICK, SLOW = CostEstimate(0.001, 0.001, NO_TRIAL), CostEstimate(13.0, 13.0, NO_TRIAL)
"""A job of these steps fits by itself; two of the second kind do not fit together."""


def offer(number: int) -> JobView:
    return job(number, rules=rules(threshold=0))


def book(database: Database, reserved: set[int] | None = None) -> DutyBook:
    return DutyBook(database, lambda: reserved or set(), MEANS)


def test_a_job_counts_from_its_stake_on_and_until_nothing_is_left_in_it() -> None:
    duties = book(Database(None))
    assert duties.refuses(offer(1), SLOW) is None
    assert duties.refuses(offer(2), SLOW) is None, "nothing is staked yet"
    duties.staked(1, 1)
    assert duties.refuses(offer(1), SLOW) is None, "it has our stake already"
    assert "2 stakes in 2 jobs" in str(duties.refuses(offer(2), SLOW))
    assert duties.refuses(offer(3), QUICK) is None
    duties.free(1)
    assert duties.refuses(offer(2), SLOW) is None


def test_what_is_sent_counts_before_a_block_shows_it() -> None:
    reserve = Reserve(lambda: 1, lambda: False)
    duties = DutyBook(Database(None), reserve.jobs, MEANS)
    assert duties.refuses(offer(1), SLOW) is None
    reserve.staking(1, 5)
    assert duties.refuses(offer(2), SLOW) is not None


def test_a_restart_knows_the_duties_before_it_has_looked_at_a_job(tmp_path: Path) -> None:
    first = Database(tmp_path / "node.sqlite3")
    duties = book(first)
    assert duties.refuses(offer(1), CostEstimate(5.0, 5.0, NO_TRIAL)) is None
    duties.staked(1, 2)
    assert duties.refuses(offer(4), QUICK) is None
    first.close()
    again = Database(tmp_path / "node.sqlite3")
    after = book(again)
    assert after.knows(1)
    assert not after.knows(4), "only what is staked on is kept"
    assert "3 stakes in 2 jobs" in str(after.refuses(offer(2), SLOW))
    after.free(1)
    assert after.refuses(offer(2), SLOW) is None
    again.close()
    assert not book(Database(tmp_path / "node.sqlite3")).knows(1)


def test_a_stake_whose_duty_is_not_known_expect_no_new_job_until_it_is() -> None:
    duties = book(Database(None), {1})
    assert "job 1" in str(duties.refuses(offer(2), QUICK))
    assert duties.refuses(offer(1), SLOW) is None, "more of the same job needs no other"
    duties = book(Database(None), {1})
    duties.learn(offer(1), QUICK)
    assert duties.refuses(offer(2), QUICK) is None


def test_a_disk_that_refuses_keeps_no_duty_from_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(None)

    def full(*_: object) -> None:
        raise DiskFailed("full")

    duties, bonds = book(database), BondBook(database)
    duties.refuses(offer(1), SLOW)
    with monkeypatch.context() as patched:
        patched.setattr(database, "put", full)
        duties.staked(1, 1)
        bonds.sign(1, 7, Bond(1.0, 10, 1))
    assert duties.refuses(offer(2), SLOW) is not None
    assert len(bonds.held(but=8)) == 1
    duties.staked(1, 1)
    bonds.seen(1, [7], {7}, 10, 1)
    assert book(database).knows(1), "the next round writes it"
    assert BondBook(database).held(but=8) == [Bond(1.0, 10, 1)]


def test_a_signature_counts_until_its_hearing_is_over_also_after_a_restart(tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    bonds = BondBook(database)
    bonds.sign(1, 1 << 255, Bond(3.5, 100, 10**30))
    bonds.sign(2, 9, Bond(1.0, 100, 1))
    bonds = BondBook(database)
    assert bonds.held(but=9) == [Bond(3.5, 100, 10**30)]
    bonds.seen(1, [], {1 << 255}, 100, 1)
    assert len(bonds.held(but=0)) == 2, "whether it was mined is not known yet"
    bonds.seen(1, [], set(), 100, 1)
    assert bonds.held(but=0) == [Bond(1.0, 100, 1)], "another job's goes on"
    database.close()


def test_a_signature_of_which_nothing_is_known_counts_as_the_longest_that_is_signed_for() -> None:
    bonds = BondBook(Database(None))
    bonds.seen(1, [7], {7}, 100, 5)
    assert bonds.held(but=0) == [Bond(100 / MARGIN, 100, 5)]


class _Runner:
    """Has measured every job; they are all alike."""

    def __init__(self, estimate: CostEstimate) -> None:
        self.estimate = estimate

    def prepare(self, _job: JobView) -> CostEstimate:
        return self.estimate

    def ready_in_s(self, _job: JobView) -> float:
        return 0.0

    def too_full(self, _job_id: int, *, part: bool = False, stakes: int = 1) -> None:  # noqa: ARG002
        return None


def node() -> Any:
    """Return a node that would take any job, one by one."""
    reserve = Reserve(lambda: 1, lambda: False)
    return SimpleNamespace(
        address=ME,
        reserve=reserve,
        remembered=Remembered(),
        duties=DutyBook(Database(None), reserve.jobs, MEANS),
        spare=lambda _job=0: 10**30,
        client=SimpleNamespace(
            deployment=SimpleNamespace(referee=REFEREE),
            snapshot=lambda: SimpleNamespace(commit_age=lambda: 0),
        ),
        settings=SimpleNamespace(
            policy=Policy(),
            fees=SimpleNamespace(max_fee=1, expected_fee=1),
            limits=SimpleNamespace(max_period_s=10**6),
            allow_probable_bounds=False,
            max_stake=0,
            latency_s=0.0,
            mined_s=0.0,
            mode=Mode.CHALLENGE,
            check="all",
            node_price=0,
            max_reserve_prizes=0,
        ),
    )


def test_a_trainer_takes_as_many_slots_as_it_can_answer_for() -> None:
    made, runner = node(), _Runner(SLOW)
    decide: Any = None

    def participant(_node: Any, _runner: Any, decides: Any, **_: Any) -> None:
        nonlocal decide
        decide = decides

    trainer(made, runner, participant)  # type: ignore[arg-type]
    assert decide(offer(1), 0)[0] == [JobAction.JOIN]
    made.reserve.staking(1, 5)
    assert decide(offer(2), 0)[0] == []
    runner.estimate = QUICK
    assert decide(offer(3), 0)[0] == [JobAction.JOIN]


def test_a_challenger_claims_and_refutes_no_more_than_it_can_defend() -> None:
    made = node()
    worth = Acceptance(made, _Runner(SLOW))  # type: ignore[arg-type]
    assert worth.affordable(offer(1), 1)
    assert not worth.affordable(offer(1), 1, beside=1), "two refutations in one job are two matches at once"
    made.reserve.staking(1, 5)
    assert not worth.affordable(offer(2), 1)
    assert worth.affordable(offer(1), 1), "the same stake, looked at again"
