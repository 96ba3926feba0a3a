"""A compiled step gives the interpreter's bits: for random programs, at any number of threads, step after step."""

from __future__ import annotations

import pytest

from .equality import check
from .random_program import RandomProgram


def _check(seed: int, size: int) -> None:
    made = RandomProgram(seed, size)
    check(made.program, made.constants, made.initial, seed)


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part: int) -> None:
    for seed in range(part, 400, 8):
        _check(seed, size=8 + seed % 60)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_programs(part: int) -> None:
    for seed in range(1000 + part, 11000, 20):
        _check(seed, size=8 + seed % 150)
