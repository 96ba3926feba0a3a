"""Operators whose results are hardest to round, and several evaluations of each.

An ambiguous sum has a large term, half of its quantum, and crumbs of about 2^-53 of it, so its exact value lies about
a radius from a midpoint. An evaluation ends on one side if the crumbs are added to each other first, and on the other
side if they are added one by one to the large term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from repops.opset import BF16, Arithmetic
from repops.tensors import NUMPY_DTYPE

from referee_py.rounding import Bounds, Evaluation, Log, Rounding, arithmetic, evaluate
from referee_py.rounding.summands import summands_of

from . import exact

CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


@dataclass(frozen=True)
class Case:
    name: str
    inputs: list[np.ndarray]
    attrs: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name} {[v.shape for v in self.inputs]}"

    def evaluation(self, bounds: Bounds) -> Evaluation:
        return evaluate(self.name, self.inputs, self.attrs, bounds)


def ambiguous(rng: np.random.Generator, elements: int, n: int, b: int) -> np.ndarray:
    """Return float32 [elements, n]: terms of sums 0 to 30 radii from midpoints of grid(b), some near a power of two."""
    large = rng.integers(2 ** (b - 9), 2 ** (b - 8), elements).astype(np.float64)
    half = rng.choice([0.5, -0.5], elements)
    power = rng.random(elements) < 0.2
    large, half = np.where(power, 2.0 ** (b - 9), large), np.where(power, -0.25, half)
    reach = rng.choice([0.0, 0.1, 0.2, 0.3, 0.4, 1.0, 30.0], elements)[:, None] * 2.0**-53 * large[:, None]
    crumbs = rng.uniform(-1, 1, (elements, n - 2)) * reach
    crumbs = np.where(rng.random((elements, 1)) < 0.75, np.abs(crumbs), crumbs)
    terms = np.concatenate([large[:, None], half[:, None], crumbs], axis=1)
    signs = rng.choice([-1.0, 1.0], (elements, 1))
    return (terms * signs * 2.0 ** rng.integers(-60, 60, (elements, 1))).astype(np.float32)


def cancelling(rng: np.random.Generator, elements: int, n: int) -> np.ndarray:
    """Return float32 [elements, n]: sums that cancel to crumbs or zero, of wide exponents, or of subnormals."""
    v = rng.standard_normal((elements, n)) * 2.0 ** rng.integers(-20, 20, (elements, n))
    v[:, n // 2 : 2 * (n // 2)] = -v[:, : n // 2] * (1 + rng.choice([0, 0, 2.0**-22], (elements, 1)))
    kinds = rng.integers(0, 4, elements)[:, None]
    v = np.where(kinds == 1, v * 2.0 ** rng.integers(-120, 80, v.shape), v)
    v = np.where(kinds == 2, v * 2.0 ** rng.integers(-149, -120, v.shape), v)
    return v.astype(np.float32)


def midpoints(rng: np.random.Generator, elements: int, n: int, b: int) -> np.ndarray:
    """Return float32 [elements, n]: sums that are midpoints of grid(b). Most are exact in every order; some have a
    crumb, added and subtracted, that makes the range of terms too wide to know that."""
    large = rng.integers(2 ** (b - 9), 2 ** (b - 8), elements).astype(np.float64)
    crumb = 2.0 ** (b - 38 + rng.integers(-2, 3, elements)) * rng.integers(0, 2, elements)
    t = np.stack([large, rng.choice([0.5, -0.5], elements), crumb, -crumb, *np.zeros((n - 4, elements))], 1)
    return (t * 2.0 ** rng.integers(-60, 60, (elements, 1))).astype(np.float32)


def special(rng: np.random.Generator, elements: int, n: int) -> np.ndarray:
    """Return float32 [elements, n]: infinities, NaN, zeros of both signs, the largest and ordinary numbers."""
    v = rng.standard_normal((elements, n)).astype(np.float32)
    odd = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 3.4028235e38, -3.4028235e38, 1e-45], dtype=np.float32)
    return np.where(rng.random(v.shape) < 0.15, rng.choice(odd, v.shape), v)


def of_terms(t: np.ndarray) -> Iterator[Case]:
    """Yield every operator that adds, with these terms [elements, n] (n even), times powers of two."""
    elements, n = t.shape
    powers = np.array([1.0, 2.0, 0.25], dtype=np.float32)
    columns = np.repeat(powers[None], n, axis=0)
    yield Case("sum", [t], {"dims": (1,), "keepdim": 0})
    yield Case(
        "sum", [t.reshape(elements, n // 2, 2).transpose(1, 0, 2).copy()], {"dims": (0, 2), "keepdim": 1}
    )
    yield Case("mm", [t, columns], {})
    yield Case("bmm", [columns.T[None].repeat(2, 0), np.ascontiguousarray(np.stack([t.T, 0.25 * t.T]))], {})
    yield Case("scatter_add", [t[:, 0].copy(), np.arange(elements).repeat(n - 1), t[:, 1:].reshape(-1)], {})
    stride = {**PLAIN, "stride": (1, 2)}
    windows = t.reshape(elements, n // 2, 1, 2)
    yield Case("conv2d", [windows, np.tile(powers[:, None, None, None], (1, n // 2, 1, 2))], stride)
    halves = {**PLAIN, "groups": 2}
    kernel = np.tile(powers[None, :2, None, None], (n, 1, 1, 1))
    yield Case("conv2d_input_grad", [t.reshape(elements, n, 1, 1), kernel], {**PLAIN, "input_hw": (1, 1)})
    two = np.concatenate([t, t[::-1]], axis=1).reshape(elements, 2 * n, 1, 1)
    yield Case("conv2d_input_grad", [two, np.concatenate([kernel, kernel])], {**halves, "input_hw": (1, 1)})
    images = np.broadcast_to(powers[None, :, None, None], (n // 2, 3, 1, 2)).copy()
    gradient = t.reshape(elements, n // 2, 1, 2).transpose(1, 0, 2, 3).copy()
    yield Case("conv2d_weight_grad", [gradient, images], {**PLAIN, "kernel_hw": (1, 1)})


def convolutions(draw: Any) -> Iterator[Case]:
    """Yield all three convolutions with padding, strides, dilation and groups; `draw` returns float32 of a shape."""
    windows: tuple[dict[str, Any], ...] = (
        {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1},
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2), "groups": 2},
        {"stride": (3, 2), "padding": (2, 1), "dilation": (2, 1), "groups": 1},
    )
    for window in windows:
        x, w = draw(2, 4, 7, 6), draw(6, 4 // window["groups"], 3, 2)
        y, z = (
            (size + 2 * window["padding"][i] - window["dilation"][i] * (k - 1) - 1) // window["stride"][i] + 1
            for i, (size, k) in enumerate(((7, 3), (6, 2)))
        )
        dy = draw(2, 6, y, z)
        yield Case("conv2d", [x, w], window)
        yield Case("conv2d_input_grad", [dy, w], {**window, "input_hw": (7, 6)})
        yield Case("conv2d_weight_grad", [dy, x], {**window, "kernel_hw": (3, 2)})


def empty_and_single(draw: Any) -> Iterator[Case]:
    """Yield operators with sizes 0 and 1."""
    yield Case("sum", [draw()], {"dims": (), "keepdim": 0})
    yield Case("sum", [draw(3, 0, 2)], {"dims": (1,), "keepdim": 0})
    yield Case("sum", [draw(0, 2)], {"dims": (1,), "keepdim": 1})
    yield Case("sum", [draw(2, 3)], {"dims": (0, 1), "keepdim": 0})
    yield Case("sum", [draw(2, 3)], {"dims": (), "keepdim": 0})
    yield Case("mm", [draw(3, 0), draw(0, 2)], {})
    yield Case("mm", [draw(0, 3), draw(3, 2)], {})
    yield Case("mm", [draw(1, 1), draw(1, 1)], {})
    yield Case("bmm", [draw(0, 2, 3), draw(0, 3, 2)], {})
    yield Case("scatter_add", [draw(3, 2), np.zeros((0,), dtype=np.int64), draw(0, 2)], {})
    yield Case("scatter_add", [draw(3, 0), np.array([0, 1]), draw(2, 0)], {})
    yield Case("scatter_add", [draw(2), np.array([[0, 5], [-1, 0]]), draw(2, 2)], {})
    yield Case("conv2d", [draw(0, 2, 3, 3), draw(4, 2, 1, 1)], PLAIN)
    yield Case("conv2d", [draw(2, 3, 0, 4), draw(2, 3, 1, 1)], {**PLAIN, "padding": (1, 0)})
    yield Case("conv2d", [draw(2, 0, 3, 3), draw(2, 0, 2, 2)], PLAIN)
    yield Case("conv2d_input_grad", [draw(2, 0, 2, 2), draw(0, 3, 2, 2)], {**PLAIN, "input_hw": (3, 3)})
    yield Case("conv2d_weight_grad", [draw(0, 2, 2, 2), draw(0, 3, 3, 3)], {**PLAIN, "kernel_hw": (2, 2)})


def elementary(rng: np.random.Generator, count: int) -> Iterator[Case]:
    """Yield functions of ordinary arguments, and of arguments with results at most 2^-50 from a tie."""

    def draw(low: int, high: int) -> np.ndarray:
        return (rng.standard_normal(count) * 2.0 ** rng.integers(low, high, count)).astype(np.float32)

    def near(exponent: int) -> np.ndarray:
        """Return odd numbers of 19 to 24 bits: midpoints of one of the grids, at exponents where f(x) is about x."""
        bits = rng.integers(19, 25, count)
        odd = rng.integers(2 ** (bits - 1), 2**bits) | 1
        return (odd * 2.0 ** (exponent - bits)).astype(np.float32) * rng.choice([-1, 1], count).astype(
            np.float32
        )

    for name, inputs in (
        ("exp", [draw(-30, 8)]),
        ("log", [np.abs(draw(-130, 120))]),
        ("log1p", [np.concatenate([near(-50), near(-54), np.abs(draw(-30, 30))])]),
        ("erf", [draw(-30, 4)]),
        ("tanh", [np.concatenate([near(-24), near(-27), draw(-20, 6)])]),
        ("sin", [np.concatenate([near(-24), near(-26), draw(-20, 120)])]),
        ("cos", [draw(-20, 120)]),
        ("rsqrt", [np.abs(draw(-140, 120))]),
        (
            "pow",
            [(rng.integers(256, 4096, count) * 2.0**-6).astype(np.float32), np.array(2, dtype=np.float32)],
        ),
        ("pow", [np.abs(draw(-6, 6)), draw(-6, 6)]),
        ("exp", [special(rng, count, 3)]),
        ("log1p", [special(rng, count, 3)]),
        ("rsqrt", [special(rng, count, 3)]),
        ("pow", [special(rng, count, 3), special(rng, count, 3)]),
    ):
        yield Case(name, inputs, {})


def cases(rng: np.random.Generator, b: int) -> Iterator[Case]:
    """Yield all of the above, for a grid of b bits."""

    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 20, shape)).astype(np.float32)

    yield from of_terms(ambiguous(rng, 24, 14, b))
    yield from of_terms(midpoints(rng, 12, 6, b))
    yield from of_terms(cancelling(rng, 8, 12))
    yield from of_terms(special(rng, 8, 6))
    yield from convolutions(draw)
    yield from convolutions(lambda *shape: special(rng, 1, int(np.prod(shape))).reshape(shape))
    yield from empty_and_single(draw)
    if b < 32:
        yield from elementary(rng, 12)


def narrow(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the contractions among these cases, with their factors rounded to bf16."""
    for case in cases:
        if case.name in CONTRACTIONS:
            yield Case(case.name, [x.astype(NUMPY_DTYPE[BF16]) for x in case.inputs], case.attrs)


def evaluations(case: Case, bounds: Bounds, rng: np.random.Generator) -> Iterator[Evaluation]:
    """Yield numpy's; sums in ascending, descending, random order, and by halves; functions off by up to 3 ulps."""
    first = case.evaluation(bounds)
    yield first
    if arithmetic(case.name, case.inputs, case.attrs) == Arithmetic.ELEMENTARY:
        with np.errstate(invalid="ignore", over="ignore"):
            for _ in range(3):
                yield Evaluation(first.x * (1 + rng.integers(-3, 4, first.x.shape) * 2.0**-52), first.radius)
        return
    t = all_terms(case, first.x.size)
    with np.errstate(invalid="ignore"):
        for order in (np.arange(t.shape[1]), np.arange(t.shape[1])[::-1], rng.permutation(t.shape[1])):
            total = np.zeros(t.shape[0])
            for k in order:
                total = total + t[:, k]
            yield Evaluation(total.reshape(first.x.shape), first.radius)
        while t.shape[1] > 1:
            t = np.concatenate([t[:, :-1:2] + t[:, 1::2], t[:, t.shape[1] & ~1 :]], axis=1)
        yield Evaluation(t.sum(axis=1).reshape(first.x.shape), first.radius)


@np.errstate(invalid="ignore")
def all_terms(case: Case, elements: int) -> np.ndarray:
    """Return float64 [elements, slots]: the exact products of every element."""
    terms = summands_of(case.name, case.inputs, case.attrs, np.arange(elements))
    return (
        terms.take(np.arange(elements), 0, int(terms.links.max(initial=0))) if elements else np.zeros((0, 0))
    )


class Definition:
    """The value of every element of a case by the readable reference, under any log."""

    def __init__(self, case: Case, shape: Sequence[int], rounding: Rounding) -> None:
        self.shape, self.bits = tuple(shape), rounding.bits
        operator = case.name, case.inputs, case.attrs
        self.balls = [exact.ball_of_element(*operator, index, rounding) for index in np.ndindex(*shape)]

    def under(self, log: Log) -> np.ndarray:
        said = log.at(np.arange(log.elements))
        values = [
            ball if isinstance(ball, float) else exact.follow_entry(*ball, int(k), float(v), self.bits)
            for ball, k, v in zip(self.balls, said.kinds, said.values, strict=True)
        ]
        return np.array(values, dtype=np.float64).reshape(self.shape)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether a and b are equal, with equal signs of zeros; NaN equals NaN."""
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
    )
