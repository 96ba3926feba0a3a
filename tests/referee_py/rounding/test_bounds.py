"""Evaluations and their radii against exact arithmetic: every operator, several orders, adversarial operands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from repops import reference
from repops.opset import OPS, Arithmetic
from repops.random_calls import Call, random_call

from referee_py.errors import InvalidInput
from referee_py.rounding import Bounds, Rounding, arithmetic, evaluate, truth
from referee_py.rounding.bounds import MAX_TERMS, U, factor, gamma
from referee_py.rounding.evaluate import CONTRACTIONS, ELEMENTARY, has_log
from referee_py.rounding.summands import summands_of

from . import exact
from .operators import (
    PLAIN,
    Case,
    all_terms,
    ambiguous,
    cancelling,
    convolutions,
    elementary,
    evaluations,
    of_terms,
    special,
)

SHIFT = 298  # every product of two binary32 values is a multiple of 2^-298


def integers(x: np.ndarray, shift: int) -> np.ndarray:
    """Return floor(x * 2^shift) of every element, as Python integers (a Kulisch accumulator's contents)."""
    mantissa, exponent = np.frexp(x)
    places = exponent.ravel() - 53 + shift
    whole = (mantissa * 2.0**53).ravel().astype(np.int64)
    out = np.empty(x.size, dtype=object)
    out[:] = [m << p if p >= 0 else m >> -p for m, p in zip(whole.tolist(), places.tolist(), strict=True)]
    return out.reshape(x.shape)


def check_sums(case: Case, rng: np.random.Generator, bounds: Bounds) -> int:
    """Check |y - exact| <= canonical radius <= radius for every evaluation; return the number of elements."""
    several = list(evaluations(case, bounds, rng))
    shape, size = several[0].x.shape, several[0].x.size
    terms = integers(all_terms(case, size), SHIFT)
    value, magnitude = (
        v.sum(axis=1) if terms.shape[1] else np.zeros(size, int) for v in (terms, np.abs(terms))
    )
    counts = summands_of(case.name, case.inputs, case.attrs, np.arange(size)).counts
    ratios = [gamma(int(n), bounds) for n in counts]
    numerators, denominators = (np.array(part, dtype=object) for part in zip(*ratios, strict=True))
    limit = several[0].radius.array(shape).reshape(-1)
    assert (integers(limit, SHIFT + 60) * denominators >= (magnitude * numerators << 60)).all(), case
    for evaluation in several:
        off = np.abs(integers(evaluation.x.reshape(-1), SHIFT) - value)
        assert (off * denominators <= magnitude * numerators).all(), case
    return size


def cases(rng: np.random.Generator, elements: int, n: int) -> Iterator[Case]:
    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 2.0 ** rng.integers(-60, 20, shape)).astype(np.float32)

    yield from of_terms(ambiguous(rng, elements, n, 32))
    yield from of_terms(cancelling(rng, elements, n))
    yield from convolutions(draw)
    yield Case("scatter_add", [draw(4, 3), rng.integers(-1, 3, (5, 8)), draw(5, 8, 3)], {})
    yield Case("bmm", [draw(2, 3, 9), draw(2, 9, 4)], {})


@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("n", [2, 16, 300])
def test_every_order_is_within_the_canonical_radius(bounds: Bounds, n: int) -> None:
    rng = np.random.default_rng(n)
    assert sum(check_sums(case, rng, bounds) for case in cases(rng, 20, n)) > 1000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_elements_in_any_order() -> None:
    rng, count = np.random.default_rng(1), 0
    while count < 10**6:
        count += sum(check_sums(case, rng, Bounds.PROVEN) for case in cases(rng, 1500, 8))
        count += sum(check_sums(case, rng, Bounds.PROBABLE) for case in cases(rng, 400, 60))


def test_the_radius_is_not_loose_by_more_than_its_worst_case_allows() -> None:
    """Every addition of a chain that begins with 1 loses all of the next term, which reaches half of gamma."""
    n = 4096
    x = np.full((1, n), 2.0**-54, dtype=np.float32)
    x[0, 0] = 1.0
    y = 0.0
    for v in x[0].tolist():
        y += v
    off = abs(Fraction(y) - sum(map(Fraction, x[0].tolist())))
    canonical = exact.radius([(v, 1.0) for v in x[0].tolist()], Bounds.PROVEN)
    assert canonical * Fraction(49, 100) < off <= canonical
    assert off > exact.radius([(v, 1.0) for v in x[0].tolist()], Bounds.PROBABLE), (
        "it is probable, not proven"
    )


def test_gamma_is_not_below_the_fraction_it_stands_for() -> None:
    for n in (0, 1, 2, 3, 4, 5, 1000, 2**20 + 1, 2**30 - 1, MAX_TERMS):
        for bounds in Bounds:
            exactly, slack = Fraction(*gamma(n, bounds)), (1 - (n + 8) * Fraction(U)) * (1 - n * Fraction(U))
            got = Fraction(float(factor(n, bounds)))
            assert exactly / slack <= got <= exactly * (1 + Fraction(1, 2**19))
    assert gamma(4096, Bounds.PROVEN) == (4095, 2**53 - 4095)
    assert gamma(4097, Bounds.PROBABLE) == (6 * 65, 2**53)
    assert gamma(1, Bounds.PROBABLE)[0] == 0, "nothing is added"
    for bounds in Bounds:
        with pytest.raises(InvalidInput, match="at most 2147483648"):
            gamma(MAX_TERMS + 1, bounds)
        with pytest.raises(InvalidInput, match="at most 2147483648"):
            factor(MAX_TERMS + 1, bounds)


LIBRARY = {
    name: getattr(gmpy2, "rec_sqrt" if name == "rsqrt" else name) for name in ELEMENTARY if name != "pow"
}
LIBRARY["pow"] = lambda a, b: a**b


def check_library(count: int, seed: int) -> int:
    """Check that this machine's library is within the canonical radius, and that radius within the float64 one."""
    done = 0
    for case in elementary(np.random.default_rng(seed), count):
        evaluation = case.evaluation(Bounds.PROVEN)
        arguments = [v.reshape(-1).tolist() for v in np.broadcast_arrays(*case.inputs)]
        y, limit = evaluation.x.reshape(-1), evaluation.radius.array(evaluation.x.shape).reshape(-1)
        with gmpy2.context(precision=200):
            for a, z, r in zip(zip(*arguments, strict=True), y.tolist(), limit.tolist(), strict=True):
                want = LIBRARY[case.name](*map(gmpy2.mpfr, a))
                if math.isfinite(z) and gmpy2.is_finite(want) and all(map(math.isfinite, a)):
                    canonical = abs(want) * gmpy2.mpfr(2) ** -50 + gmpy2.mpfr(2) ** -1022
                    assert abs(want - z) <= canonical <= r, (case.name, a)
                    done += 1
                else:
                    ends = abs(want) > 2.0**1023 or not gmpy2.is_finite(want)
                    assert ends or not all(map(math.isfinite, a)), (case.name, a)
    return done


def test_the_library_of_this_machine_is_within_the_stated_ulps() -> None:
    assert check_library(500, 1) > 5000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_values_of_the_library() -> None:
    assert sum(check_library(25_000, seed) for seed in range(2, 5)) >= 10**6


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_operands_that_are_not_finite_expect_what_ieee_gives() -> None:
    """For every operator that adds; an absent tap meets nothing, so an infinite weight gives no NaN there."""
    rng = np.random.default_rng(13)

    def draw(*shape: int) -> np.ndarray:
        v = special(rng, 1, math.prod(shape)).reshape(shape)
        return np.where(
            np.isfinite(v) & (np.abs(v) > 1e6), np.float32(1.0), v
        )  # binary32 does not overflow either

    seen = {"finite": 0, "inf": 0, "nan": 0}
    for _ in range(4):
        for case in (*convolutions(draw), *of_terms(draw(9, 6)), Case("mm", [draw(9, 3), draw(3, 9)], {})):
            (want,) = reference.execute(case.name, [v.copy() for v in case.inputs], case.attrs)
            evaluation = case.evaluation(Bounds.PROVEN)
            assert not any(np.isnan(f).any() for f in evaluation.radius.factors)
            finite = np.isfinite(want)
            assert np.array_equal(np.isfinite(evaluation.x), finite), case
            assert np.array_equal(evaluation.x[~finite], want[~finite], equal_nan=True), case
            seen["finite"] += int(finite.sum())
            seen["nan"] += int(np.isnan(want).sum())
            seen["inf"] += int(np.isinf(want).sum())
    assert min(seen.values()) > 50, seen


def test_an_infinite_weight_is_not_met_in_the_padding() -> None:
    """The corner of the output meets only the taps from (1, 1) on; (0, 0) is infinite."""
    x, w = np.ones((1, 1, 3, 3), dtype=np.float32), np.ones((1, 1, 3, 3), dtype=np.float32)
    w[0, 0, 0, 0] = np.inf
    attrs = {**PLAIN, "padding": (1, 1)}
    y = evaluate("conv2d", [x, w], attrs, Bounds.PROVEN).x[0, 0]
    assert y.tolist() == [[4, 6, 4], [6, np.inf, np.inf], [4, np.inf, np.inf]]
    (judged,) = truth("conv2d", [x, w], attrs, None, Rounding())
    assert np.array_equal(judged[0, 0], y)


def _with_elements(name: str) -> Call:
    """Return a call that has a result, and a first input of f32 if the operator takes one."""
    calls = [random_call(name, f"kind/{number}", "tiny") for number in range(60)]
    return next(
        (inputs, attrs)
        for inputs, attrs in calls
        if all(output.size for output in reference.execute(name, inputs, attrs))
        and (not inputs or inputs[0].dtype == np.float32 or name.startswith(("logical", "where", "philox")))
    )


def test_every_operator_has_a_kind() -> None:
    """An operator has a log if its order is free, or if it is an elementary function below 32 bits."""
    f, i = np.zeros(1, dtype=np.float32), np.zeros(1, dtype=np.int64)
    single = {"add", "sub", "mul", "div", "sqrt"}
    sums = {*CONTRACTIONS, "sum", "scatter_add"}
    for op in OPS:
        want = (
            Arithmetic.SUM
            if op.name in sums
            else Arithmetic.ELEMENTARY
            if op.name in ELEMENTARY
            else Arithmetic.SINGLE
            if op.name in single
            else Arithmetic.MOVED
        )
        assert arithmetic(op.name, [f, f, f], {"dtype": 2}) == want, op.name
        inputs, attrs = _with_elements(op.name)
        assert has_log(op.name, inputs, attrs, 32) == (want == Arithmetic.SUM)
        assert has_log(op.name, inputs, attrs, 31) == (want in (Arithmetic.SUM, Arithmetic.ELEMENTARY))
    assert arithmetic("sum", [i], {}) == arithmetic("add", [i, i], {}) == Arithmetic.MOVED
    assert arithmetic("cast", [i], {"dtype": 1}) == Arithmetic.SINGLE
    assert arithmetic("cast", [f], {"dtype": 1}) == Arithmetic.MOVED
    assert arithmetic("full", [], {}) == Arithmetic.MOVED
    for name, inputs in (("add", [f, f]), ("mm", [f, f, f])):
        with pytest.raises(InvalidInput, match="has no log"):
            evaluate(name, inputs, {}, Bounds.PROVEN)
    with pytest.raises(InvalidInput, match="start from float32"):
        evaluate("sum", [np.zeros(3)], {"dims": (0,), "keepdim": 0}, Bounds.PROVEN)
