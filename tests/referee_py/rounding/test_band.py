"""Elements that have an entry: distances to midpoints, the readable log, and the kernel's log."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.rounding import (
    Bounds,
    Evaluation,
    Form,
    Radius,
    Rounding,
    band,
    midpoint_distance,
    rnd,
)
from referee_py.rounding import band as masks
from referee_py.rounding.band import write
from referee_py.rounding.follow import write as write_fast
from referee_py.rounding.primitives import FIXED_TAU

from .logs import same

BITS = st.integers(26, 32)


def grid_around(x: float, b: int) -> list[Fraction]:
    """Return grid values around |x|, by counting bit patterns of binary32; 2^128 follows the largest one."""
    step = 1 << (32 - b)
    below = int(np.float32(rnd(np.array([abs(x)]), b)[0]).view(np.uint32))
    top = 0x7F800000
    patterns = (k for k in range(below - 3 * step, below + 4 * step, step) if k <= top)
    return [
        Fraction(2) ** 128
        if k == top
        else Fraction(float(np.array(abs(k), dtype=np.uint32).view(np.float32))) * (-1 if k < 0 else 1)
        for k in patterns
    ]


NEAR_EDGES = st.builds(
    lambda m, e, j, s: s * np.ldexp(m * 2.0**20 + j, e),
    st.sampled_from([2**23, 2**23 + 1, 2**24 - 1, 2**24, 2**17, 1, 3]),
    st.integers(-195, 83),
    st.integers(-(2**20), 2**20),
    st.sampled_from([1.0, -1.0]),
)


@given(st.one_of(st.floats(-1e38, 1e38), NEAR_EDGES), BITS)
def test_the_distance_is_that_of_the_nearest_midpoint(x: float, b: int) -> None:
    if abs(x) >= 2.0**128:
        return
    want = min(abs(abs(Fraction(x)) - (v + w) / 2) for v, w in itertools.pairwise(grid_around(x, b)))
    assert float(midpoint_distance(np.array([x]), b)[0]) == float(want)


def test_beyond_the_grid() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 2.0**128, -(2.0**129)])
    distance = midpoint_distance(x, 32)
    assert distance.tolist() == [np.inf, np.inf, np.inf, 2.0**103, 2.0**128 + 2.0**103]
    narrow, wide = masks(x, np.array([np.inf, np.nan, np.inf, 0.0, 0.0]), 32)
    assert not narrow.any()
    assert not wide.any()


def test_who_is_in_the_band() -> None:
    """Up to 1.25 radii from a midpoint are in the band; a radius of q / 8 is wide; with radius 0 there is no band."""
    q, r = 2.0**-23, 2.0**-36
    x = 1 + q / 2 + r * np.array([0.0, 1.0, 1.25, 1.26, -1.25, -1.26])
    narrow, wide = band(x, np.full(6, r), 32)
    assert narrow.tolist() == [True, True, True, False, True, False]
    assert not wide.any()
    narrow, wide = band(x, np.full(6, q / 8), 32)
    assert wide.all()
    assert not narrow.any()
    assert not np.any(band(x, np.zeros(6), 32)), "a tie that every order has is not a freedom"


def near_midpoints(rng: np.random.Generator, b: int, shape: tuple[int, ...]) -> tuple[np.ndarray, Radius]:
    """Return elements up to 2 radii from midpoints, and near powers of two; radii of 2^-28 to 4 quanta."""
    near = rng.integers(2 ** (b - 9), 2 ** (b - 8), shape) + rng.choice([0.0, 0.5, 0.5, 0.5], shape)
    near = np.where(rng.random(shape) < 0.2, 2.0 ** (b - 9) + rng.choice([0.0, -0.25, 0.5], shape), near)
    exact = near * rng.choice([-1, 1], shape)
    rows, columns = 2.0 ** rng.uniform(-14, 1, (shape[0], 1)), 2.0 ** rng.uniform(-14, 1, (1, shape[1]))
    radius = Radius((rows, columns))
    moved = exact + radius.array(shape) * rng.choice([0.0, 0.5, 1.0, 1.2, 1.3, 2.0], shape)
    scale = 2.0 ** float(rng.integers(-120, 100))
    return moved * scale, Radius((rows * scale, columns))


@pytest.mark.parametrize("b", [26, 29, 32])
@pytest.mark.parametrize(("form", "tau"), [(Form.SPARSE, None), (Form.DENSE, FIXED_TAU), (Form.DENSE, 0.0)])
def test_the_kernel_writes_the_log_that_is_to_be_read(b: int, form: Form, tau: float | None) -> None:
    rng = np.random.default_rng(b)
    x, radius = near_midpoints(rng, b, (200, 150))
    values, log = write(x, radius.array(x.shape), b, tau)
    evaluation, rounding = Evaluation(x, radius), Rounding(b, Bounds.PROVEN, form)
    fast, found = write_fast("mm", [], {}, evaluation, rounding, tau=tau or 0.0)
    assert np.array_equal(values, fast)
    assert same(found, log)
    assert log.narrow.size > 1000
    assert log.wide.size > 500


def test_the_papers_threshold_adds_entries_that_nobody_needs() -> None:
    """A fixed tau logs values further than a quarter of a quantum from their rounding: half of all, at b = 32."""
    rng = np.random.default_rng(2)
    x, r = rng.uniform(1, 2, 10_000), np.array(2.0**-45)
    values, few = write(x, r, 32)
    again, many = write(x, r, 32, tau=FIXED_TAU)
    assert np.array_equal(values, again)
    assert few.count == 0
    assert 4800 < many.narrow.size < 5200
    assert (many.up == (values[many.narrow] > x[many.narrow])).all()


def test_crumbs_of_either_sign_become_the_same_zero() -> None:
    for crumb in (1e-60, -1e-60, -0.0):
        rounded, log = write(np.array([crumb]), np.array([1e-59]), 32)
        assert log.count == 0
        assert not np.signbit(rounded[0])
