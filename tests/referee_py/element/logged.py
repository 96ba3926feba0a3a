"""Entries that a log may have for an element, honest or forged, and elements of operators that have a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from repops.opset import BF16

from referee_py.element import NO_ENTRY, Case, Entry, scalar
from referee_py.params import MAX_BITS
from referee_py.program.mode import BF16_BITS, is_rounded
from referee_py.rounding import DOWN, UP, Bounds, Rounding
from referee_py.rounding.entries import WRITTEN
from tests.referee_py.rounding import operators

from .operands import cases_of

ROUNDINGS = [Rounding(b, bounds) for b in (26, 29, 32) for bounds in Bounds]
ODD = (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x3F800001)


def entries(case: Case, element: int, rng: np.random.Generator) -> list[Entry]:
    """Return entries for an element, given its bits without one: none, both directions, and written values: the same
    value, its neighbours, one further away, of the other sign or off the grid, zeros, infinities and NaN.

    A written value is a binary32, for bf16 too.
    """
    step = 1 << (MAX_BITS - bits_of_grid(case))
    nearest = scalar.widened(element, case.dtype)
    far = nearest + int(rng.integers(-40, 40)) * step
    near = (nearest, nearest + step, nearest - step, far, nearest ^ 0x80000000, nearest + 1)
    written = [value & 0xFFFFFFFF for value in (*near, int(rng.choice(ODD)))]
    return [NO_ENTRY, Entry(DOWN), Entry(UP), *(Entry(WRITTEN, value) for value in written)]


def bits_of_grid(case: Case) -> int:
    """Return b of the grid to which results are rounded."""
    if case.dtype == BF16:
        return BF16_BITS
    return Rounding.of(case.mode).bits if is_rounded(case.mode) else MAX_BITS


def logged_elements(
    rng: np.random.Generator, rounding: Rounding, count: int
) -> Iterator[tuple[operators.Case, Case]]:
    """Yield elements of operators whose results are hardest to round, `count` of each, also of bf16."""
    for call in (*operators.cases(rng, rounding.bits), *operators.narrow(operators.cases(rng, BF16_BITS))):
        for case in cases_of(call.name, call.inputs, call.attrs, rng.random(count)):
            yield call, replace(case, mode=rounding.mode)
