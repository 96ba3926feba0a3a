"""ATTACKS by chains that nobody computes in time: an honest side computes no more steps than there are operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from repops import backend
from repops.opset import F32, MAX_STEPS, Attrs, ChainError, lookup

from referee_py.element import Case, rule_of
from referee_py.program import TensorType
from referee_py.trial import Stage, TrialState, places
from tests.conftest import Anvil
from tests.referee_py.trial.parties import Setting, one_ulp

from .stand import Stand

LARGE = (1 << 24) - 1


def window(kernel: int) -> Attrs:
    half = kernel // 2
    return {"kernel": (kernel, kernel), "stride": (1, 1), "padding": (half, half), "dilation": (1, 1)}


@pytest.mark.timeout(280)
@pytest.mark.parametrize(("side", "element"), [(1, 0), (24, 300)])
def test_a_window_of_2_to_the_48_taps(side: int, element: int, start_anvil: Callable[..., Anvil]) -> None:
    """A kernel runs it at once, and so does the honest side: taps outside of the plane are not steps."""
    stand = Stand(start_anvil())
    x = np.random.default_rng(2).standard_normal((1, 1, side, side)).astype(np.float32)
    attrs = window(LARGE)
    truth = backend("cpu").execute("max_pool2d", [x], attrs)
    lie = [one_ulp(truth[0], element), truth[1]]
    for honest in (0, 1):
        setting = Setting.lied("max_pool2d", [x], attrs, (truth, lie), honest, turn=side * side // 2)
        played = stand.play(setting, served=honest == 0)
        assert played.state.steps == side * side
        assert (played.losers, played.late) == (2 >> honest, False)


def test_a_window_whose_taps_may_all_meet_something_has_a_limit() -> None:
    plane = (F32, (1, 1, 1 << 15, (1 << 15) + 1))
    with pytest.raises(ChainError):
        lookup("max_pool2d").infer([plane], window(LARGE))


@pytest.mark.parametrize("items", [50_257 * 768, MAX_STEPS])
def test_a_sum_has_as_many_steps_as_elements(items: int) -> None:
    """Gradient clipping of GPT-2 sums 38.6 million squares: no whole lanes of padding, and seven rounds at most."""
    kinds = (TensorType(F32, (items,)),), (TensorType(F32, ()),)
    case = Case("sum", *kinds, {"dims": (0,), "keepdim": 0}, 0, 0)
    assert rule_of(case).length(case) == items
    size = len(rule_of(case).begin(case))
    assert size == 72
    left, rounds = items, 0
    while left > 1:
        state = TrialState(("", ""), Stage.POST, 0, (0, 0), 0, state_bytes=size, hi=left, steps=left)
        left = max(b - a for a, b in pairwise([0, *places(state)]))
        rounds += 1
    assert rounds <= 7
