"""PyTorch's own samples: each is right, refused with a remedy, or skipped with a reason; what was right stays right."""

from __future__ import annotations

import numpy as np
import pytest

from .judge import RIGHT, Outcome, _apart, _captured, _eager, _is_rounding, _run, judge
from .ledger import LETTERS, failed, lost, read_table
from .run import PARTS, results_folder, run_part
from .samples import cases, functions

EVERY = 14
"""One of so many functions that were right is a quick test."""
QUICK = [name for name, letters in read_table().items() if letters[0][:1] == LETTERS[RIGHT]][::EVERY]


@pytest.mark.parametrize("function", QUICK)
def test_a_function_that_was_right_is_right(function: str) -> None:
    outcome = judge(next(cases(function, "float32")))
    assert outcome.outcome == RIGHT, outcome.reason


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_part_of_the_tables_has_no_other_outcome(part: int) -> None:
    rows = run_part(part, results_folder())
    assert rows
    assert not failed(rows)
    assert not lost(rows)


def test_the_table_has_pytorchs_functions() -> None:
    assert set(read_table()) <= set(functions())


@pytest.mark.parametrize("other", [np.nan, np.inf, 1.0 + 1e-5, -1.0])
def test_one_wrong_element_is_found(other: float) -> None:
    right = np.linspace(-1.0, 1.0, 7)
    wrong = right.copy()
    wrong[-1] = other
    assert _apart(right, right, right, 2.0**-23) is None
    assert _apart(wrong, right, right, 2.0**-23) is not None
    assert _apart(right, wrong, wrong, 2.0**-23) is not None
    assert (_apart(right, wrong, right, 2.0**-23) is None) == np.isfinite(other), "FP64 excuses no NaN"


def test_rounding_excuses_only_what_is_the_same_function_in_fp64() -> None:
    case, other = (next(cases(name, "float32")) for name in ("op/tanh", "op/sin"))
    built, wrong = _captured(case.module), _captured(other.module)
    found, want, exact = _run(built), _eager(case.module, 1), _eager(case.module, 1, double=True)
    assert _is_rounding(built, found, want, exact)
    assert not _is_rounding(wrong, found, want, exact)
    name = next(name for name in found if name.startswith("output"))
    assert not _is_rounding(built, {**found, name: found[name] + np.float32(1e-5)}, want, exact)
    assert not _is_rounding(built, {**found, name: found[name] * np.float32(np.nan)}, want, exact)


def test_what_was_right_and_is_not_is_found() -> None:
    function, letters = next((n, x) for n, x in read_table().items() if x[0].startswith(LETTERS[RIGHT]))
    row = Outcome(f"{function}/float32/0", "refused", "a reason").row()
    assert lost([row])
    assert not lost([{**row, "outcome": RIGHT}])
    assert not failed([row])
    assert failed([{**row, "outcome": "wrong"}])
    assert letters
