"""Whether we could ever stake in a job is asked first: nothing is begun in one for which the answer is no."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from eth_utils.address import to_checksum_address

from tests.trainer_node.desk import challenged, keeper_of, new_runner, rules, serving, until
from tests.trainer_node.roles.member import ME, YEARS, member
from trainer_node.chain import ClaimView, JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.roles.acceptance import Acceptance, never
from trainer_node.roles.whole_runs import WholeRuns
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.extent import Mode
from trainer_node.stake.judge import first
from trainer_node.storage.database import Database
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.store import Store

DAY = 24 * 3600
CLIENT = to_checksum_address("0x" + "cc" * 20)
FAIR = challenged(1, [(bytes(32), "")], DAY, rules=rules(clock=DAY), client=CLIENT)
SLOW = CostEstimate(DAY, DAY, NO_TRIAL)
QUICK = CostEstimate(0.001, 0.001, NO_TRIAL)

TERMS: dict[str, tuple[dict[str, Any], str]] = {
    "a period of a hundred years": ({"challenge_period": YEARS}, "limits.max_period_s"),
    "a clock of a hundred years": ({"rules": rules(clock=YEARS)}, "its clock has"),
    "a stake beyond our limit": ({"stake": 2 * 10**18}, "max_stake_eth"),
    "a fee that pays for no gas": ({"base_fee": 10**9}, "its high_fee is"),
    "a client that we do not want": ({"client": "0x" + "dd" * 20}, "policy.clients"),
}


def test_a_job_of_fair_terms_can_be_staked_on(tmp_path: Path) -> None:
    settings = member(tmp_path).settings
    assert first(never(FAIR, settings)) is None
    assert first(never(FAIR, settings, QUICK)) is None
    assert "a dispute may take us" in str(first(never(FAIR, settings, SLOW)))
    assert first(never(replace(FAIR, phase=FAIR.phase, open_matches=3), settings, QUICK)) is None, (
        "that passes"
    )


@pytest.mark.parametrize("terms", TERMS)
def test_terms_that_forbid_a_stake_are_told(tmp_path: Path, terms: str) -> None:
    changes, reason = TERMS[terms]
    node = member(tmp_path, max_stake_eth=1, policy={"clients": [CLIENT]})
    assert reason in str(first(never(replace(FAIR, **changes), node.settings)))


class Challenger:
    """A challenger's decisions about whole runs, with a keeper that they tell."""

    def __init__(self, folder: Path, works: JobRunner, keeper: Keeper, mode: Mode, uri: str) -> None:
        self.works, self.keeper, self.uri = works, keeper, uri
        node = member(folder, keeper=keeper, mode=mode)
        self.whole = WholeRuns(node, works.train, Acceptance(node, works))

    def rounds(self, **changes: Any) -> Any:
        """Let some rounds pass over a job; return our result in it."""
        of: JobView = replace(FAIR, uri=self.uri, **changes)
        for _ in range(6):
            known = self.whole.decide(of, 0)[1]
            until(lambda: not self.works.busy)
        return known


def challengers(folder: Path, mode: Mode) -> Iterator[Challenger]:
    database, store = Database(None), Store(folder / "node", sync=False)
    keeper, problems = keeper_of(folder, store, database)
    works = new_runner(JobRunner, store, database, keeper=keeper, problems=problems)
    with serving(folder / "client") as uri:
        yield Challenger(folder, works, keeper, mode, uri)
    works.close()
    database.close()


@pytest.fixture
def challenger(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Challenger]:
    yield from challengers(tmp_path, getattr(request, "param", Mode.CHALLENGE))


@pytest.mark.parametrize("challenger", [Mode.CHALLENGE, Mode.DEFEND], indirect=True)
def test_no_run_is_begun_in_a_job_in_which_no_stake_is_possible_and_its_reason_is_said_once(
    challenger: Challenger,
) -> None:
    """The attack: states of some posted jobs filled the disk of a challenger for a hundred years."""
    with structlog.testing.capture_logs() as told:
        assert challenger.rounds(challenge_period=YEARS) is None
    assert len([line for line in told if line["event"] == "job.left_to_others"]) == 1
    assert challenger.works._fetcher.store.usage.total == 0, "nor is its package fetched"
    assert not challenger.keeper._resting_states.may_ask(1)
    assert challenger.rounds() is not None


def test_a_job_that_proves_too_slow_once_it_is_measured_is_not_begun(
    challenger: Challenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        challenger.works._packages, "_measure", lambda *_: replace(QUICK, step_s=DAY, commit_s=DAY)
    )
    monkeypatch.setattr(challenger.works, "whole_ready_in_s", lambda of: challenger.works.prepare(of) and 1.0)
    monkeypatch.setattr(challenger.works, "whole_after_s", lambda of: challenger.works.prepare(of) and 1.0)
    assert challenger.rounds() is None
    assert challenger.works.measured(replace(FAIR, uri=challenger.uri)) is not None
    assert not challenger.whole._begun[1]


def test_a_job_in_which_we_have_a_stake_is_not_asked_for_its_terms_again(challenger: Challenger) -> None:
    """Gas is dear, and the whole run is what our refutation needs."""
    stake = ClaimView(1, ME, 1, 0, False, False, False, "")
    of = replace(FAIR, uri=challenger.uri, base_fee=10**9)
    staked = replace(of, claims=(*of.claims, stake))
    worth = challenger.whole._acceptance
    assert until(lambda: worth.whole_after_s(staked, 0, wanted=False) < math.inf)
    assert worth.whole_after_s(of, 0, wanted=False) == math.inf


@pytest.mark.parametrize("challenger", [Mode.WATCH], indirect=True)
def test_who_only_watches_replays_any_job_and_frees_nothing_for_one_in_which_nobody_stakes(
    challenger: Challenger,
) -> None:
    assert challenger.rounds(challenge_period=YEARS) is not None
    assert not challenger.keeper._resting_states.may_ask(1)
    assert challenger.rounds(id=2) is not None
    assert challenger.keeper._resting_states.may_ask(2)


def test_a_run_whose_stake_would_occupy_the_node_for_less_than_its_price_is_not_begun(
    challenger: Challenger, tmp_path: Path
) -> None:
    """The attack: a clock just long enough for a lie, in a job of the liar, keeps us from all other stakes."""
    priced = member(tmp_path, policy={"node_price_eth": 0.5}).settings
    challenger.whole._acceptance._settings = priced
    with structlog.testing.capture_logs() as told:
        assert challenger.rounds() is None
    assert [line["kind"] for line in told if line["event"] == "job.left_to_others"] == ["TooCheap"]
    assert not challenger.whole._begun[1]
    stake = ClaimView(1, ME, 1, 0, False, False, False, "")
    assert challenger.rounds(claims=(*FAIR.claims, stake)) is not None, "what is staked is played"
    assert challenger.rounds(id=2, stake=10**18) is not None, "it is paid for"
