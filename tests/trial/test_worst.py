"""The dearest move of each kind in a trial, each a transaction of its own: what the least stake is derived from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from referee_py.rounding import Rounding
from tests.conftest import Anvil
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.trial.parties import Setting, one_ulp, outputs_of
from trainer_node.bonds import TRIAL_GAS

from .stage import Stand

SPARE = 1.15
"""The table may be above what is measured by that much: contracts change by a few units of gas."""


def joined() -> Setting:
    """255 inputs, all of whose types each move names again."""
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(80).astype(np.float32) for _ in range(255)]
    made = Setting.of("cat", inputs, {"dim": 0}, 0.7, 0)
    assert made is not None
    return made


def logged() -> Setting:
    """A chain of 4,096 steps whose states have 200 bytes, and a log whose every entry is a written value."""
    rng, mode = np.random.default_rng(4), Rounding(32).mode
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((40, 4096), (4096, 60))]
    (bare,) = outputs_of("mm", inputs, {}, mode)
    log = log_of(bare.size, {}, {place: float(value) for place, value in enumerate(bare.ravel())})
    (truth,) = outputs_of("mm", inputs, {}, mode, log)
    return Setting.lied("mm", inputs, {}, ([truth], [one_ulp(truth, 500)]), 0, 2900, mode, log)


@pytest.mark.timeout(300)
def test_the_table_is_what_the_dearest_moves_cost(start_anvil: Callable[..., Anvil]) -> None:
    stand, dearest = Stand(start_anvil()), dict[str, int]()
    for setting in (joined(), logged()):
        played = stand.play(setting, served=False, singly=True)
        assert (played.losers, played.late) == (2, False)
        for name, gas in zip(played.names, played.gas, strict=True):
            dearest[name] = max(dearest.get(name, 0), gas)
    print(dearest)
    assert set(dearest) == set(TRIAL_GAS)
    for name, gas in dearest.items():
        assert gas <= TRIAL_GAS[name] <= SPARE * gas, (name, gas)
