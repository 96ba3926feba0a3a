"""The monitor over generated jobs: what it raises is what is so, in every phase that the jobs reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.referee_py.game.chain import ANVIL_OPTIONS
from trainer_node.monitor.alerts import Kind, Rules
from trainer_node.monitor.rounds import Monitor

from .generated import NEAR, World, owed, truth

EVERY = {Kind.CLOCK, Kind.OVERDUE, Kind.UNCLAIMED, Kind.REFUTATION, Kind.REQUEST, Kind.BOND, Kind.HEARING}


def watch(world: World, moments: int, moves: int) -> Counter[str]:
    """Play, and compare the monitor with the truth at each moment. Return the alerts by kind, and what was compared."""
    tally: Counter[str] = Counter()
    monitor = Monitor(world.client, Rules(NEAR, 0), per_round=1_000)
    for _ in range(moments):
        world.play(moves)
        compare(world, monitor, tally)
    return tally


def compare(world: World, monitor: Monitor, tally: Counter[str]) -> None:
    board, ends = monitor.round(), world.ends()
    assert 0 not in board.unchecked, board.unchecked
    lines = {line.job: line for line in board.lines}
    ids = {standing.alert.id: standing.alert for standing in board.alerts}
    for game in world.cohort.games:
        number = game.job_id
        found = {key for key, alert in ids.items() if alert.job == number}
        if number in board.unchecked:
            assert not game.sane, board.unchecked[number]
            tally["unchecked"] += 1
            continue
        doubtful = {key for key in found if ids[key].kind is Kind.DOUBTFUL_CLAIM}
        assert found - doubtful == truth(world, game), game.job
        line = lines.get(number)
        if line is not None and line.outcome is not None:
            told = line.outcome
            root = told["root"] and bytes.fromhex(told["root"])
            assert (told["phase"], root, None) in ends[number], (told, ends[number], game.job)
            tally[f"forecast {told['phase']}"] += 1
        tally.update(ids[key].kind.value for key in found)
        tally["compared"] += 1
    said = {tuple(key.split(":")[2:]) for key in ids if key.startswith(f"0:{Kind.UNCLAIMED}:")}
    assert said == owed(world)
    paused = world.cohort.clocks.paused(world.chain.now)
    assert (f"0:{Kind.PAUSED}" in ids) == paused
    tally["paused"] += paused


def test_generated_jobs_expect_alerts_and_forecasts_that_are_true(start_anvil: Callable[..., Any]) -> None:
    world = World.on(start_anvil(*ANVIL_OPTIONS), "quick", 12)
    tally = watch(world, moments=6, moves=8)
    print(dict(tally))
    assert tally["compared"] >= 50
