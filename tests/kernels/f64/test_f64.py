"""Operands converted to binary64, and sums with error bounds, against exact sums on every instruction set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from repops.f64.sums import F32, I64, Scattered, Workspace, f64_scatter, f64_squares, f64_sum, to_f64
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.opset import ShapeError

U = 2.0**-53


@pytest.fixture(params=[(isa, threads) for isa in range(BEST_ISA + 1) for threads in (1, 3)], autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select every instruction set of this machine, with one thread and several."""
    isa, threads = request.param
    monkeypatch.setattr(cpu, "_isa", isa)
    monkeypatch.setattr(cpu, "_threads", threads)


def any_size(rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
    """Return numbers from subnormals to the largest, and zeros of both signs."""
    sizes = 2.0 ** rng.integers(-149, 127, shape) * rng.uniform(1, 2, shape)
    return (sizes * rng.choice([-1.0, 1.0, 0.0, -0.0], shape)).astype(np.float32)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (3, 0), (0, 3), (2, 33, 17), (2, 3, 64, 40)])
def test_operands_are_widened_where_they_lie(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x = np.exp(rng.normal(0, 20, shape)).astype(np.float32)
    larger = np.zeros([2 * size for size in shape], np.float32)
    lying = larger[tuple(slice(None, size) for size in shape)]
    lying[...] = x
    space = Workspace()
    for _ in range(2):
        space.begin()
        for operand in (x, lying):
            found = to_f64(operand, space)
            assert np.array_equal(found.values, x)
            exact = x.astype(np.float64)
            assert np.allclose(found.rows, np.sqrt((exact * exact).sum(-1)), rtol=1e-12, atol=0)
            assert np.allclose(found.columns, np.sqrt((exact * exact).sum(-2)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("shape", [(4, 9, 1), (4, 9, 5), (1, 1, 1), (3, 0, 2), (0, 3, 2), (2, 1000, 33)])
def test_sums_are_within_their_bound(shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(3).normal(0, 1e10, shape).astype(np.float32)
    total, magnitude = f64_sum(x)
    for o in range(shape[0]):
        for i in range(shape[2]):
            terms = [float(v) for v in x[o, :, i]]
            size = math.fsum(map(abs, terms))
            assert abs(total[o, i] - math.fsum(terms)) <= shape[1] * 2.0**-53 * size
            assert abs(magnitude[o, i] - size) <= shape[1] * 2.0**-53 * size


SUMMED = [
    (4, 9, 1),
    (4, 9, 5),
    (1, 1, 1),
    (3, 0, 2),
    (3, 0, 1),
    (0, 3, 2),
    (2, 3, 0),
    (2, 40, 1100),
    (1, 7, 512),
]


@pytest.mark.parametrize("shape", SUMMED)
def test_squares_are_within_their_bound(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(4)
    for x in (any_size(rng, shape), (rng.integers(-9, 10, shape) * 2.0**-149).astype(np.float32)):
        found = f64_squares(x, Workspace())
        assert found.shape == (shape[0], shape[2])
        for o, i in np.ndindex(found.shape):
            exact = math.fsum(float(v) * float(v) for v in x[o, :, i])
            assert abs(found[o, i] - exact) <= shape[1] * U * exact


def test_squares_of_what_is_not_finite() -> None:
    x = np.ones((1, 9, 3), np.float32)
    x[0, 3, 1], x[0, 4, 2] = -np.inf, np.nan
    for shape, want in (((1, 9, 3), [9, np.inf, np.nan]), ((1, 27, 1), [np.nan])):
        found = f64_squares(x.reshape(shape), Workspace())
        assert np.array_equal(found[0], want, equal_nan=True)


def scattered(base: F32, index: I64, source: F32) -> Scattered:
    """Compute the same readably."""
    rows = source.reshape(index.size, *base.shape[1:])
    sums, magnitudes = base.astype(np.float64), np.abs(base.astype(np.float64))
    added = np.zeros(base.shape[0], np.int64)
    for at, row in zip(index.reshape(-1), rows, strict=True):
        if 0 <= at < base.shape[0]:
            sums[at] += row
            magnitudes[at] += np.abs(row.astype(np.float64))
            added[at] += 1
    met = np.flatnonzero(added)
    return Scattered(met, added[met], sums[met], magnitudes[met])


def _scatter(base: F32, index: I64, source: F32) -> Scattered:
    space = Workspace()
    for _ in range(2):  # in new memory, and in reused memory
        space.begin()
        space.array((base.size + source.size + 1000,)).fill(np.nan)
        space.begin()
        found = f64_scatter(base, index, source, space)
    return found


ROWS = [(1,), (64,), (65,), (200,), (200, 1), (30, 17), (3, 2, 5), (40, 0), (0,), (0, 4), (5000,), (70, 33)]


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("count", [(0,), (1,), (50,), (7, 9), (3000,)])
def test_rows_that_are_met_are_added_up(shape: tuple[int, ...], count: tuple[int, ...]) -> None:
    """Rows are added in the order of the indices; indices outside the base are skipped."""
    rng = np.random.default_rng(5)
    index = rng.integers(-3, shape[0] + 3, count)
    index.reshape(-1)[:3] = [2**62, -(2**63), 2**63 - 1][: index.size]
    base, source = any_size(rng, shape), any_size(rng, (*count, *shape[1:]))
    with np.errstate(invalid="ignore"):
        want, found = scattered(base, index, source), _scatter(base, index, source)
    for mine, other in zip(found, want, strict=True):
        assert np.array_equal(mine, other)


def test_what_is_not_finite_is_added_up_too() -> None:
    base = np.array([1, np.inf, -np.inf, np.nan, -0.0, 5], np.float32)
    index, source = np.array([0, 1, 2, 3, 4, 1]), np.array([-np.inf, 1, np.inf, 2, -0.0, -np.inf], np.float32)
    found = _scatter(base, index, source)
    assert np.array_equal(found.rows, np.arange(5))
    assert np.array_equal(found.sums, [-np.inf, np.nan, np.nan, np.nan, -0.0], equal_nan=True)
    assert np.array_equal(found.magnitudes, [np.inf, np.inf, np.inf, np.nan, 0], equal_nan=True)


def test_bad_input_is_refused_by_its_name() -> None:
    x, space = np.zeros((3, 4), np.float32), Workspace()
    with pytest.raises(ShapeError, match="to_f64: x"):
        to_f64(x.T, space)
    with pytest.raises(ShapeError, match="f64_sum: x"):
        f64_sum(x)
    wrong: Any
    for wrong in (x, np.zeros((3, 4, 5)), np.zeros((3, 4, 5), np.float32).T):
        with pytest.raises(ShapeError, match="f64_squares: x"):
            f64_squares(wrong, space)
    index, source = np.zeros(2, np.int64), np.zeros((2, 4), np.float32)
    base: Any
    at: Any
    for base, at, rows, name in (
        (x.astype(np.float64), index, source, "base"),
        (np.zeros((4, 3), np.float32).T, index, source, "base"),
        (x, index.astype(np.int32), source, "index"),
        (x, np.zeros(4, np.int64)[::2], source, "index"),
        (x, index, np.zeros((4, 2), np.float32).T, "source"),
        (x, index, np.zeros((3, 4), np.float32), "source"),
        (np.zeros((), np.float32), index, np.zeros(2, np.float32), "base"),
    ):
        with pytest.raises(ShapeError, match=f"f64_scatter: {name}"):
            f64_scatter(base, at, rows, space)
