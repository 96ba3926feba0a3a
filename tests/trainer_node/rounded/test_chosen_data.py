"""Chosen data for which an honest evaluation is further from the exact value than the probable bound.

Of 256 terms the first two make a midpoint, and each of the others is less than half a place of their sum: adding
forwards loses all of them. That is 251 of 2^-53; the probable radius of 256 terms is 96, the proven one 255.
"""

from __future__ import annotations

import numpy as np
import pytest

from referee_py.commit.tensor import Array
from referee_py.rounding import Bounds, Rounding
from referee_py.rounding.follow import follow, write
from tests.referee_py.rounding.operators import Case, Definition

from .orders import both

TERMS, ROWS, COLUMNS = 256, 16, 16


def chosen(bits: int) -> Case:
    row = np.full(TERMS, 0.99 * 2.0**-53, np.float32)
    row[:2] = 1, 2.0 ** (8 - bits)
    return Case("mm", [np.tile(row, (ROWS, 1)), np.ones((TERMS, COLUMNS), np.float32)], {})


def wrong(bits: int, bounds: Bounds) -> tuple[Array, Array]:
    """Return which elements of an honest trainer, who adds forwards, differ from the value that his log defines, and
    which differ from that of an honest auditor, who adds backwards."""
    case, rounding = chosen(bits), Rounding(bits, bounds)
    operator = case.name, case.inputs, case.attrs
    forwards, backwards = (e.evaluate(*operator, bounds) for e in both())
    values, log = write(*operator, forwards, rounding)
    truth = Definition(case, values.shape, rounding).under(log)
    followed = follow(*operator, backwards, log, rounding).values
    return values != truth, values != followed


@pytest.mark.parametrize("bits", [26, 29, 32])
def test_with_probable_bounds_an_honest_trainer_loses(bits: int) -> None:
    """All of his elements are wrong, and a party that adds in another order can show it."""
    by_definition, by_auditor = wrong(bits, Bounds.PROBABLE)
    assert by_definition.sum() == by_auditor.sum() == 256


@pytest.mark.parametrize("bits", [26, 29, 32])
def test_with_proven_bounds_nobody_can_choose_such_data(bits: int) -> None:
    by_definition, by_auditor = wrong(bits, Bounds.PROVEN)
    assert not by_definition.any()
    assert not by_auditor.any()
