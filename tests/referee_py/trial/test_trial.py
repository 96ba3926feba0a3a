"""Trials by the rules alone: the side with the operator's true result wins against any play of the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from repops.opset import OPS
from repops.random_calls import random_call

from referee_py.rounding import Bounds, Rounding
from referee_py.trial import apply, open_trial
from referee_py.trial.solver import plan
from tests.support.planned import moves_of

from . import logged
from .parties import PLAYERS, Known, Setting, play

ROUNDINGS = [Rounding(b, bounds) for b in (26, 32) for bounds in Bounds]


@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_one_wrong_element_of_any_operator_loses(name: str) -> None:
    rng = np.random.default_rng(len(name))
    played = 0
    for number in range(16):
        inputs, attrs = random_call(name, f"trial/{number}", "tiny" if number % 4 else "usual")
        setting = Setting.of(name, inputs, attrs, rng.random(), number % 2, int(rng.integers(0, 40)))
        if setting is not None:
            state, _ = play(setting, served=bool(number & 2))
            assert state.losers == 2 - setting.honest, (number, state)
            played += 1
    assert played > 3


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_whoever_goes_by_the_log_wins(rounding: Rounding) -> None:
    """Every operator with a log: admissible entries, none, and entries that are not admissible."""
    rng = np.random.default_rng(rounding.mode)
    kinds, names = Counter[str](), set[str]()
    for number, case in enumerate(logged.cases(rng, rounding, 24)):
        for what, element, setting in logged.disputes(case, rounding, rng, number % 2, 10):
            state, _ = play(setting, served=bool(number & 2))
            assert (state.losers, state.element) == (2 - setting.honest, element), (case, what)
            kinds[what] += 1
            names.add(case.name)
    assert set(kinds) == set(logged.WHAT)
    assert len(names) == (7 if rounding.bits == 32 else 16)


@pytest.mark.parametrize("turn", [300, pytest.param(65_535, marks=pytest.mark.slow)])
def test_a_long_sum_takes_two_rounds(turn: int) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((1, 65_536), (65_536, 1))]
    for honest in (0, 1):
        setting = Setting.of("mm", inputs, {}, 0.0, honest, turn)
        assert setting is not None
        state, batches = play(setting, served=True)
        assert state.losers == 2 - honest
        assert batches <= 6


def test_who_is_late_loses() -> None:
    rng = np.random.default_rng(2)
    setting = Setting.of("mm", [rng.standard_normal((40, 40)).astype(np.float32)] * 2, {}, 0.7, 0)
    assert setting is not None
    state = open_trial(setting.dispute, PLAYERS, (10, 10), 100)
    (move,) = moves_of(plan(state, setting.dispute, 0, setting.sides[0], Known(), 105))
    state = apply(state, setting.dispute, move, PLAYERS[0], 105)
    assert moves_of(plan(state, setting.dispute, 0, setting.sides[0], Known(), 110)) == []
    (timeout,) = moves_of(plan(state, setting.dispute, 0, setting.sides[0], Known(), 111))
    assert apply(state, setting.dispute, timeout, PLAYERS[0], 111).losers == 2
    assert (
        moves_of(plan(replace(state, clock=(5, 5)), setting.dispute, 1, setting.sides[1], Known(), 111)) == []
    )
