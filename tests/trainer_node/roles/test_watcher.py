"""When a watcher commits, and which jobs it leaves to others. Whole jobs are in tests/e2e/test_watching.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from referee_py.gas_schedule import AMSTERDAM
from trainer_node.chain import JobPhase, JobView
from trainer_node.chain.codec.watch import PoolInfo
from trainer_node.errors import ConfigError
from trainer_node.roles.watcher import is_due
from trainer_node.settings.settings import load_settings
from trainer_node.stake.funds import WATCH, too_little
from trainer_node.stake.min_stake import least_stake

GWEI = 10**9


@dataclass
class Terms:
    """The terms of a job in its training phase that these decisions use."""

    slots: int = 1
    commitments: int = 0
    watch_period: int = 60
    commit_end: int = 1000
    base_fee: int = 0
    stake_gas: int = 1


def job(**terms: int) -> JobView:
    return cast(JobView, Terms(**terms))


def test_a_watcher_commits_when_the_trainer_has() -> None:
    assert not is_due(job(), now=0)
    assert not is_due(job(), now=999), "without the trainer's claim there will be nothing to watch"
    assert is_due(job(commitments=1), now=0)


def test_where_nobody_waits_a_watcher_commits_at_once() -> None:
    assert is_due(job(watch_period=0), now=0)


def test_of_several_trainers_some_may_commit_last_and_the_others_not_at_all() -> None:
    assert not is_due(job(slots=2, commitments=1), now=939)
    assert is_due(job(slots=2, commitments=1), now=940)
    assert is_due(job(slots=2), now=940)
    assert is_due(job(slots=2, commitments=2), now=0)


def pool(amount: int, watchers: int = 0) -> PoolInfo:
    return PoolInfo(amount, 4, watchers, JobPhase.NONE, 0)


def test_a_bounty_must_pay_for_its_transactions() -> None:
    cost = WATCH.gas * 2 * GWEI
    assert too_little(job(base_fee=GWEI), pool(4 * cost + 4)) is None
    assert "its bounty" in str(too_little(job(base_fee=GWEI), pool(4 * cost)))
    # With four shares, the eighth watcher gets a quarter of what the fourth does.
    assert too_little(job(base_fee=GWEI), pool(16 * cost + 16, watchers=7)) is None
    assert too_little(job(base_fee=GWEI), pool(16 * cost, watchers=7))


def test_where_words_are_dear_a_bounty_must_pay_for_more() -> None:
    dear = AMSTERDAM.gas(WATCH.gas, WATCH.counts)
    assert dear > 2 * WATCH.gas
    where = job(base_fee=GWEI, stake_gas=least_stake(1, AMSTERDAM))
    assert too_little(where, pool(4 * dear * 2 * GWEI)) is not None
    assert too_little(where, pool(4 * dear * 2 * GWEI + 4)) is None


def test_who_watches_must_be_able_to_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match='mode = "challenge"'):
        load_settings(max_watch_eth=1.0)
    assert load_settings(max_watch_eth=1.5, mode="challenge").max_watch == 15 * 10**17
    assert load_settings().max_watch == 0
