"""The primitives against a reference of fractions, on random bits and on values that are hard to round."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import InvalidInput
from referee_py.rounding import (
    DOWN,
    FIXED_TAU,
    NOT_LOGGED,
    UP,
    largest,
    log,
    quantum,
    rev,
    rnd,
    threshold,
    unsigned_zero,
)

BITS = st.integers(26, 32)


def from_bits(bits: int) -> float:
    return float(np.array(bits, dtype=np.uint64).view(np.float64))


def exponent(x: Fraction) -> int:
    """Return e with 2^e <= |x| < 2^(e + 1)."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if abs(x) >= Fraction(2) ** e else e - 1


def unit(x: Fraction) -> Fraction:
    return Fraction(2) ** (max(exponent(abs(x)), -126) if x else -126)


def to_grid(x: float, b: int, direction: str = "nearest") -> float:
    """Return the expected result of `rnd` and `rev`, with integers; direction is "nearest", "down" or "up"."""
    if math.isnan(x) or math.isinf(x):
        return x
    q = unit(Fraction(x)) * Fraction(2) ** (9 - b)
    ways: dict[str, Callable[[Fraction], int]] = {"nearest": round, "down": math.floor, "up": math.ceil}
    n = ways[direction](Fraction(x) / q)
    if abs(n * q) > Fraction(largest(b)):
        return math.copysign(math.inf, x)
    return math.copysign(float(n * q), x)


# Midpoints, their neighbours, both ends of the range, powers of two, changes of the binade.
AROUND = [
    v * s
    for e in (
        -1074,
        -1022,
        -200,
        -151,
        -150,
        -149,
        -148,
        -140,
        -127,
        -126,
        -125,
        -1,
        0,
        1,
        24,
        126,
        127,
        128,
        1023,
    )
    for m in (
        1.0,
        1 - 2.0**-25,
        1 - 2.0**-26,
        1 + 2.0**-24,
        1 + 2.0**-23,
        1 + 3 * 2.0**-24,
        1.5,
        2 - 2.0**-24,
        1 + 2.0**-18,
    )
    for c in (float(np.ldexp(m, e)),)
    for v in (c, math.nextafter(c, 0), math.nextafter(c, math.inf))
    for s in (1.0, -1.0)
]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, *AROUND]
ANY = st.one_of(
    st.integers(0, 2**64 - 1).map(from_bits),
    st.floats(width=32),
    st.floats(-1e3, 1e3),
    st.sampled_from(SPECIAL),
    st.builds(
        lambda m, e, j: math.ldexp((2 * m + 1) * 2**20 + j, e),
        st.integers(0, 2**25),
        st.integers(-200, 90),
        st.integers(-2, 2),
    ),
)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@given(ANY, BITS)
def test_rnd_is_the_nearest_value_of_the_grid(x: float, b: int) -> None:
    got = rnd(array(x), b)
    assert same(float(got[0]), to_grid(x, b))
    with np.errstate(over="ignore"):
        assert same(float(np.float32(got[0])), float(got[0])), "every element is a binary32 value"


@pytest.mark.parametrize("b", range(26, 33))
def test_rnd_on_every_special_value(b: int) -> None:
    got = rnd(array(*SPECIAL), b)
    for x, y in zip(SPECIAL, got.tolist(), strict=True):
        assert same(y, to_grid(x, b)), x


def test_rnd_at_32_bits_is_the_cast_to_binary32() -> None:
    bits = np.random.default_rng(1).integers(0, 2**64, 200_000, dtype=np.uint64)
    patterns = bits.astype(np.uint32).view(np.float32)
    x = np.concatenate(
        [bits.view(np.float64), array(*SPECIAL), patterns[~np.isnan(patterns)].astype(np.float64)]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(np.float32).astype(np.float64)
    got = rnd(x, 32)
    assert np.array_equal(got, want, equal_nan=True)
    number = ~np.isnan(x)
    assert np.array_equal(np.signbit(got[number]), np.signbit(want[number]))
    assert not np.signbit(got[~number]).any(), "every NaN is the positive one"


@given(ANY, BITS, st.floats(0, 1))
def test_log_is_algorithm_1(x: float, b: int, part: float) -> None:
    tau = part * 0.5 * 2.0 ** (9 - b)
    want = NOT_LOGGED
    if abs(x) < 2.0**128:  # false for NaN
        q = unit(Fraction(x)) * Fraction(2) ** (9 - b)
        error = round(Fraction(x) / q) * q - Fraction(x)
        if abs(error) > unit(Fraction(x)) * Fraction(tau):
            want = UP if error > 0 else DOWN
    assert log(array(x), b, tau).tolist() == [want]


@given(ANY, BITS, st.integers(0, 2))
def test_rev_takes_the_direction_of_the_entry(x: float, b: int, entry: int) -> None:
    """Section 5.2, item 3: only a value that was rounded the other way is corrected."""
    near = to_grid(x, b)
    want = near
    if x < near and entry == DOWN:
        want = to_grid(x, b, "down")
    if x > near and entry == UP:
        want = to_grid(x, b, "up")
    assert same(float(rev(array(x), b, np.array([entry], dtype=np.uint8))[0]), want)


@given(st.floats(-1e30, 1e30), BITS, st.floats(-1, 1))
def test_an_auditor_near_the_trainer_follows_it(x: float, b: int, part: float) -> None:
    """Two values closer than tau, so closer than half of 2 tau: the log of one makes the other round alike."""
    trainer = array(x)
    auditor = (
        trainer
        + part * FIXED_TAU * np.ldexp(1.0, np.frexp(np.maximum(np.abs(trainer), 2.0**-126))[1] - 1) * 0.5
    )
    assert rev(auditor, b, log(trainer, b, FIXED_TAU)) == rnd(trainer, b)


@given(ANY, BITS)
def test_the_quantum_is_the_spacing(x: float, b: int) -> None:
    if math.isfinite(x):
        assert Fraction(float(quantum(array(x), b)[0])) == unit(Fraction(x)) * Fraction(2) ** (9 - b)


def test_shapes_are_kept() -> None:
    x = np.zeros((2, 3, 0))
    assert rnd(x, 32).shape == rev(x, 32, log(x, 32, 0.0)).shape == (2, 3, 0)
    assert rnd(np.array(1.3), 32).shape == ()
    strided = np.linspace(0, 1, 24).reshape(4, 6).T[::2]
    assert np.array_equal(rnd(strided, 28), rnd(strided.copy(), 28))


def test_zeros_of_free_operators_have_no_sign() -> None:
    assert not np.signbit(unsigned_zero(array(-0.0, 0.0))).any()
    assert unsigned_zero(array(-1e-300, math.inf)).tolist() == [-1e-300, math.inf]


def diverging(seed: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs around midpoints of the 32-bit grid, at most `spread` quanta from them."""
    rng = np.random.default_rng(seed)
    middle = (rng.integers(2**23, 2**24, 1000) + 0.5) * 2.0 ** rng.integers(-60, 60, 1000)
    q = quantum(middle, 32)
    return middle - rng.uniform(0, spread, 1000) * q, middle + rng.uniform(0, spread, 1000) * q


def test_the_threshold_is_the_largest_that_logs_every_divergence() -> None:
    y1, y2 = diverging(2, 0.1)
    tau = threshold(y1, y2, 32)
    assert FIXED_TAU < tau < 2.0**-24
    for mine, other in ((y1, y2), (y2, y1)):
        assert np.array_equal(rev(mine, 32, log(other, 32, tau)), rnd(other, 32))
    above = math.nextafter(tau, 1) + 2.0**-60
    assert (log(y1, 32, above) == NOT_LOGGED).any() or (log(y2, 32, above) == NOT_LOGGED).any()


def test_without_divergence_nothing_needs_to_be_logged() -> None:
    y = np.linspace(1, 2, 100)
    assert threshold(y, y, 26) == pytest.approx(2.0**-18, rel=1e-9)


def test_a_divergence_out_of_reach_is_refused() -> None:
    y1, y2 = diverging(3, 0.4)
    with pytest.raises(InvalidInput, match="not above the smallest tau"):
        threshold(y1, y2, 32)
    with pytest.raises(InvalidInput, match=r"element 1: .* more than a direction can repair"):
        threshold(array(1.0, 1.0), array(1.0, 1.0 + 2.0**-22), 32)
    with pytest.raises(InvalidInput, match="more than a direction can repair"):
        threshold(array(-1e-20), array(1e-20), 32)  # a result that is all cancellation


@pytest.mark.parametrize("b", [25, 33, True, 32.0])
def test_other_rounding_amounts_are_refused(b: int) -> None:
    with pytest.raises(InvalidInput, match="from 26 to 32"):
        rnd(array(1.0), b)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidInput, match="float32"):
        rnd(np.zeros(2, dtype=np.float32), 32)
    with pytest.raises(InvalidInput, match="tau"):
        log(array(1.0), 32, 2.0**-23)
    with pytest.raises(InvalidInput, match="entry 1 is 3"):
        rev(array(1.0, 2.0), 32, np.array([1, 3], dtype=np.uint8))
    with pytest.raises(InvalidInput, match="shape"):
        rev(array(1.0, 2.0), 32, np.array([1], dtype=np.uint8))
