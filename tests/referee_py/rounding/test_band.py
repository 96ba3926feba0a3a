"""Trainer and auditor: whatever each one's evaluation is within the bound, the auditor ends at the trainer's bits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidInput
from referee_py.rounding import (
    ForgedLog,
    SparseLog,
    band,
    follow,
    midpoint_distance,
    quantum,
    rnd,
    sparse,
    write,
)

BITS = st.integers(26, 32)
NONE = np.zeros(0, dtype=np.int64)


def grid_around(x: float, b: int) -> list[Fraction]:
    """Grid values around |x|, by counting bit patterns of binary32; 2^128 follows the largest one."""
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
    narrow, wide = band(x, 32, np.array([np.inf, np.nan, np.inf, 0.0, 0.0]))
    assert not narrow.any()
    assert not wide.any()


def pair(
    seed: int, b: int, size: int, spread: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two evaluations of the same exact values, most of which lie near midpoints or powers of two, and their width.

    Errors are between 2^spread[0] and 2^spread[1] quanta.
    """
    rng = np.random.default_rng(seed)
    near = rng.integers(2 ** (b - 9), 2 ** (b - 8), size) + rng.choice([0.0, 0.5, 0.5, 0.5], size)
    near = np.where(rng.random(size) < 0.2, 2.0 ** (b - 9) + rng.choice([0.0, -0.25, 0.5], size), near)
    scale = 2.0 ** rng.integers(-150, 100, size)
    exact = near * scale * rng.choice([-1, 1], size)
    error = quantum(exact, b) * 2.0 ** rng.uniform(*spread, size)
    x, y = (exact + error * rng.uniform(-1, 1, size) for _ in range(2))
    return x, y, 2 * error * (1 + 2.0**-20)  # the sums above are rounded themselves


@pytest.mark.parametrize("b", [26, 29, 32])
@pytest.mark.parametrize("spread", [(-28.0, -5.0), (-6.0, -1.5), (-3.0, 3.0)])
def test_the_auditor_ends_at_the_bits_of_the_trainer(b: int, spread: tuple[float, float]) -> None:
    x, y, width = pair(b, b, 40_000, spread)
    rounded, log = write(x, b, width)
    sent = sparse.decode(sparse.encode(log), x.size, b)
    assert np.array_equal(follow(y, b, width, sent), rounded)
    differ = np.flatnonzero(rnd(x, b) != rnd(y, b))
    assert differ.size > (10 if spread[1] < -4 else 1000), "the pairs must need the log"
    assert np.isin(differ, np.concatenate([log.narrow, log.wide])).all()
    assert (log.wide.size > 0) == (spread[1] > -4)


def test_orders_of_a_dot_product() -> None:
    """Real products: BLAS against a chain, cancelling rows among them; every difference is in the log."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((300, 2048)).astype(np.float32).astype(np.float64)
    c = rng.standard_normal((2048, 100)).astype(np.float32).astype(np.float64)
    a[::3, 1024:] = -a[::3, :1024]
    c[1024:, ::2] = c[:1024, ::2] * (1 + 2.0**-20)
    c = rnd(c, 32)
    x = a @ c
    y = np.zeros_like(x)
    for k in range(2048):
        y += a[:, k, None] * c[None, k]
    width = 2 * 2048 * 2.0**-53 * (np.abs(a) @ np.abs(c)) * 1.0001
    rounded, log = write(x, 32, width)
    assert np.array_equal(follow(y, 32, width, log), rounded)
    assert (rnd(x, 32) != rnd(y, 32)).any()
    assert log.narrow.size < 0.05 * x.size


def three() -> tuple[np.ndarray, np.ndarray]:
    """Elements: far from a midpoint; in the band; on the grid. Quanta are 2^-23."""
    q = 2.0**-23
    return np.array([1 + 0.1 * q, 1 + 0.5 * q + 2.0**-40, 1 + q]), np.full(3, 2.0**-38)


def narrow_log(position: int, up: bool) -> SparseLog:
    return SparseLog(3, np.array([position]), np.array([up]), NONE, np.zeros(0))


def test_a_direction_in_the_band_is_followed_either_way() -> None:
    x, width = three()
    for up in (True, False):
        assert follow(x, 32, width, narrow_log(1, up))[1] == 1 + up * 2.0**-23


@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("up", [True, False])
def test_a_direction_outside_the_band_is_named(position: int, up: bool) -> None:
    x, width = three()
    with pytest.raises(ForgedLog, match=f"element {position}: an entry outside the band") as caught:
        follow(x, 32, width, narrow_log(position, up))
    assert caught.value.element == position


def test_the_first_forged_element_is_named() -> None:
    x, width = np.tile(three()[0], 5), np.tile(three()[1], 5)
    log = SparseLog(15, np.array([1, 4, 6, 9]), np.array([True] * 4), NONE, np.zeros(0))
    with pytest.raises(ForgedLog) as caught:
        follow(x, 32, width, log)
    assert caught.value.element == 6


def test_between_one_and_two_widths_only_the_own_direction_is_believed() -> None:
    width = np.array([2.0**-38])
    x = np.array([1 + 2.0**-24 + 1.5 * 2.0**-38])  # rounds up, 1.5 widths above the midpoint
    one = np.array([0])
    assert follow(x, 32, width, SparseLog(1, one, np.array([True]), NONE, np.zeros(0)))[0] == 1 + 2.0**-23
    with pytest.raises(ForgedLog, match="cannot have"):
        follow(x, 32, width, SparseLog(1, one, np.array([False]), NONE, np.zeros(0)))


@pytest.mark.parametrize("up", [True, False])
def test_beyond_two_widths_no_direction_is_believed_not_even_the_own(up: bool) -> None:
    width = np.array([2.0**-38])
    x = np.array([1 + 2.0**-24 + 2.5 * 2.0**-38])
    with pytest.raises(ForgedLog, match="outside the band"):
        follow(x, 32, width, SparseLog(1, np.array([0]), np.array([up]), NONE, np.zeros(0)))


def test_a_wide_value_must_be_reachable() -> None:
    x, width = np.array([1e-12]), np.array([1e-13])
    for value, honest in (
        (1.05e-12, True),
        (0.95e-12, True),
        (1.2e-12, False),
        (-1e-12, False),
        (0.0, False),
    ):
        log = SparseLog(1, NONE, np.zeros(0, dtype=np.bool_), np.array([0]), rnd(np.array([value]), 32))
        if honest:
            assert follow(x, 32, width, log)[0] == log.values[0]
        else:
            with pytest.raises(ForgedLog, match="cannot have"):
                follow(x, 32, width, log)


def test_crumbs_of_either_sign_become_the_same_zero() -> None:
    for crumb in (1e-60, -1e-60, -0.0):
        rounded, log = write(np.array([crumb]), 32, np.array([1e-59]))
        assert log.narrow.size == log.wide.size == 0
        assert not np.signbit(rounded[0])


def test_a_log_of_another_node_is_refused() -> None:
    x, width = three()
    with pytest.raises(InvalidInput, match="a log for 3 elements"):
        follow(x[:2], 32, width[:2], narrow_log(1, True))


def test_a_tie_without_freedom_has_no_entry() -> None:
    """One IEEE operation may end exactly on a midpoint; it does so everywhere, so a direction there is forged."""
    tie, width = np.array([1 + 2.0**-24]), np.zeros(1)
    rounded, log = write(tie, 32, width)
    assert rounded[0] == 1.0
    assert log.narrow.size == log.wide.size == 0
    for up in (True, False):
        with pytest.raises(ForgedLog, match="outside the band"):
            follow(tie, 32, width, SparseLog(1, np.array([0]), np.array([up]), NONE, np.zeros(0)))
