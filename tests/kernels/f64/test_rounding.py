"""Rounding to a grid: the kernels against exact arithmetic, on every instruction set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from repops.f64.rounding import F32, round_all, round_to_grid, single
from repops.host.library import BEST_ISA
from repops.opset import ShapeError

from referee_py.rounding.band import midpoint_distance
from referee_py.rounding.primitives import F64, quantum, rnd

BITS = (26, 29, 32)


def values(rng: np.random.Generator, shape: tuple[int, ...], b: int) -> list[F64]:
    """Return any bits; numbers of any size; some zeros; neighbours of midpoints; powers of two and their neighbours."""
    powers = 2.0 ** rng.integers(-152, 129, shape)
    beside = np.array([0, 2.0**-25, -(2.0**-26), 2.0**-40, -(2.0**-26) - 2.0**-40, -(2.0**-53)])
    grid = rnd(rng.normal(size=shape), b)
    some = rng.normal(size=shape)
    some[0, 0, :5], some[0, 1] = 0.0, -0.0
    return [
        rng.integers(0, 2**64, shape, dtype=np.uint64).view(np.float64),
        np.exp(rng.normal(0, 40, shape)) * rng.choice([-1.0, 1.0], shape),
        some,
        grid + quantum(grid, b) * (rng.choice([-0.5, 0.5], shape) + rng.normal(0, 1e-3, shape)),
        powers * (1 + rng.choice(beside, shape)),
    ]


def radii(rng: np.random.Generator, rows: tuple[int, ...], columns: tuple[int, ...]) -> list[tuple[F64, F64]]:
    sparse = rng.random(columns) * (rng.random(columns) < 0.5)
    return [
        (rng.random(rows) * 1e-8, rng.random(columns)),
        (2.0 ** rng.integers(-150, 100, rows), sparse),
        (np.exp(rng.normal(-20, 8, rows)), np.exp(rng.normal(-20, 8, columns))),
        (np.full(rows, math.inf), sparse),
    ]


@pytest.mark.parametrize("b", BITS)
@pytest.mark.parametrize(
    "shape", [(3, 37, 53), (1, 1, 5), (2, 3, 1), pytest.param((1, 64, 4099), marks=pytest.mark.slow)]
)
def test_what_is_near_a_midpoint_is_found(b: int, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(b)
    outer, m, n = shape
    found_any = False
    for x in values(rng, shape if m > 1 and n >= 5 else (3, 37, 53), b):
        sized = x[:outer, :m, :n] if x.shape != shape else x
        sized = np.ascontiguousarray(sized)
        for rows, columns in radii(rng, (sized.shape[0], sized.shape[1]), (sized.shape[0], sized.shape[2])):
            for widen_by in (1.0, 1.25):
                found_any |= _check(sized, rows, columns, b, widen_by)
    assert found_any


def _check(x: F64, rows: F64, columns: F64, b: int, widen_by: float) -> bool:
    with np.errstate(all="ignore"):
        radius = rows[..., None] * columns[..., None, :]
        near = np.isfinite(x) & (midpoint_distance(x, b) <= widen_by * radius) & (radius > 0)
        step = quantum(np.where(np.isfinite(x), x, 0.0), b)
    narrow = near & (radius < 0.125 * step)
    want = rnd(x, b).astype(np.float32) + np.float32(0)
    want[np.isnan(want)] = np.float32(np.nan)
    for isa in range(BEST_ISA + 1):
        found = round_to_grid(x, rows, columns, b, widen_by, isa=isa)
        assert np.array_equal(found.values.view(np.uint32), want.view(np.uint32))
        assert np.array_equal(found.narrow, np.flatnonzero(narrow))
        assert np.array_equal(found.wide, np.flatnonzero(near & ~narrow))
    return bool(near.any())


@pytest.mark.parametrize("b", BITS)
def test_all_of_an_array_keeps_the_signs_of_zeros(b: int) -> None:
    for x in values(np.random.default_rng(b), (3, 37, 53), b):
        want = rnd(x, b).astype(np.float32)
        want[np.isnan(want)] = np.float32(np.nan)
        assert np.array_equal(round_all(x, b).view(np.uint32), want.view(np.uint32))
    assert round_all(np.zeros((0, 3)), b).shape == (0, 3)


def test_more_positions_than_were_thought_of_are_all_found() -> None:
    x = np.full((2, 500, 40), 1 + 2.0**-24)
    found = round_to_grid(x, np.ones(1), np.full(1, 2.0**-60), 32, 1.0)
    assert np.array_equal(found.narrow, np.arange(x.size))


def test_bad_input_is_refused() -> None:
    x, one = np.zeros((2, 3)), np.ones(1)
    with pytest.raises(ValueError, match="33 bits"):
        round_to_grid(x, one, one, 33, 1.0)
    wrong: Any
    for wrong in (x.T, x.astype(np.float32), x[0]):
        with pytest.raises(ShapeError):
            round_to_grid(wrong, one, one, 32, 1.0)
    with pytest.raises(ShapeError):
        round_to_grid(x, one, one, 32, 1.0, np.zeros((3, 2), np.float32))


SHAPES = [
    ((4, 5), (4, 5)),
    ((4, 5), ()),
    ((), (4, 5)),
    ((4, 5), (5,)),
    ((4, 1), (1, 5)),
    ((2, 3, 4, 5), (1, 3, 1, 1)),
    ((2, 1, 4), (3, 1)),
    ((1,), (1,)),
    ((0, 3), (3,)),
    ((2, 3, 4), (2, 1, 4)),
    ((3000,), (3000,)),
]


@pytest.mark.parametrize("b", BITS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "sqrt"])
def test_single_operations_are_those_of_binary64_rounded(name: str, b: int) -> None:
    rng = np.random.default_rng(b)
    for shapes in SHAPES:
        for spread in (1.0, 30.0, 0.0):
            operands = [_any_f32(rng, shape, spread) for shape in (shapes[:1] if name == "sqrt" else shapes)]
            want = _in_binary64(name, operands, b)
            assert np.array_equal(single(name, operands, b).view(np.uint32), want)
            out = np.empty(want.shape, np.float32)
            assert single(name, operands, b, out) is out
            assert np.array_equal(out.view(np.uint32), want)


@np.errstate(over="ignore")
def _any_f32(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> F32:
    if not spread:
        return rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)
    found = np.exp(rng.normal(0, spread, shape)) * rng.choice(
        [-1.0, 1.0, 0.0, -0.0], shape, p=[0.45, 0.45, 0.05, 0.05]
    )
    return np.asarray(found, np.float32)


@np.errstate(all="ignore")
def _in_binary64(name: str, operands: list[F32], b: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    wide = [v.astype(np.float64) for v in operands]
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[
        name
    ]
    found = np.asarray(rnd(np.asarray(function(*wide)), b)).astype(np.float32)
    return np.where(np.isnan(found), np.float32(np.nan), found).view(np.uint32)


def test_other_single_operations_are_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    for name, operands in (("exp", [x]), ("add", [x]), ("sqrt", [x, x])):
        with pytest.raises(ValueError, match="operands"):
            single(name, operands, 32)
    with pytest.raises(ShapeError):
        single("sqrt", [x.T], 32)
    out: Any
    for out in (np.zeros((3, 2), np.float32), np.zeros((2, 3)), np.zeros((3, 2), np.float32).T):
        with pytest.raises(ShapeError, match="out"):
            single("sqrt", [x], 32, out)
