"""What we have staked on and signed is known over a restart, and counts before the next stake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.jobs import Rules
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import DiskFailed
from trainer_node.play.actions import JobAction
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.trainer import trainer
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.extent import Mode
from trainer_node.settings.sections import Policy
from trainer_node.stake.admission import Bond, Means, TooMuchAtOnce
from trainer_node.stake.duty_book import BondBook, DutyBook
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

from ..desk import REFEREE, job, rules

ME = "0x" + "aa" * 20
MEANS, IN_BLOCKS = Means(0.0, 0.0, 2), Means(24.0, 12.0, 2)
QUICK, SLOW = CostEstimate(0.001, 0.001, NO_TRIAL), CostEstimate(13.0, 13.0, NO_TRIAL)
"""A job of these steps fits by itself; two of the second kind do not fit together."""


def offer(number: int) -> JobView:
    return job(number, rules=rules(threshold=0))


RULES = Rules(1, 300, 200, 100)


def bond(trial_s: float, clock: int, wei: int) -> Bond:
    return Bond(trial_s, clock, wei, 0.5, 200)


def book(database: Database, reserved: set[int] | None = None, means: Means = MEANS) -> DutyBook:
    return DutyBook(database, lambda: reserved or set(), means)


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
    reserve = Reserve(lambda: 1, list)
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
        bonds.sign(1, 7, bond(1.0, 10, 1))
    assert duties.refuses(offer(2), SLOW) is not None
    assert len(bonds.held(but=8)) == 1
    duties.staked(1, 1)
    bonds.seen(1, [7], {7}, RULES, 1)
    assert book(database).knows(1), "the next round writes it"
    assert BondBook(database).held(but=8) == [bond(1.0, 10, 1)]


def test_a_signature_counts_until_its_hearing_is_over_also_after_a_restart(tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    bonds = BondBook(database)
    bonds.sign(1, 1 << 255, bond(3.5, 100, 10**30))
    bonds.sign(2, 9, bond(1.0, 100, 1))
    bonds = BondBook(database)
    assert bonds.held(but=9) == [bond(3.5, 100, 10**30)]
    bonds.seen(1, [], {1 << 255}, RULES, 1)
    assert len(bonds.held(but=0)) == 2, "whether it was mined is not known yet"
    bonds.seen(1, [], set(), RULES, 1)
    assert bonds.held(but=0) == [bond(1.0, 100, 1)], "another job's goes on"
    database.close()


def test_a_signature_of_which_nothing_is_known_counts_as_the_longest_that_is_signed_for() -> None:
    bonds = BondBook(Database(None))
    bonds.seen(1, [7], {7}, RULES, 5)
    assert bonds.held(but=0) == [Bond(100 / MARGIN, 100, 5, 200 / MARGIN, 200)]


class _Runner:
    """Has measured every job; they are all alike."""

    def __init__(self, estimate: CostEstimate) -> None:
        self.estimate = estimate

    def prepare(self, _job: JobView) -> CostEstimate:
        return self.estimate

    def ready_in_s(self, _job: JobView) -> float:
        return 0.0

    def too_full(self, _job_id: int, **_: object) -> None:
        return None


def node() -> Any:
    """Return a node that would take any job, one by one."""
    reserve = Reserve(lambda: 1, list)
    return SimpleNamespace(
        address=ME,
        reserve=reserve,
        remembered=Remembered(),
        duties=DutyBook(Database(None), reserve.jobs, MEANS),
        spare=lambda _job=0: 10**30,
        client=SimpleNamespace(
            deployment=SimpleNamespace(referee=REFEREE),
            commit_age=lambda: 0,
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


def test_what_other_jobs_may_ask_counts_as_long_as_they_have_a_stake() -> None:
    """Whoever disputes a root chooses the moment, so it counts before there is a match, too."""
    duties = book(Database(None), means=IN_BLOCKS)
    heavy, small = CostEstimate(100.0, 1000.0, NO_TRIAL), CostEstimate(0.001, 0.001, NO_TRIAL)
    first = job(1, rules=Rules(0, 10**6, 10**6, 10**6), reveal_period=10**6)
    second = job(2, rules=Rules(0, 10**6, 10**6, 10**6), reveal_period=600)
    assert duties.refuses(first, heavy) is None
    duties.staked(1, 1)
    assert duties.refuses(second, small) is None, "moves are computed outside the loop, which reveals"
    assert duties.moves_s(2) > 1000
    assert duties.sends_s(2) == 12.0
    duties.looked(first)
    assert duties.sends_s(2) == 0.0, "jobs that train come first in a round"
    duties.looked(replace(first, phase=JobPhase.CHALLENGE))
    assert duties.sends_s(2) == 12.0
    duties.staked(1, 3)
    assert duties.sends_s(2) == 36.0
    assert duties.moves_s(1) == duties.sends_s(1) == 0, "its own do not count"
    without = duties.moves_s(2)
    duties.learn(first, replace(heavy, trial=replace(NO_TRIAL, seconds=50.0)))
    duties.staked(1, 3)
    assert duties.moves_s(2) == without + 3 * 50.0, "runs rest while a trial computes"
    duties.free(1)
    assert duties.moves_s(2) == duties.sends_s(2) == 0


def test_a_reveal_counts_until_it_is_over() -> None:
    """What is sent for other jobs must leave it time."""
    duties = book(Database(None), means=IN_BLOCKS)
    small = CostEstimate(0.001, 0.001, NO_TRIAL)
    first = job(1, rules=Rules(0, 10**6, 10**6, 10**6), reveal_period=10**6)
    second = job(2, rules=Rules(0, 10**6, 10**6, 10**6), reveal_period=600)
    assert duties.refuses(second, small) is None
    duties.staked(2, 1)
    assert duties.refuses(first, small) is None
    assert isinstance(duties.refuses(first, small, 60), TooMuchAtOnce)
    duties.looked(replace(second, phase=JobPhase.CLOSING))
    assert duties.refuses(first, small, 60) is None, "the reveal is over"
