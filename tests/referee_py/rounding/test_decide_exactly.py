"""Exact decisions of single elements: integers against fractions, MPFR against the tables of the operator set."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from repops import reference

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.rounding import (
    DOWN,
    NOT_LOGGED,
    UP,
    Bounds,
    Entries,
    Rounding,
    decide_exactly,
    grid,
    largest,
    rnd,
)
from referee_py.rounding.elementary import bracket
from referee_py.rounding.entries import WRITTEN
from referee_py.rounding.grid import Ball, Toward, to_grid
from referee_py.rounding.summands import summands_of

from . import exact
from .operators import PLAIN, convolutions, elementary, empty_and_single

BITS = st.integers(26, 32)
Q = Fraction(1, 2**23)  # the quantum at 1, for b = 32
RATIONALS = st.tuples(st.integers(-(2**70), 2**70), st.integers(1, 2**40), st.integers(-240, 130))


@given(RATIONALS, BITS)
def test_rounding_in_integers_is_rounding_of_fractions(number: tuple[int, int, int], b: int) -> None:
    num, den, exponent = number
    x = Fraction(num, den) * Fraction(2) ** exponent
    assert to_grid(num, den, exponent, b, Toward.NEAREST) == exact.round_exact(x, b)
    assert to_grid(num, den, exponent, b, Toward.ABOVE) == exact.ceil_exact(x, b)
    assert to_grid(num, den, exponent, b, Toward.BELOW) == -exact.ceil_exact(-x, b)
    for toward in Toward:
        y = to_grid(num, den, exponent, b, toward)
        assert y != 0 or math.copysign(1, y) == 1, "zeros are +0"


@given(st.floats(), BITS)
def test_an_exact_value_is_rounded_as_rnd_does(x: float, b: int) -> None:
    if math.isfinite(x):
        assert exact.round_exact(Fraction(x), b) == rnd(np.array([x]), b)[0]


KINDS = st.sampled_from([DOWN, NOT_LOGGED, UP, WRITTEN])


@given(st.integers(-(2**60), 2**60), st.integers(0, 2**40), st.integers(-190, 90), KINDS, st.data(), BITS)
def test_decisions_in_integers_are_those_of_fractions(
    num: int, radius: int, exponent: int, kind: int, data: st.DataObject, b: int
) -> None:
    den, unit = 3 * 2**36, Fraction(2) ** exponent / (3 * 2**36)
    near = exact.round_exact((num + data.draw(st.integers(-2, 2)) * radius) * unit, b)
    value = data.draw(st.one_of(st.just(near), st.floats(width=32), st.sampled_from([0.0, -0.0, math.inf])))
    got = grid.decide(Ball(num, radius, den, exponent), kind, value, b)
    assert got == exact.follow_entry(num * unit, radius * unit, kind, value, b)


def test_what_binary64_cannot_hold_is_rounded_once() -> None:
    """A crumb above a midpoint, lost in binary64, decides: rounding twice would give the even neighbour, 1."""
    x = 1 + Q / 2 + Fraction(1, 2**200)
    assert float(x) == 1 + 2.0**-24
    assert exact.round_exact(x, 32) == 1 + 2.0**-23
    t = np.array([[1.0, 2.0**-24, 2.0**-140, 0.0]], dtype=np.float32)
    (value,) = decide_exactly(
        "sum", [t], {"dims": (1,), "keepdim": 0}, np.array([0]), Entries.none(1), Rounding()
    )
    assert value == 1 + 2.0**-23


@given(st.integers(-(2**40), 2**40), st.integers(-170, 100), st.integers(0, 2**18), BITS)
def test_admissible_are_the_roundings_of_the_interval(m: int, e: int, r: int, b: int) -> None:
    unit = Fraction(2) ** e
    value, radius = m * unit, r * unit
    low, high = exact.admissible(value, b, radius)
    assert low <= exact.round_exact(value, b) <= high
    for k in (-1, Fraction(-1, 3), 0, Fraction(1, 2), 1):
        assert exact.is_admissible(exact.round_exact(value + k * radius, b), value, b, radius)
    for end, toward in ((low, Toward.BELOW), (high, Toward.ABOVE)):
        if math.isfinite(end):
            beyond = Fraction(math.nextafter(end, math.copysign(math.inf, toward - 1)))
            next_one = to_grid(beyond.numerator, beyond.denominator, 0, b, toward)
            assert not exact.is_admissible(next_one, value, b, radius)


@pytest.mark.parametrize("b", [26, 32])
def test_infinity_is_admissible_where_overflow_begins(b: int) -> None:
    edge = Fraction(largest(b)) + Fraction(2) ** (135 - b)
    assert exact.round_exact(edge, b) == math.inf
    assert exact.round_exact(edge - 1, b) == largest(b)
    assert exact.admissible(-edge, b, Fraction(2)) == (-math.inf, -largest(b))
    assert exact.is_admissible(-math.inf, -edge, b, Fraction(2))
    for kind, value in ((DOWN, largest(b)), (UP, math.inf)):
        assert exact.follow_entry(edge, Fraction(2), kind, 0.0, b) == value
        assert exact.follow_entry(2 * edge, Fraction(2), kind, 0.0, b) == math.inf


def test_terms_are_those_that_are_to_be_read() -> None:
    """Every operator, gathered in pieces of three slots, against the index rules one element at a time."""
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-9, 10, shape).astype(np.float32)

    cases = [*convolutions(draw), *empty_and_single(draw)]
    cases += [type(cases[0])("scatter_add", [draw(4, 3), rng.integers(-1, 5, (5, 8)), draw(5, 8, 3)], {})]
    cases += [type(cases[0])("bmm", [draw(2, 3, 9), draw(2, 9, 4)], {})]
    cases += [type(cases[0])("sum", [draw(3, 4, 5)], {"dims": (0, 2), "keepdim": k}) for k in (0, 1)]
    for case in cases:
        (want,) = reference.execute(case.name, case.inputs, case.attrs)
        positions = np.arange(want.size)
        terms = summands_of(case.name, case.inputs, case.attrs, positions)
        total = np.zeros(want.size)
        for start in range(0, int(terms.links.max(initial=0)), 3):
            total += terms.take(
                positions, start, start + 3 if start + 3 < terms.links.max() else terms.links.max()
            ).sum(1)
        assert np.array_equal(total, want.reshape(-1)), case
        for position, index in enumerate(np.ndindex(*want.shape)):
            readable = exact.terms_of(case.name, case.inputs, case.attrs, index)
            assert len(readable) == terms.counts[position], case
            assert exact.exact_value(readable) == Fraction(float(want[index])), case


@pytest.mark.parametrize(
    "name", ["mm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sum", "scatter_add"))]
)
def test_long_sums_of_any_exponents_are_taken_in_pieces(name: str) -> None:
    """More terms than a piece holds, products over 500 binades that cancel but for a crumb, and bounded memory."""
    rng = np.random.default_rng(6)
    n = 140_000
    a = (rng.standard_normal(n) * 2.0 ** rng.integers(-140, 120, n)).astype(np.float32)
    a[n // 2 :] = -a[: n // 2]
    a[7] += a[7] * np.float32(2.0**-20)
    w = np.full((n, 1), 0.5, dtype=np.float32)
    calls: dict[str, tuple[list[Array], dict[str, Any]]] = {
        "mm": ([a[None], w], {}),
        "sum": ([a], {"dims": (0,), "keepdim": 1}),
        "scatter_add": ([a[:1], np.zeros(n - 1, dtype=np.int64), a[1:]], {}),
    }
    inputs, attrs = calls[name]
    terms = exact.terms_of(name, inputs, attrs, (0, 0) if name == "mm" else (0,))
    for bounds in Bounds:
        rounding = Rounding(29, bounds)
        value, radius = exact.exact_value(terms), exact.radius(terms, bounds)
        far = exact.round_exact(value + radius, 29)
        for entries in (
            Entries.none(1),
            Entries(np.array([WRITTEN], np.uint8), np.array([far])),
            Entries(np.array([WRITTEN], np.uint8), np.array([2 * far])),
            Entries(np.array([UP], np.uint8), np.zeros(1)),
        ):
            want = exact.follow_entry(value, radius, int(entries.kinds[0]), float(entries.values[0]), 29)
            tracemalloc.start()
            got = decide_exactly(name, inputs, attrs, np.array([0]), entries, rounding)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert got[0] == want
            assert peak < 24 << 20, "a few arrays of a piece, whatever the length"


@pytest.mark.parametrize("b", [pytest.param(26, marks=pytest.mark.slow), 29])
def test_functions_of_single_elements(b: int) -> None:
    """Each kind of entry, against the definition, which brackets the value with 2,400 bits."""
    rng, rounding = np.random.default_rng(b), Rounding(b)
    followed = 0
    for case in elementary(rng, 40):
        shape = np.broadcast_shapes(*(v.shape for v in case.inputs))
        size = math.prod(shape)
        with np.errstate(all="ignore"):
            near = rnd(case.evaluation(Bounds.PROVEN).x.reshape(-1) * (1 + rng.choice([0, 1e-15], size)), b)
        for kind in (NOT_LOGGED, UP, DOWN, WRITTEN):
            entries = Entries(np.full(size, kind, dtype=np.uint8), near + 0.0)
            got = decide_exactly(case.name, case.inputs, case.attrs, np.arange(size), entries, rounding)
            alone = decide_exactly(
                case.name, case.inputs, case.attrs, np.arange(size), Entries.none(size), rounding
            )
            operator = case.name, case.inputs, case.attrs
            want = [
                exact.truth_of_element(*operator, index, kind, float(v), rounding)
                for index, v in zip(np.ndindex(*shape), entries.values, strict=True)
            ]
            assert np.array_equal(got, want, equal_nan=True), case
            followed += int((got != alone).sum()) - int(np.isnan(got).sum())
    assert followed > 20, "ties of pow, and sin, tanh and log1p near their arguments"


def test_functions_without_an_entry_are_correctly_rounded() -> None:
    """At b = 32 these are the operator set's values, whose own tests use MPFR; rsqrt is two operations there."""
    rng = np.random.default_rng(9)
    for case in elementary(rng, 300):
        if case.name == "rsqrt":
            continue
        (want,) = reference.execute(case.name, case.inputs, case.attrs)
        got = decide_exactly(
            case.name, case.inputs, case.attrs, np.arange(want.size), Entries.none(want.size), Rounding()
        )
        assert np.array_equal(got, want.reshape(-1), equal_nan=True), case


def test_brackets() -> None:
    """Exact values have no width; saturated and tiny values stay on their side."""
    for name, arguments, value in (
        ("exp", [0.0], 1),
        ("log", [1.0], 0.0),
        ("pow", [4097.0, 2.0], 4097**2),
        ("pow", [2.25, 1.5], Fraction(27, 8)),
        ("rsqrt", [0.0625], 4),
    ):
        around = bracket(name, arguments, 128)
        if isinstance(around, float):
            assert around == value
        else:
            low, high, exponent = around
            assert low == high
            assert low * Fraction(2) ** exponent == value
    for name, arguments in (("tanh", [1e38]), ("erf", [30.0]), ("cos", [2.0**-149])):
        low, high, exponent = bracket(name, arguments, 128)  # type: ignore[misc]
        assert low * Fraction(2) ** exponent < 1 == high * Fraction(2) ** exponent
    assert bracket("exp", [1e38], 128) == math.inf
    assert bracket("exp", [-1e38], 128) == 0.0
    assert bracket("pow", [-3e38, 2.0**24 - 1], 128) == -math.inf


def test_what_has_no_exact_value_is_refused() -> None:
    x = np.ones(3, dtype=np.float32)
    with pytest.raises(InvalidInput, match="add has no log"):
        decide_exactly("add", [x, x], {}, np.array([0]), Entries.none(1), Rounding())
    with pytest.raises(InvalidInput, match="2 entries for int64"):
        decide_exactly("sum", [x], {"dims": (0,), "keepdim": 0}, np.array([0]), Entries.none(2), Rounding())
    with pytest.raises(InvalidInput, match="operand is inf"):
        exact.exact_value([(math.inf, 1.0)])
    with pytest.raises(InvalidInput, match="operand is nan"):
        exact.radius([(1.0, math.nan)], Bounds.PROVEN)
    with pytest.raises(InvalidInput, match="not a sum of products"):
        exact.terms_of("exp", [np.zeros(1)], {}, (0,))
    with pytest.raises(InvalidInput, match="not a sum of products"):
        summands_of("exp", [np.zeros(1)], PLAIN, np.array([0]))
    with pytest.raises(InvalidInput, match="at least 0"):
        exact.admissible(Fraction(1), 32, Fraction(-1))
