"""Bounds against exact values: adversarial inputs, several orders of evaluation, every operator with freedom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from repops import reference
from repops.opset import OPS

from referee_py.errors import InvalidInput
from referee_py.rounding import band, bounds, exact, follow, taps, write

U = 2.0**-53
SHIFT = 298  # every product of two binary32 values is a multiple of 2^-298


def integers(x: np.ndarray, shift: int) -> np.ndarray:
    """floor(x * 2^shift) of every element, as Python integers (a Kulisch accumulator's contents)."""
    mantissa, exponent = np.frexp(x)
    places = exponent.ravel() - 53 + shift
    whole = (mantissa * 2.0**53).ravel().astype(np.int64)
    out = np.empty(x.size, dtype=object)
    out[:] = [m << p if p >= 0 else m >> -p for m, p in zip(whole.tolist(), places.tolist(), strict=True)]
    return out.reshape(x.shape)


def adversarial(
    rng: np.random.Generator, rows: int, length: int, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """a [rows, length], b [length, columns]: plain, wide exponents, subnormals, and sums that cancel to crumbs."""
    a, b = rng.standard_normal((rows, length)), rng.standard_normal((length, columns))
    kind = rng.integers(0, 4, rows)[:, None]
    a = np.where(kind == 1, a * 2.0 ** rng.integers(-120, 100, a.shape), a)
    a = np.where(kind == 2, a * 2.0 ** rng.integers(-149, -120, a.shape), a)
    half = length // 2
    a[:, half : 2 * half] = np.where(
        kind == 3, -a[:, :half] * (1 + rng.choice([0, 2.0**-20], (rows, half))), a[:, half : 2 * half]
    )
    cancelling = rng.random(columns) < 0.5
    b[half : 2 * half, cancelling] = b[:half, cancelling]
    b[:, ::3] *= 2.0 ** rng.integers(-20, 20, b[:, ::3].shape)
    return (v.astype(np.float32).astype(np.float64) for v in (a, b))  # type: ignore[return-value]


def orders(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """BLAS, chains in three orders, and a tree. Products are exact, so a chain with fma is the same chain."""
    yield a @ b
    length = a.shape[1]
    for order in (range(length), range(length)[::-1], rng.permutation(length)):
        total = np.zeros((a.shape[0], b.shape[1]))
        for k in order:
            total += a[:, k, None] * b[None, k]
        yield total
    terms = [a[:, k, None] * b[None, k] for k in range(length)]
    while len(terms) > 1:
        terms = [sum(terms[i : i + 2]) for i in range(0, len(terms), 2)]  # type: ignore[misc]
    yield terms[0]


def check_mm(seed: int, rows: int, length: int, columns: int) -> int:
    rng = np.random.default_rng(seed)
    a, b = adversarial(rng, rows, length, columns)
    value = integers(a, SHIFT // 2) @ integers(b, SHIFT // 2)
    full, cheap = bounds.mm_bound(a, b), bounds.mm_bound_cheap(a, b)
    assert (full.error <= cheap.error * (1 + 2.0**-40)).all()
    limit = integers(full.error, SHIFT)
    for y in orders(a, b, rng):
        off = np.abs(integers(y, SHIFT) - value)
        assert (off <= limit).all()
    assert (off > 0).any(), "something must have been rounded"
    return value.size


@pytest.mark.parametrize(("rows", "length", "columns"), [(40, 2, 40), (40, 33, 20), (10, 300, 10)])
def test_products_in_any_order(rows: int, length: int, columns: int) -> None:
    check_mm(length, rows, length, columns)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_products_in_any_order() -> None:
    assert sum(check_mm(seed, 300, 17, 350) for seed in range(10)) >= 10**6


def test_the_bound_is_not_loose_by_more_than_its_worst_case_allows() -> None:
    """Every addition of a chain that begins with 1 loses all of the next term: half of gamma is reached."""
    n = 4096
    x = np.full((1, n), 2.0**-54)
    x[0, 0] = 1.0
    y = 0.0
    for v in x[0].tolist():
        y += v
    off = abs(Fraction(y) - sum(map(Fraction, x[0].tolist())))
    error = Fraction(float(bounds.sum_bound(x, (1,)).error[0]))
    assert error * Fraction(49, 100) < off <= error


@pytest.mark.parametrize("keepdim", [0, 1])
@pytest.mark.parametrize("dims", [(), (0,), (1, 2), (0, 2), (0, 1, 2)])
def test_sums_over_any_dimensions(dims: tuple[int, ...], keepdim: int) -> None:
    rng = np.random.default_rng(7)
    x = (
        (rng.standard_normal((5, 6, 7)) * 2.0 ** rng.integers(-130, 30, (5, 6, 7)))
        .astype(np.float32)
        .astype(np.float64)
    )
    attrs = {"dims": dims, "keepdim": keepdim}
    y = np.sum(x, axis=dims, keepdims=bool(keepdim))
    check_elements("sum", [x], attrs, y)
    assert np.array_equal(bounds.sum_bound(np.zeros((3, 0)), (1,)).error, np.zeros(3))


def check_elements(name: str, inputs: list[Any], attrs: dict[str, Any], y: np.ndarray) -> None:
    """The bound, against the exact value of each element and against the verifier's radius."""
    bound = bounds.bound_of(name, inputs, y, attrs)
    assert bound.error.shape == bound.width.shape == y.shape
    for index in np.ndindex(y.shape):
        terms = exact.terms_of(name, inputs, attrs, index)
        error = Fraction(float(bound.error[index]))
        assert abs(Fraction(float(y[index])) - exact.exact_value(terms)) <= error
        assert exact.radius(terms) <= error
        assert Fraction(float(bound.width[index])) >= 2 * error


CONVS = [
    {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2), "groups": 2},
    {"stride": (3, 2), "padding": (2, 1), "dilation": (2, 1), "groups": 1},
]


@pytest.mark.parametrize("attrs", CONVS)
@pytest.mark.parametrize("whole", [True, False])
def test_convolutions_and_their_gradients(attrs: dict[str, Any], whole: bool) -> None:
    """On small integers, where binary32 is exact, taps and index rules are those of the operator set's reference."""
    rng = np.random.default_rng(3)

    def draw(*shape: int) -> np.ndarray:
        if whole:
            return rng.integers(-4, 5, shape).astype(np.float64)
        return (
            (rng.standard_normal(shape) * 2.0 ** rng.integers(-60, 20, shape))
            .astype(np.float32)
            .astype(np.float64)
        )

    x, w = draw(2, 4, 7, 6), draw(6, 4 // attrs["groups"], 3, 2)
    y = taps.conv2d(x, w, attrs)
    dy = draw(*y.shape)
    dx = {**attrs, "input_hw": (7, 6)}
    dw = {**attrs, "kernel_hw": (3, 2)}
    cases = [
        ("conv2d", [x, w], attrs, y),
        ("conv2d_input_grad", [dy, w], dx, taps.conv2d_input_grad(dy, w, dx)),
        ("conv2d_weight_grad", [dy, x], dw, taps.conv2d_weight_grad(dy, x, dw)),
    ]
    for name, inputs, full, result in cases:
        if whole:
            (want,) = reference.execute(name, [v.astype(np.float32) for v in inputs], full)
            assert np.array_equal(result, want), name
            for index in np.ndindex(want.shape):
                assert exact.exact_value(exact.terms_of(name, inputs, full, index)) == Fraction(
                    float(want[index])
                )
        check_elements(name, inputs, full, result)
    cheap = bounds.conv2d_bound_cheap(x, w, attrs)
    assert (bounds.conv2d_bound(x, w, attrs).error <= cheap.error * (1 + 2.0**-40)).all()


def test_batched_products() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(np.float64) for s in ((2, 3, 9), (2, 9, 4)))
    check_elements("bmm", [a, b], {}, a @ b)
    check_elements("mm", [a[0], b[0]], {}, a[0] @ b[0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_operands_that_are_not_finite_stay_out_of_the_band() -> None:
    rng = np.random.default_rng(13)
    for length in (1, 40):
        a, b = adversarial(rng, 5, length, 6)
        a[0, 0], a[1, -1], b[0, 2] = np.inf, np.nan, -np.inf
        a[2, 0] = 0.0
        with np.errstate(invalid="ignore"):
            y = a @ b
        finite = np.isfinite(y)
        bound = bounds.bound_of("mm", [a, b], y, {})
        assert np.isfinite(bound.width[finite]).all()
        narrow, wide = band(y, 32, bound.width)
        assert not ((narrow | wide) & ~finite).any()
        rounded, log = write(y, 32, bound.width)
        assert np.array_equal(follow(y, 32, bound.width, log), rounded, equal_nan=True)
        assert finite.sum() == 15, "two rows and a column are lost"


def test_scattered_rows() -> None:
    rng = np.random.default_rng(6)
    base, src = (rng.standard_normal(s).astype(np.float32).astype(np.float64) for s in ((4, 3), (5, 8, 3)))
    idx = rng.integers(-1, 3, (5, 8))  # row 3 gets nothing, -1 is no row
    idx[0, 0] = 7
    y = base.copy()
    for p in reversed(range(40)):
        if 0 <= idx.flat[p] < 4:
            y[idx.flat[p]] += src.reshape(40, 3)[p]
    check_elements("scatter_add", [base, idx, src], {}, y)
    assert not bounds.scatter_add_bound(base, idx, src).error[3].any(), (
        "a row that nothing is added to is exact"
    )


LIBRARY: dict[str, tuple[Any, Any]] = {
    "exp": (np.exp, gmpy2.exp),
    "log": (np.log, gmpy2.log),
    "log1p": (np.log1p, gmpy2.log1p),
    "tanh": (np.tanh, gmpy2.tanh),
    "sin": (np.sin, gmpy2.sin),
    "cos": (np.cos, gmpy2.cos),
    "erf": (np.vectorize(math.erf), gmpy2.erf),
    "rsqrt": (lambda x: 1 / np.sqrt(x), gmpy2.rec_sqrt),
}


def check_library(name: str, count: int) -> None:
    rng = np.random.default_rng(8)
    x = (
        (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 9, count))
        .astype(np.float32)
        .astype(np.float64)
    )
    x = np.abs(x) if name in ("log", "log1p", "rsqrt") else x
    x = np.clip(x, -760, 700) if name == "exp" else x
    library, mpfr = LIBRARY[name]
    y = library(x)
    error = bounds.bound_of(name, [x], y, {}).error
    with gmpy2.context(precision=160):
        for a, b, e in zip(x.tolist(), y.tolist(), error.tolist(), strict=True):
            assert abs(mpfr(gmpy2.mpfr(a)) - b) <= e, (a, b)


@pytest.mark.parametrize("name", LIBRARY)
def test_the_libraries_of_this_machine_are_within_the_stated_ulps(name: str) -> None:
    check_library(name, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_a_million_values_of_the_libraries(name: str) -> None:
    check_library(name, 125_000)


def test_powers() -> None:
    rng = np.random.default_rng(9)
    a, b = (
        np.abs(rng.standard_normal(2000)).astype(np.float32),
        (rng.standard_normal(2000) * 40).astype(np.float32),
    )
    y = np.power(a.astype(np.float64), b.astype(np.float64))
    error = bounds.elementary(y).error
    with gmpy2.context(precision=160):
        for v, w, z, e in zip(a.tolist(), b.tolist(), y.tolist(), error.tolist(), strict=True):
            assert abs(gmpy2.mpfr(v) ** gmpy2.mpfr(w) - z) <= e


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_single_operations_have_an_error_and_no_freedom(name: str) -> None:
    rng = np.random.default_rng(10)
    a, b = (
        (rng.standard_normal(1000) * 2.0 ** rng.integers(-140, 100, 1000))
        .astype(np.float32)
        .astype(np.float64)
        for _ in "ab"
    )
    b = np.where(b == 0, 1.0, b)
    y = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name](a, b)
    bound = bounds.bound_of(name, [a, b], y, {})
    assert not bound.width.any()
    for v, w, z, e in zip(a.tolist(), b.tolist(), y.tolist(), bound.error.tolist(), strict=True):
        assert abs(exact.elementwise(name, v, w) - Fraction(z)) <= Fraction(e)


def test_roots() -> None:
    x = np.random.default_rng(11).random(1000).astype(np.float32).astype(np.float64)
    y = np.sqrt(x)
    for v, z, e in zip(
        x.tolist(), y.tolist(), bounds.bound_of("sqrt", [x], y, {}).error.tolist(), strict=True
    ):
        low, high = Fraction(z) - Fraction(e), Fraction(z) + Fraction(e)
        assert low**2 <= Fraction(v) <= high**2


def test_a_stated_tree_has_a_smaller_bound_that_holds() -> None:
    rng = np.random.default_rng(12)
    a, b = adversarial(rng, 30, 64, 30)
    *_, tree = orders(a, b, rng)
    bound = bounds.summation(np.abs(a) @ np.abs(b), 64, additions=6)
    value = integers(a, SHIFT // 2) @ integers(b, SHIFT // 2)
    assert (np.abs(integers(tree, SHIFT) - value) <= integers(bound.error, SHIFT)).all()
    assert (bound.error <= bounds.mm_bound(a, b).error / 10).all()


def test_the_probable_bound_is_smaller_and_says_how_often_it_fails() -> None:
    factor, failure = bounds.probable_gamma(4096, 8.0)
    assert 8 * 64 * U < factor < 8.001 * 64 * U
    assert 0 < failure < 1e-9
    assert bounds.probable_gamma(10**6, 1.0)[1] == 1.0
    with pytest.raises(InvalidInput):
        bounds.probable_gamma(0, 6.0)


def test_gamma_is_not_below_the_fraction_it_stands_for() -> None:
    for h in (0, 1, 2, 3, 1000, 2**20 + 1, bounds.MAX_TERMS - 1):
        g = h * Fraction(U) / (1 - h * Fraction(U)) / (1 - (h + 1) * Fraction(U))
        factor = Fraction(float(bounds.gamma(h, h + 1)))
        assert g <= factor <= g * (1 + Fraction(1, 2**19))
    with pytest.raises(InvalidInput, match="at most 2147483648"):
        bounds.gamma(1, 1 << 32)


def test_every_operator_with_an_f32_result_has_a_bound() -> None:
    without = {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_not",
        "argmax",
        "arange",
    }
    named = {*bounds.SINGLE, *bounds.CHOSEN, *bounds.ELEMENTARY}
    named |= {"sum", "mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad", "scatter_add"}
    assert named | without == {op.name for op in OPS}
    with pytest.raises(InvalidInput, match="no f32 result"):
        bounds.bound_of("eq", [np.zeros(1), np.zeros(1)], np.zeros(1), {})
