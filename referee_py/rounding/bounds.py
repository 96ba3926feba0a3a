"""How far an evaluation in binary64 can be from the exact value, and from another one (docs/rounding-logs.md,
section 4).

A `Bound` has two arrays of the output's shape:

    error   |y - exact| for every permitted evaluation y
    width   |y - y'| for every two permitted evaluations: 2 error, or 0 where IEEE-754 leaves no choice

Permitted: any order of additions, with or without fma, any library within the stated ulps for elementary
functions. Not permitted: sums of inputs before a product (Strassen, Winograd, FFT), a wider or narrower type,
flushed inputs.

Inputs are binary32 values held in float64, so products are exact and neither products nor sums underflow. Where
an evaluation is infinite or NaN, so is every other (or both round to infinity), and the bound says nothing.

Every bound is computed in float64 itself and rounded so that it is never too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from . import taps
from .primitives import F64

U = 2.0**-53  # unit roundoff of binary64
MAX_TERMS = 1 << 31  # n u stays below 2^-22, where the expansions below hold with room
ELEMENTARY_ULPS = 4  # of exp, log, log1p, erf, tanh, sin, cos, pow, rsqrt in any permitted library
_UP = 1 + 2.0**-50  # covers eight roundings to nearest
_FLUSHED = 2.0**-1022  # what a library may lose that flushes subnormal results

Count = int | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bound:
    error: F64
    width: F64


def gamma(additions: Count, terms: Count) -> F64:
    """Higham's gamma_h = h u / (1 - h u) for a sum of which no term passes through more than h additions, times
    what makes a computed sum of `terms` magnitudes at least the true one. Never too small.

    h = n - 1 is every order; a stated tree of height h gives h.
    """
    h, n = np.asarray(additions, dtype=np.float64), np.asarray(terms, dtype=np.float64)
    if h.size and n.size and max(float(h.max()), float(n.max())) > MAX_TERMS:
        raise InvalidInput(f"a sum of {int(n.max())} terms; bounds are stated for at most {MAX_TERMS}")
    # 1 / ((1 - h u)(1 - n u)) <= 1 + 4 m u with m = max(h, n), as m u <= 1/4.
    factor: F64 = h * U * (1 + 4 * np.maximum(h, n) * U) * _UP
    return factor


def probable_gamma(terms: int, confidence: float) -> tuple[float, float]:
    """(factor, failure probability): the bound of Higham and Mary (2019), lambda sqrt(n) u for lambda = `confidence`.

    NOT proven for any order: it holds for one output with probability at least 1 - failure if rounding errors are
    independent with mean zero, which an adversary need not grant. Use it in place of `gamma` only where both
    parties agreed to.
    """
    if not 1 <= terms <= MAX_TERMS or not confidence > 0:
        raise InvalidInput(f"{terms} terms, confidence {confidence}; use 1 to {MAX_TERMS}, above 0")
    exponent = confidence * math.sqrt(terms) * U + terms * U * U / (1 - U)
    failure = min(1.0, 2 * terms * math.exp(-(confidence**2) * (1 - U) ** 2 / 2))
    return math.expm1(exponent) * (1 + 4 * terms * U) * _UP, failure


def free(error: F64) -> Bound:
    """Two evaluations, each off by at most `error`."""
    return Bound(error, 2 * error)


# ------------------------------------------------------------------------------------------------ sums


def summation(magnitude: F64, terms: Count, additions: Count | None = None) -> Bound:
    """A sum or contraction whose terms' magnitudes add up to `magnitude`, itself computed in float64 in any order.

    This is the whole rule: for an operator that is not below, run it on absolute values and give the result here.
    """
    return free(gamma(np.maximum(terms, 1) - 1 if additions is None else additions, terms) * magnitude)


def sum_bound(x: F64, dims: Sequence[int], keepdim: bool = False) -> Bound:
    """gamma_n * sum |x|."""
    terms = math.prod(x.shape[d] for d in dims)
    return summation(np.sum(np.abs(x), axis=tuple(dims), keepdims=keepdim), terms)


def mm_bound(a: F64, b: F64) -> Bound:
    """gamma_n * (|a| @ |b|), for mm and bmm: costs a second product."""
    return summation(np.matmul(np.abs(a), np.abs(b)), a.shape[-1])


def mm_bound_cheap(a: F64, b: F64) -> Bound:
    """gamma_n * ||row of a|| * ||column of b|| (Cauchy and Schwarz): costs one pass over each input."""
    return summation(_norm(a, -1)[..., :, None] * _norm(b, -2)[..., None, :], a.shape[-1] + 4, a.shape[-1])


def conv2d_bound(x: F64, w: F64, attrs: taps.Attrs) -> Bound:
    return summation(taps.conv2d(np.abs(x), np.abs(w), attrs), math.prod(w.shape[1:]))


def conv2d_bound_cheap(x: F64, w: F64, attrs: taps.Attrs) -> Bound:
    """The norm of each window, from one channel of sums of squares, times the norm of each filter: 1 / F of a
    product.
    """
    groups, (images, _, *plane), (filters, _, *kernel) = int(attrs["groups"]), x.shape, w.shape
    squares = (x * x).reshape(images, groups, -1, *plane).sum(axis=2)
    windows = np.sqrt(taps.conv2d(squares, np.ones((groups, 1, *kernel)), attrs))  # [N, G, Y, X]
    norms = _norm(w.reshape(groups, filters // groups, math.prod(w.shape[1:])), -1)  # [G, F]
    product = windows[:, :, None] * norms[None, :, :, None, None]
    terms = math.prod(w.shape[1:])
    return summation(product.reshape(images, filters, *windows.shape[2:]), terms + 4, terms)


def conv2d_input_grad_bound(dy: F64, w: F64, attrs: taps.Attrs) -> Bound:
    terms = w.shape[0] // int(attrs["groups"]) * math.prod(w.shape[2:])
    return summation(taps.conv2d_input_grad(np.abs(dy), np.abs(w), attrs), terms)


def conv2d_weight_grad_bound(dy: F64, x: F64, attrs: taps.Attrs) -> Bound:
    terms = dy.shape[0] * math.prod(dy.shape[2:])
    return summation(taps.conv2d_weight_grad(np.abs(dy), np.abs(x), attrs), terms)


def scatter_add_bound(base: F64, idx: taps.I64, src: F64) -> Bound:
    """gamma of each row's own number of terms, times the magnitudes that met there."""
    rows = base.shape[0]
    flat = idx.reshape(-1)
    met = (flat >= 0) & (flat < rows)
    magnitude = np.abs(base)
    np.add.at(magnitude, flat[met], np.abs(src).reshape(flat.size, *base.shape[1:])[met])
    terms = 1 + np.bincount(flat[met], minlength=rows).reshape(rows, *[1] * (base.ndim - 1))
    return summation(magnitude, terms)


def _norm(x: F64, axis: int) -> F64:
    """NOTE: squares of binary32 values are exact in float64 and do not underflow."""
    norm: F64 = np.sqrt(np.sum(x * x, axis=axis))
    return norm


# ------------------------------------------------------------------------------------- element by element


def single(y: F64) -> Bound:
    """add, sub, mul, div, sqrt and a cast from i64, from their result y: one IEEE-754 operation, the same bits
    everywhere.
    """
    return Bound(np.abs(y) * U * _UP + 2.0**-1074, np.zeros(y.shape))


def exact(y: F64) -> Bound:
    """neg, maximum, minimum, where, amax, max_pool2d, take and layout: elements are chosen, not computed."""
    return Bound(np.zeros(y.shape), np.zeros(y.shape))


def elementary(y: F64, ulps: int = ELEMENTARY_ULPS) -> Bound:
    """exp, log, log1p, erf, tanh, sin, cos, pow, rsqrt, from a library's result y that is off by at most `ulps`.

    An ulp is 2^-52 of the exact value's binade, so at most 2^-52 |exact|, and |exact| <= |y| / (1 - ulps 2^-52).
    Exact zeros, as log(1) or erf(0), are zeros in every library, and results whose binary64 is subnormal may be
    flushed.
    """
    if not 1 <= ulps <= 1 << 20:
        raise InvalidInput(f"{ulps} ulps; state 1 to 2^20")
    relative = ulps * 2.0**-52 * (1 + ulps * 2.0**-51)
    return free(np.where(y == 0, _FLUSHED, np.abs(y) * relative * _UP + _FLUSHED))


# Every operator of docs/opset.md with an f32 result, by name: (inputs, result, attributes) -> Bound.
SINGLE = ("add", "sub", "mul", "div", "sqrt", "cast")
CHOSEN = (
    "neg",
    "maximum",
    "minimum",
    "where",
    "amax",
    "max_pool2d",
    "take",
    "reshape",
    "permute",
    "expand",
    "slice",
    "cat",
    "full",
    "philox",
)
ELEMENTARY = ("exp", "log", "log1p", "erf", "tanh", "sin", "cos", "pow", "rsqrt")


@np.errstate(over="ignore", invalid="ignore")  # infinite operands give a bound that says nothing
def bound_of(name: str, inputs: Sequence[Any], y: F64, attrs: taps.Attrs) -> Bound:
    """The bound of an operator's f32 result y, from its inputs in float64.

    Raises InvalidInput for one without f32 result.
    """
    if name in SINGLE:
        return single(y)
    if name in CHOSEN:
        return exact(y)
    if name in ELEMENTARY:
        return elementary(y)
    match name, inputs:
        case "sum", (x,):
            return sum_bound(x, attrs["dims"], bool(attrs["keepdim"]))
        case "mm" | "bmm", (a, b):
            return mm_bound(a, b)
        case "conv2d", (x, w):
            return conv2d_bound(x, w, attrs)
        case "conv2d_input_grad", (dy, w):
            return conv2d_input_grad_bound(dy, w, attrs)
        case "conv2d_weight_grad", (dy, x):
            return conv2d_weight_grad_bound(dy, x, attrs)
        case "scatter_add", (base, idx, src):
            return scatter_add_bound(base, idx, src)
    raise InvalidInput(f"{name} of {len(inputs)} inputs has no f32 result to bound")
