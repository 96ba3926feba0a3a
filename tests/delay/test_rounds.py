"""The search over all ways to spend a budget gives the rounds that docs/economics.md states, and stays below it."""

from __future__ import annotations

from math import log2

import pytest

from .rounds import most_rounds


@pytest.mark.parametrize(
    ("stakes", "rounds"),
    [
        *[(1, 1), (2, 2), (4, 3), (8, 6), (16, 10)],
        pytest.param(20, 11, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_the_most_rounds_that_stakes_buy(stakes: int, rounds: int) -> None:
    assert most_rounds(stakes) == rounds
    assert rounds <= log2(stakes) ** 2 + 9 / 2 * log2(stakes) + 17
