"""Convolutions with binary64 results, and their bounds, against the readable ones of referee_py/rounding/taps.py."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from repops.f64.conv import Bounded, conv
from repops.f64.sums import F32, F64, Workspace
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import AttrError, DtypeError, ShapeError, window_positions

from referee_py.rounding import Bounds, evaluate, taps

U = 2.0**-53
OPERATORS = {
    "conv2d": taps.conv2d,
    "conv2d_input_grad": taps.conv2d_input_grad,
    "conv2d_weight_grad": taps.conv2d_weight_grad,
}


@pytest.fixture(params=[(isa, threads) for isa in range(BEST_ISA + 1) for threads in (1, 3)], autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select every instruction set of this machine, with one thread and several."""
    isa, threads = request.param
    monkeypatch.setattr(cpu, "_isa", isa)
    monkeypatch.setattr(cpu, "_threads", threads)
    return ISA_NAMES[isa]


def window(
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


# Images, channels and filters of a group, input, kernel.
SIZES = [
    ((2, 3, 5, 7, 6, 3, 2), window()),
    ((2, 3, 5, 7, 6, 3, 2), window(padding=(2, 1))),
    ((2, 2, 3, 9, 8, 3, 2), window((2, 1), (0, 2), (1, 2), 2)),
    ((1, 2, 3, 8, 11, 3, 3), window((3, 2), (2, 1), (2, 1), 3)),
    ((2, 3, 13, 8, 8, 3, 3), window(padding=(1, 1))),  # rows of half a panel
    ((6, 2, 9, 4, 4, 3, 3), window(padding=(1, 1))),  # several images per panel
    ((1, 2, 12, 5, 37, 3, 3), window(padding=(1, 1))),
    ((3, 2, 7, 6, 6, 1, 1), window()),
    ((3, 2, 7, 7, 7, 1, 1), window((2, 2))),  # a step wider than the kernel
    ((1, 2, 3, 9, 9, 2, 2), window((4, 5), (1, 0))),
    ((1, 70, 30, 4, 5, 3, 3), window(padding=(1, 1))),  # more than one chunk of taps
    ((2, 1, 1, 1, 1, 1, 1), window()),
    ((1, 1, 2, 1, 500, 1, 3), window((1, 240), (0, 0), (1, 5))),  # few places of a long row are read
    ((1, 1, 2, 600, 1, 3, 1), window((280, 1), (0, 0), (7, 1))),
    ((2, 0, 3, 4, 4, 2, 2), window()),
    ((0, 2, 3, 4, 4, 2, 2), window()),
    ((2, 2, 0, 4, 4, 2, 2), window()),
    ((2, 2, 3, 0, 4, 1, 1), window(padding=(1, 0))),
]


def shapes(size: tuple[int, ...], attrs: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of x, w and dy."""
    images, channels, filters, h, w, r, s = size
    groups = attrs["groups"]
    plane = window_positions((h, w), (r, s), attrs)
    return (
        (images, groups * channels, h, w),
        (groups * filters, channels, r, s),
        (images, groups * filters, *plane),
    )


def calls(
    draw: Any, size: tuple[int, ...], attrs: dict[str, Any]
) -> Iterator[tuple[str, F32, F32, dict[str, Any]]]:
    x, w, dy = (draw(shape).astype(np.float32) for shape in shapes(size, attrs))
    yield "conv2d", x, w, attrs
    yield "conv2d_input_grad", dy, w, {**attrs, "input_hw": x.shape[2:]}
    yield "conv2d_weight_grad", dy, x, {**attrs, "kernel_hw": w.shape[2:]}


def readable(name: str, a: F64, b: F64, attrs: dict[str, Any]) -> F64:
    return OPERATORS[name](a, b, attrs)


def terms(name: str, a: F32, b: F32, attrs: dict[str, Any]) -> int:
    match name:
        case "conv2d":
            return math.prod(b.shape[1:])
        case "conv2d_input_grad":
            return b.shape[0] // attrs["groups"] * math.prod(b.shape[2:])
    return a.shape[0] * math.prod(a.shape[2:])


def right_squared(name: str, a: F64, b: F64, attrs: dict[str, Any]) -> F64:
    """Return the sum of squares of what each element meets: the operator itself, with ones as the other operand."""
    groups = attrs["groups"]
    match name:
        case "conv2d":
            met = readable(name, a * a, np.ones((groups, *b.shape[1:])), attrs)
            return np.repeat(met, b.shape[0] // groups, axis=1)
        case "conv2d_input_grad":
            met = readable(name, a * a, np.ones((b.shape[0], 1, *b.shape[2:])), attrs)
            return np.repeat(met, b.shape[1], axis=1)
    return readable(name, np.ones(a.shape), b * b, attrs)


def left_squared(name: str, a: F64, b: F64, attrs: dict[str, Any]) -> F64:
    """Return the sums of squares of each filter; of what meets each channel; of each filter's gradients."""
    groups = attrs["groups"]
    match name:
        case "conv2d":
            return (b * b).sum((1, 2, 3)).reshape(-1, 1, 1)
        case "conv2d_input_grad":
            of_groups = (b * b).reshape(groups, b.shape[0] // groups, *b.shape[1:])
            return of_groups.sum((1, 3, 4)).reshape(-1, 1, 1)
    return (a * a).sum((0, 2, 3)).reshape(-1, 1, 1, 1)


@pytest.mark.parametrize(("size", "attrs"), SIZES)
def test_where_no_order_matters_results_and_norms_are_exact(
    size: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    rng = np.random.default_rng(sum(size))
    for name, a, b, each in calls(lambda shape: rng.integers(-9, 10, shape), size, attrs):
        found = conv(name, a, b, each, Workspace())
        wide = a.astype(np.float64), b.astype(np.float64)
        assert np.array_equal(found.x, readable(name, *wide, each)), name
        assert found.terms == terms(name, a, b, each)
        assert np.array_equal(found.left, np.sqrt(left_squared(name, *wide, each))), name
        right = np.sqrt(right_squared(name, *wide, each))
        assert np.array_equal(np.broadcast_to(found.right, found.x.shape), right), name


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape)


def _any_size(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return numbers from subnormals to the largest, and zeros of both signs."""
    sizes = 2.0 ** rng.integers(-149, 127, shape) * rng.uniform(1, 2, shape)
    return sizes * rng.choice([-1.0, 1.0, 0.0, -0.0], shape)


def _subnormal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(-9, 10, shape) * 2.0**-149


def _largest(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.choice([-1.0, 1.0], shape) * float(np.finfo(np.float32).max)


@pytest.mark.parametrize("draw", [_normal, _any_size, _subnormal, _largest])
@pytest.mark.parametrize(("size", "attrs"), SIZES[:12])
def test_results_are_sums_in_some_order_within_their_bounds(
    draw: Any, size: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    rng = np.random.default_rng(sum(size))
    for name, a, b, each in calls(lambda shape: draw(rng, shape), size, attrs):
        found = conv(name, a, b, each, Workspace())
        wide = a.astype(np.float64), b.astype(np.float64)
        magnitude = readable(name, np.abs(wide[0]), np.abs(wide[1]), each)
        apart = np.abs(found.x - readable(name, *wide, each))
        # Both are sums of the same terms, and so is the magnitude.
        assert (apart <= 2.001 * found.terms * U * magnitude).all(), name
        assert (
            found.left * found.right * (1 + (found.terms + 9) * U) >= magnitude * (1 - found.terms * U)
        ).all()
        squares = left_squared(name, *wide, each) * right_squared(name, *wide, each)
        assert np.allclose(
            np.broadcast_to(found.left * found.right, squares.shape) ** 2, squares, rtol=1e-12, atol=0
        )


@pytest.mark.parametrize(("size", "attrs"), SIZES[:9])
def test_what_is_not_finite_comes_through(size: tuple[int, ...], attrs: dict[str, Any]) -> None:
    """Infinities and NaN reach exactly what meets them, except those among the weights, which `left` reports."""
    rng = np.random.default_rng(sum(size))
    odd = np.array([np.inf, -np.inf, np.nan])
    for name, first, second, each in calls(lambda shape: rng.integers(1, 9, shape), size, attrs):
        a, b = first.copy(), second.copy()
        image, weights = (a, b) if name != "conv2d_weight_grad" else (b, a)
        image.reshape(-1)[rng.integers(0, image.size, 3)] = rng.choice(odd, 3)
        found = conv(name, a, b, each, Workspace())
        assert np.array_equal(found.x, evaluate(name, [a, b], each, Bounds.PROVEN).x, equal_nan=True), name
        assert np.isfinite(np.broadcast_to(found.right, found.x.shape)[np.isfinite(found.x)]).all()
        weights.reshape(-1)[rng.integers(0, weights.size)] = rng.choice(odd)
        found = conv(name, a, b, each, Workspace())
        assert not np.isfinite(found.left).all(), name


def test_taps_that_are_far_away_cost_and_add_nothing() -> None:
    far = 1 << 20
    attrs = window(padding=(far, far), dilation=(far, far))
    rng = np.random.default_rng(1)
    for name, a, b, each in calls(lambda shape: rng.integers(-9, 10, shape), (1, 2, 2, 3, 4, 3, 3), attrs):
        found, wide = conv(name, a, b, each, Workspace()), (a.astype(np.float64), b.astype(np.float64))
        assert np.array_equal(found.x, readable(name, *wide, each))
        assert found.x.any()
        assert np.array_equal(
            np.broadcast_to(found.right, found.x.shape) ** 2 > 0, right_squared(name, *wide, each) > 0
        )


def test_memory_that_was_used_before_is_of_no_consequence() -> None:
    space = Workspace()
    rng = np.random.default_rng(2)

    def all_of() -> list[Bounded]:
        return [conv(*call, space) for call in given]

    given = list(calls(lambda shape: rng.integers(-9, 10, shape), *SIZES[3]))
    first = [[np.copy(part) for part in each] for each in all_of()]
    for _ in range(3):
        space.begin()
        space.array((10_000,)).fill(np.nan)
        space.begin()
        for before, each in zip(first, all_of(), strict=True):
            parts: tuple[Any, ...] = each
            assert all(np.array_equal(a, b) for a, b in zip(before, parts, strict=True))


def test_bad_input_is_refused_by_its_name() -> None:
    space, attrs = Workspace(), window()
    x, w = np.zeros((1, 2, 4, 4), np.float32), np.zeros((3, 2, 2, 2), np.float32)
    with pytest.raises(DtypeError, match="w"):
        conv("conv2d", x, w.astype(np.float64), attrs, space)
    with pytest.raises(ShapeError, match="conv2d"):
        conv("conv2d", x, w[:, :1].copy(), attrs, space)
    with pytest.raises(AttrError, match="stride"):
        conv("conv2d", x, w, {**attrs, "stride": (0, 1)}, space)
    with pytest.raises(ShapeError, match="dy"):
        conv("conv2d_input_grad", x, w, {**attrs, "input_hw": (4, 4)}, space)
