"""Elements of bf16 that are wrong by one ulp: the liar loses a trial, and no verifier attests its record."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.tensors import canonical

from referee_py.adjudication import adjudicate
from referee_py.program.modes import EXACT, REPOPS_F32
from referee_py.rounding import Bounds, Rounding

from .narrow import OPERATORS, narrow_call
from .parties import Setting, play, structure_of

MODES = {
    "repops-f32": REPOPS_F32.byte,
    "exact": EXACT.byte,
    "rounded to 32 bits": Rounding(32).mode,
    "rounded to 26 bits": Rounding(26, Bounds.PROBABLE).mode,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPERATORS)
def test_one_wrong_element_loses_a_trial_and_is_not_attested(name: str, mode: str) -> None:
    rng = np.random.default_rng([*name.encode(), *mode.encode()])
    backend = repops.backend("cpu")
    for honest in (0, 1):
        inputs, attrs = narrow_call(name, f"{mode}/{honest}")
        turn = int(rng.integers(0, 20))
        setting = Setting.of(name, inputs, attrs, rng.random(), honest, turn, MODES[mode])
        assert setting is not None
        state, _ = play(setting, served=bool(honest))
        assert state.losers == 2 - honest
        records = setting.dispute.records
        given = [canonical(array) for array in inputs]
        structure = structure_of(name, given, attrs)
        assert adjudicate(structure, records[1 - honest], given, backend, MODES[mode]) == records[honest]
