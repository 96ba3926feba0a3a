"""Many runs side by side of which each has a step that lasts: all are done at last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from referee_py.pauses import asked
from trainer_node.compute import breaks
from trainer_node.compute.processors import Share
from trainer_node.compute.runs import PLACES, SLICE_S

from .test_runs import Desk, desk

__all__ = ["desk"]


@pytest.mark.parametrize("number", [PLACES + 1, 2 * PLACES])
def test_where_more_runs_than_places_have_a_step_that_lasts_all_are_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The attack: eight jobs whose data make one step slow. Each run ended the others' steps in their midst, for ever,
    and wrong roots were accepted."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    slow_s, attempts = 10 * SLICE_S, 0

    def act(_: Callable[[], bool]) -> None:
        nonlocal attempts
        operator_ends = asked()
        assert operator_ends is not None
        assert desk.go.wait(60)
        attempts += 1
        assert desk.clock() < 20 * number * slow_s, "none is done"
        for _second in range(int(slow_s)):
            desk.clock.on(1.0)
            operator_ends()

    begun = [desk.runs.submit(Share(), act, usual_s=1.0) for _ in range(number)]
    desk.go.set()
    for run in begun:
        run.result(120)
    assert attempts <= 6 * number, "each attempt may take twice as long as the one before"


def test_who_waits_for_a_place_is_told_how_long_steps_may_last(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that cannot be in time behind them is left to others before it begins."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    told = list[float]()

    def act(_: Callable[[], bool]) -> None:
        operator_ends = asked()
        assert operator_ends is not None
        assert desk.go.wait(60)
        for _second in range(int(10 * SLICE_S)):
            desk.clock.on(1.0)
            operator_ends()
            told.append(desk.runs.place_s)

    begun = [desk.runs.submit(Share(), act, usual_s=1.0) for _ in range(PLACES + 1)]
    assert desk.runs.place_s == PLACES * SLICE_S
    desk.go.set()
    for run in begun:
        run.result(120)
    assert max(told) > 2 * PLACES * SLICE_S
    assert desk.runs.place_s == 0.0
