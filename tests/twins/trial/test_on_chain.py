"""Trials on a local chain: a party with one element wrong by one ulp, of any operator, loses to the honest party."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from repops.opset import OPS
from repops.random_calls import random_call

from referee_py.commit.tensor import dtype_of
from referee_py.element import NO_ENTRY, Entry
from referee_py.program.modes import EXACT, REPOPS_F32, TC16
from referee_py.rounding import UP, Bounds, Rounding
from tests.referee_py.trial import logged
from tests.referee_py.trial.narrow import OPERATORS, narrow_call
from tests.referee_py.trial.parties import Setting

from .stand import Stand

slow = pytest.mark.slow
ROUNDINGS = [Rounding(b, bounds) for b in (26, 32) for bounds in Bounds]


MODES = {
    "repops-f32": REPOPS_F32.byte,
    "exact": EXACT.byte,
    "tc16": TC16.byte,
    "rounded to 32 bits": Rounding(32).mode,
    "rounded to 26 bits": Rounding(26, Bounds.PROBABLE).mode,
}


@pytest.mark.parametrize(
    ("mode", "times"),
    [
        *(pytest.param(mode, 1, id=f"{mode}, quick") for mode in ("repops-f32", "exact")),
        *(pytest.param(mode, 3, id=mode, marks=slow) for mode in MODES),
    ],
)
def test_one_wrong_element_of_any_operator_loses(stand: Stand, mode: str, times: int) -> None:
    """The honest party is either side, and tensors are served or shown piece by piece. Nothing is logged."""
    rng = np.random.default_rng(5)
    for name in (op.name for op in OPS):
        played = 0
        for number in range(40):
            inputs, attrs = random_call(name, f"court/{number}", "tiny" if number % 5 else "usual")
            setting = Setting.of(
                name, inputs, attrs, rng.random(), played % 2, int(rng.integers(0, 60)), MODES[mode]
            )
            if setting is None:
                continue
            result = stand.play(setting, served=played < 2)
            assert (result.losers, result.late) == (2 - setting.honest, False), (name, number)
            played += 1
            if played == times:
                break
        assert played == times, name


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[] if m in ("exact", "tc16") else [slow]) for m in MODES]
)
def test_one_wrong_element_of_bf16_loses(stand: Stand, mode: str) -> None:
    """Every operator that gives bf16; the honest party is either side."""
    rng = np.random.default_rng(6)
    for name in OPERATORS:
        for honest in (0, 1):
            call = narrow_call(name, f"court/{mode}/{honest}")
            turn = int(rng.integers(0, 20))
            setting = Setting.of(name, *call, rng.random(), honest, turn, MODES[mode])
            assert setting is not None
            result = stand.play(setting, served=bool(honest))
            assert (result.losers, result.late) == (2 - honest, False), (name, honest)


@pytest.mark.parametrize("rounding", [pytest.param(ROUNDINGS[0], marks=slow), ROUNDINGS[3]], ids=str)
def test_any_operator_may_have_a_log(stand: Stand, rounding: Rounding) -> None:
    """Also one that rounds in one way only or not at all: its entry is shown, to no effect. i64 and bool show none."""
    for number, name in enumerate(op.name for op in OPS):
        calls = (random_call(name, f"any/{k}", "tiny") for k in range(40))
        settings = (
            Setting.of(*(name, inputs, attrs), 0.7, number % 2, 1, rounding.mode, logged=True)
            for inputs, attrs in calls
        )
        setting = next(found for found in settings if found is not None)
        result = stand.play(setting, served=True)
        assert (result.losers, result.late) == (2 - setting.honest, False), name
        rounded = dtype_of(setting.sides[0].outputs[result.state.output]).is_float
        assert result.state.entry == (Entry(UP) if rounded else NO_ENTRY), name


@slow
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_whoever_goes_by_the_log_wins(stand: Stand, rounding: Rounding) -> None:
    """Every operator with a log, of several blocks: entries that count, no entries, and entries that do not count."""
    rng = np.random.default_rng(rounding.mode)
    kinds, names = Counter[str](), set[str]()
    for number, case in enumerate(logged.cases(rng, rounding, 1100)):
        for what, element, setting in logged.disputes(case, rounding, rng, number % 2):
            result = stand.play(setting, served=number % 3 > 0)
            assert (result.losers, result.late) == (2 - setting.honest, False), (case, what)
            assert result.state.element == element
            kinds[what] += 1
            names.add(case.name)
    assert set(kinds) == set(logged.WHAT)
    assert len(names) == (7 if rounding.bits == 32 else 16)
