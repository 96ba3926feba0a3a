"""How long data are waited for: never so long that nothing else can be done."""

from __future__ import annotations

import math

import pytest

from trainer_node.limits.waits import INTERVAL
from trainer_node.roles.sampling.budget import ChainClock, Means, data_s
from trainer_node.run.cost_estimate import MARGIN

MEANS = Means(commit_age=60, acts_s=24)


@pytest.mark.parametrize("whole_s", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("rounds", [1, 5, 50])
def test_however_often_a_server_takes_all_its_time_a_whole_replay_still_fits(
    whole_s: float, rounds: int
) -> None:
    left_s = 3600.0
    for _ in range(rounds):
        assert MEANS.takes_whole(whole_s, left_s)
        left_s -= data_s(MEANS, whole_s, whole_s / 10, left_s, 2 * left_s)
    assert MARGIN * (whole_s + MEANS.acts_s) + MEANS.commit_age <= left_s


def test_who_would_not_replay_the_whole_keeps_time_for_its_parts() -> None:
    busy = Means(60, 24, max_whole_s=10)
    assert data_s(busy, 1000, 50, 3600, 3600) == float(INTERVAL) * (3600 - busy.claimed_in(50))
    assert data_s(MEANS, 1e9, 50, 3600, 3600) == float(INTERVAL) * (3600 - MEANS.claimed_in(50)), (
        "it would not fit at all"
    )
    assert data_s(MEANS, 1000, 50, 3600, 3600) == float(INTERVAL) * (3600 - MEANS.claimed_in(1000))


def test_where_nothing_can_be_spared_nothing_is_waited_for() -> None:
    assert data_s(Means(60, 24, max_whole_s=0), math.inf, 50, 100, 100) == 0


def test_the_chain_s_time_goes_on_between_two_blocks() -> None:
    machine = [5.0]
    clock = ChainClock(lambda: machine[0])
    clock.see(1000)
    machine[0] += 7
    assert clock.now == 1007
    clock.see(1002)
    assert clock.now == 1002
