"""The states of a chain that a side computes: one pass for all rounds of a trial, which can stop and continue."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import repops

from referee_py.element import Case, rule_of, states
from referee_py.errors import Unavailable
from referee_py.program import TensorType
from referee_py.rounding import Rounding
from referee_py.trial.chain_states import KEPT, SLICE, ChainStates
from tests.referee_py.element.operands import reader

from .parties import Setting, one_ulp, play, structure_of

GPT2 = 50_257 * 768
"""Elements of the largest gradient of GPT-2, which `clip_norm` sums."""
ROOTS = [bytes(32)]
MODES = {"f32": 1, "rounded": Rounding(32).mode}


def sum_of(items: int, mode: int = 1) -> tuple[Case, np.ndarray]:
    x = np.resize(np.random.default_rng(3).standard_normal(65_537).astype(np.float32), items)
    structure = structure_of("sum", [x], {"dims": (0,), "keepdim": 0})
    return Case("sum", (TensorType.of(x),), structure.outputs, structure.attrs, 0, 0, mode), x


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(0, id="begin", marks=pytest.mark.slow),
        pytest.param(GPT2 // 3, id="middle"),
        pytest.param(GPT2 - 2, id="end", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("mode", ["f32", pytest.param("rounded", marks=pytest.mark.slow)])
def test_a_trial_about_a_gradient_of_gpt2_takes_one_pass(mode: str, where: int) -> None:
    """Attack: the right side has to walk a chain of 38.6 million steps, in each of six or more rounds."""
    _, x = sum_of(GPT2)
    attrs = {"dims": (0,), "keepdim": 0}
    if MODES[mode] == 1:
        truth = repops.backend("cpu").execute("sum", [x], attrs)
    else:
        truth = [np.array(np.float32(x.astype(np.float64).sum()))]
    for honest in (0, 1):
        false = [one_ulp(truth[0], 0)]
        setting = Setting.lied("sum", [x], attrs, (truth, false), honest, where, MODES[mode])
        state, batches = play(setting, served=True)
        assert state.losers == 2 - honest
        assert state.steps == GPT2
        assert batches >= 8, "of seven rounds or so"
        assert setting.sides[honest].walk.steps < 1.1 * GPT2


def test_a_window_of_all_that_there_is_not_is_one_step() -> None:
    """Attack: a window of 2^48 taps over a plane of one element."""
    wide = (1 << 24) - 1
    x = np.array([[[[1.5]]]], np.float32)
    window = {"stride": (1, 1), "padding": (wide // 2, wide // 2), "dilation": (1, 1)}
    attrs = {"kernel": (wide, wide), **window}
    truth = repops.backend("cpu").execute("max_pool2d", [x], attrs)
    for honest in (0, 1):
        false = [one_ulp(truth[0], 0), truth[1]]
        setting = Setting.lied("max_pool2d", [x], attrs, (truth, false), honest)
        state, _ = play(setting, served=True)
        assert state.losers == 2 - honest
        assert setting.sides[honest].walk.steps <= 1


def test_states_are_the_rules_in_whatever_order_they_are_asked_for() -> None:
    case, x = sum_of(3 * KEPT + 17)
    truth = dict(enumerate(states(case, reader([x]), 0, rule_of(case).begin(case)), 1))
    rng, walk = np.random.default_rng(1), ChainStates()
    for _ in range(20):
        at = sorted(int(place) for place in rng.choice(len(truth), 9, replace=False) + 1)
        assert walk.states(case, [x], ROOTS, at) == [truth[place] for place in at]
    assert walk.steps < 2.5 * len(truth)


def test_another_element_or_other_operands_are_walked_anew() -> None:
    case, x = sum_of(1000)
    walk = ChainStates()
    before = walk.states(case, [x], ROOTS, [500])
    assert walk.states(case, [x], ROOTS, [500]) == before
    assert walk.steps == 500
    assert walk.states(case, [x + 1], [b"\1" * 32], [500]) != before
    assert walk.steps == 1000


def test_what_is_kept_is_bounded() -> None:
    case, x = sum_of(5 * KEPT * 7)
    walk = ChainStates()
    for start in range(0, case.inputs[0].count - 20, 10_001):
        walk.states(case, [x], ROOTS, [start + 5, start + 11])
    asked = 2 * len(range(0, case.inputs[0].count - 20, 10_001))
    assert len(walk._kept) == len(walk._places) <= KEPT + asked + 1


@dataclass
class Told:
    """A ``stop`` that returns True after ``left`` calls."""

    left: int
    asked: int = field(default=0)

    def __call__(self) -> bool:
        self.asked += 1
        self.left -= 1
        return self.left < 0


def test_a_walk_is_stopped_between_slices_and_gone_on_with() -> None:
    case, x = sum_of(GPT2)
    length = case.inputs[0].count
    walk = ChainStates(Told(1000))
    with pytest.raises(Unavailable, match="told to stop"):
        walk.states(case, [x], ROOTS, [length])
    assert 0 < walk.steps <= 1000 * SLICE
    done, walk.stop = walk.steps, bool
    (last,) = walk.states(case, [x], ROOTS, [length])
    assert walk.steps == length > done, "nothing is walked twice"
    want = repops.backend("cpu").execute("sum", [x], {"dims": (0,), "keepdim": 0})[0]
    assert rule_of(case).finish(case, last) == int(want.view(np.uint32))
