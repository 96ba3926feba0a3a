"""What a verifier decides of one element: its exact value, and which roundings of it are admissible."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidInput
from referee_py.rounding import DOWN, UP, bounds, exact, largest, rev, rnd, write

BITS = st.integers(26, 32)
Q = Fraction(1, 2**23)  # the quantum at 1, for b = 32


@given(st.floats(), BITS)
def test_an_exact_value_is_rounded_as_rnd_does(x: float, b: int) -> None:
    if math.isfinite(x):
        assert exact.round_exact(Fraction(x), b) == rnd(np.array([x]), b)[0]


def test_what_binary64_cannot_hold_is_rounded_once() -> None:
    """A crumb above a midpoint, lost in binary64, decides: rounding twice would go to the even neighbour, 1."""
    x = 1 + Q / 2 + Fraction(1, 2**200)
    assert float(x) == 1 + 2.0**-24
    assert exact.round_exact(x, 32) == 1 + 2.0**-23
    assert exact.round_exact(x - Fraction(1, 2**199), 32) == 1.0


@given(st.integers(-(2**40), 2**40), st.integers(-170, 100), st.integers(0, 2**18), BITS)
def test_admissible_are_the_roundings_of_the_interval(m: int, e: int, r: int, b: int) -> None:
    unit = Fraction(2) ** e
    value, radius = m * unit, r * unit
    low, high = exact.admissible(value, b, radius)
    assert low <= exact.round_exact(value, b) <= high
    for k in (-1, Fraction(-1, 3), 0, Fraction(1, 2), 1):
        assert exact.is_admissible(exact.round_exact(value + k * radius, b), value, b, radius)
    for end, towards, entry in ((low, -math.inf, DOWN), (high, math.inf, UP)):
        if math.isfinite(end):
            next_one = rev(np.array([math.nextafter(end, towards)]), b, np.array([entry], dtype=np.uint8))
            assert not exact.is_admissible(float(next_one[0]), value, b, radius)


def test_admissible_values_of_three_elements() -> None:
    radius = Q / 1000
    assert exact.admissible(1 + Q / 10, 32, radius) == (1.0, 1.0)
    assert exact.admissible(1 + Q / 2 - radius / 2, 32, radius) == (1.0, 1 + 2.0**-23)
    assert exact.admissible(Fraction(0), 32, Q) == (-(2.0**-23), 2.0**-23)


def test_neighbours_off_the_grid_and_signed_zeros_are_not_admissible() -> None:
    assert exact.is_admissible(0.0, Fraction(0), 32, Q)
    assert not exact.is_admissible(-0.0, Fraction(0), 32, Q)
    assert exact.is_admissible(1 + 2.0**-17, Fraction(1), 26, Fraction(1, 2**16))
    assert not exact.is_admissible(1 + 2.0**-18, Fraction(1), 26, Fraction(1, 2**16))
    assert not exact.is_admissible(math.nan, Fraction(1), 32, Fraction(1))
    assert not exact.is_admissible(2.0, Fraction(1), 32, Q)


@pytest.mark.parametrize("b", [26, 32])
def test_infinity_is_admissible_where_overflow_begins(b: int) -> None:
    edge = Fraction(largest(b)) + Fraction(2) ** (135 - b)
    assert exact.round_exact(edge, b) == math.inf
    assert exact.round_exact(edge - 1, b) == largest(b)
    assert exact.admissible(-edge, b, Fraction(2)) == (-math.inf, -largest(b))
    assert exact.is_admissible(-math.inf, -edge, b, Fraction(2))


def test_whatever_an_honest_trainer_writes_is_admissible_and_what_is_ambiguous_is_logged() -> None:
    """The verifier's rules, on cancelling products: admissible outputs, and an entry wherever two were admissible."""
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(s).astype(np.float32).astype(np.float64) for s in ((24, 256), (256, 24)))
    a[::2, 128:], c[128:, ::2] = -a[::2, :128], rnd(c[:128, ::2] * (1 + 2.0**-12), 32)
    c[128:, ::4] = c[:128, ::4]  # every other row times every fourth column cancels entirely
    rounded, log = write(a @ c, 32, bounds.mm_bound(a, c).width)
    logged = {*log.narrow.tolist(), *log.wide.tolist()}
    ambiguous = 0
    for index in np.ndindex(rounded.shape):
        terms = exact.terms_of("mm", [a, c], {}, index)
        value, radius = exact.exact_value(terms), exact.radius(terms)
        low, high = exact.admissible(value, 32, radius)
        assert exact.is_admissible(float(rounded[index]), value, 32, radius)
        if low != high:
            ambiguous += 1
            assert index[0] * 24 + index[1] in logged
    assert 72 <= ambiguous < 300
    assert log.wide.size >= 72


def test_a_changed_output_is_not_admissible() -> None:
    terms = [(1.5, 2.0), (2.0**-30, 3.0), (-1.0, 0.25)]
    value, radius = exact.exact_value(terms), exact.radius(terms)
    right = exact.round_exact(value, 32)
    for wrong in (
        np.nextafter(np.float32(right), np.float32(9)),
        np.nextafter(np.float32(right), np.float32(0)),
    ):
        assert not exact.is_admissible(float(wrong), value, 32, radius)


def test_what_has_no_exact_value_is_refused() -> None:
    with pytest.raises(InvalidInput, match="operand is inf"):
        exact.exact_value([(math.inf, 1.0)])
    with pytest.raises(InvalidInput, match="operand is nan"):
        exact.radius([(1.0, math.nan)])
    with pytest.raises(InvalidInput, match="no exact rational value"):
        exact.elementwise("div", 1.0, 0.0)
    with pytest.raises(InvalidInput, match="no exact rational value"):
        exact.elementwise("pow", 1.0, 0.5)
    with pytest.raises(InvalidInput, match="no sum of products"):
        exact.terms_of("exp", [np.zeros(1)], {}, (0,))
    with pytest.raises(InvalidInput, match="at least 0"):
        exact.admissible(Fraction(1), 32, Fraction(-1))


def test_nothing_added_up_is_zero() -> None:
    assert exact.exact_value([]) == exact.radius([]) == 0
    assert exact.radius([(3.0, 1.0)]) == 0, "one exact product leaves nothing to round"
