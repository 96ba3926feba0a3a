"""Entries that a log may have for an element, honest or forged, and elements of operators that have a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from referee_py.element import NO_ENTRY, Case, Entry
from referee_py.rounding import DOWN, UP, Bounds, Rounding
from referee_py.rounding.entries import WRITTEN
from tests.referee_py.rounding import operators

from .operands import cases_of

ROUNDINGS = [Rounding(b, bounds) for b in (26, 29, 32) for bounds in Bounds]
ODD = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x3F800001)


def entries(nearest: int, b: int, rng: np.random.Generator) -> list[Entry]:
    """Return no entry, both directions, and written values: the nearest value, its neighbours, one further away, of
    the other sign or off the grid, zeros, infinities and NaN."""
    step = 1 << (32 - b)
    far = nearest + int(rng.integers(-40, 40)) * step
    near = (nearest, nearest + step, nearest - step, far, nearest ^ 0x80000000, nearest + 1)
    written = [value & 0xFFFFFFFF for value in (*near, int(rng.choice(ODD)))]
    return [NO_ENTRY, Entry(DOWN), Entry(UP), *(Entry(WRITTEN, value) for value in written)]


def logged_elements(
    rng: np.random.Generator, rounding: Rounding, count: int
) -> Iterator[tuple[operators.Case, Case]]:
    """Yield elements of operators whose results are hardest to round, `count` of each."""
    for call in operators.cases(rng, rounding.bits):
        for case in cases_of(call.name, call.inputs, call.attrs, rng.random(count)):
            yield call, replace(case, mode=rounding.mode)
