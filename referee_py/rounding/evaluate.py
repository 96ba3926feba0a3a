"""Operators in binary64 with numpy, each with a radius (docs/rounding-logs.md, section 4).

`evaluate` is for operators that have a log, `single` for those that are one IEEE-754 operation. All others choose or
move elements and give the result of repops-f32. `arithmetic` classifies an operator.

A radius is a product of factors that broadcast to the output's shape, so it costs a pass over the inputs and not over
the products: by the inequality of Cauchy and Schwarz, sum |a_k b_k| is at most the norm of a times the norm of b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from repops.opset import Arithmetic, Dtype, Shape, lookup
from repops.tensors import Array

from ..errors import InvalidInput
from ..params import MAX_BITS
from ..program.mode import Bounds
from . import taps
from .bounds import elementary_radius, factor
from .primitives import F64, Bool, rnd
from .taps import Attrs

CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
ELEMENTARY = ("exp", "log", "log1p", "erf", "tanh", "sin", "cos", "pow", "rsqrt")
_SINGLE = ("add", "sub", "mul", "div", "sqrt")


def arithmetic(name: str, inputs: Sequence[Any], attrs: Attrs) -> Arithmetic:
    """Return what an operator rounds, on arrays or on tensors of a library."""
    return lookup(name).arithmetic_of(_dtype(inputs[0]) if inputs else None, attrs)


def _dtype(operand: Any) -> Dtype | None:
    # NOTE: the dtype of an array is "float32", of a tensor "torch.float32".
    dtypes = {"float32": Dtype.F32, "int64": Dtype.I64, "bool": Dtype.BOOL, "bfloat16": Dtype.BF16}
    return dtypes.get(str(operand.dtype).rpartition(".")[2])


def has_log(name: str, inputs: Sequence[Any], attrs: Attrs, b: int) -> bool:
    """Return whether elements of this operator may have entries.

    Not if nothing is free: at b = 32 elementary functions are those of repops-f32, which are correctly rounded (rsqrt
    is two rounded operations). And not if there is no element: the operands of such an operator may have shapes that
    no library has memory for, or windows with more taps than there is time for.
    """
    what = arithmetic(name, inputs, attrs)
    if what != Arithmetic.SUM and (what != Arithmetic.ELEMENTARY or b == MAX_BITS):
        return False
    return has_elements(name, [(_dtype(operand), tuple(operand.shape)) for operand in inputs], attrs)


def has_elements(name: str, inputs: Sequence[tuple[Dtype | None, Shape]], attrs: Attrs) -> bool:
    """Return whether the output of an operator that may have a log has elements. OpError if there is no output."""
    ((_, shape),) = lookup(name).infer(inputs, attrs)  # type: ignore[arg-type]  # refuses any other dtype
    return 0 not in shape


@dataclass(frozen=True, slots=True)
class Radius:
    """A product of arrays that broadcast to the output's shape; none is NaN. inf * 0 gives NaN and means 0: where all
    factors of one side are zero, every order gives zero or NaN.
    """

    factors: tuple[F64, ...]

    def array(self, shape: tuple[int, ...]) -> F64:
        """Return the radius in full; read-only if it is one factor."""
        with np.errstate(invalid="ignore"):
            return np.broadcast_to(reduce(np.multiply, self.factors), shape)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """x, float64 of the output's shape, and a radius that is at least the canonical one everywhere.

    With `rows`, ascending, x covers only these rows of the output. The others are rows of `rest`, float32, which are
    rounded and have no radius.
    """

    x: F64
    radius: Radius
    rows: taps.I64 | None = None
    rest: Array | None = None

    @property
    def elements(self) -> int:
        """Number of elements of the whole output."""
        return self.x.size if self.rest is None else self.rest.size


@np.errstate(all="ignore")  # operands that are not finite and results outside of binary64 are permitted
def evaluate(name: str, inputs: Sequence[Any], attrs: Attrs, bounds: Bounds) -> Evaluation:
    """Evaluate an operator that has a log, from binary32 (and i64) inputs.

    Raises InvalidInput for any other operator, and beyond 2^31 terms.
    """
    if name in ELEMENTARY:
        y = np.asarray(_FUNCTIONS[name](*(_f64(v) for v in inputs)))
        return Evaluation(y, Radius((known(elementary_radius(y)),)))
    match name, inputs:
        case "sum", (x,):
            axes, keep = tuple(attrs["dims"]), bool(attrs["keepdim"])
            terms = math.prod(x.shape[d] for d in axes)
            # NOTE: over no dimensions numpy gives the array itself, or a scalar for an array of rank 0.
            total = np.asarray(np.sum(_f64(x), axis=axes, keepdims=keep))
            magnitude = np.asarray(np.sum(np.abs(_f64(x)), axis=axes, keepdims=keep))
            return _radius(total, factor(terms, bounds), magnitude)
        case "mm" | "bmm", (a, b):
            left, right = _f64(a), _f64(b)
            rows, columns = _norm(left, -1)[..., :, None], _norm(right, -2)[..., None, :]
            product = _bilinear(np.matmul, left, right)
            return _radius(product, factor(left.shape[-1], bounds) * rows, columns)
        case "conv2d", (x, w):
            return _conv2d(_f64(x), _f64(w), attrs, bounds)
        case "conv2d_input_grad", (dy, w):
            return _conv2d_input_grad(_f64(dy), _f64(w), attrs, bounds)
        case "conv2d_weight_grad", (dy, x):
            return _conv2d_weight_grad(_f64(dy), _f64(x), attrs, bounds)
        case "scatter_add", (base, idx, src):
            return _scatter_add(_f64(base), idx, _f64(src), bounds)
    raise InvalidInput(f"{name} of {len(inputs)} inputs has no log; evaluate it as it is")


@np.errstate(all="ignore")
def single(name: str, inputs: Sequence[Any], b: int) -> F64:
    """Compute add, sub, mul, div, sqrt of binary32 or the cast of i64 in binary64, then round to grid(b).

    The sign of zero is kept. At b = 32 the five are repops-f32's own results: rounding twice is innocuous (Figueroa,
    1995: p >= 2 * 24 + 2 for p = 53). A cast of integers beyond 2^53 is rounded twice by definition.
    """
    return rnd(np.asarray(_OPERATIONS[name](*(v.astype(np.float64) for v in inputs))), b)


def _conv2d(x: F64, w: F64, attrs: Attrs, bounds: Bounds) -> Evaluation:
    """The radius is the norm of each window, from one channel of sums of squares, times the norm of each filter."""
    groups, (images, _, *plane), (filters, _, *kernel) = int(attrs["groups"]), x.shape, w.shape
    squares = (x * x).reshape(images, groups, x.shape[1] // groups, *plane).sum(axis=2)
    windows = np.sqrt(taps.conv2d(squares, np.ones((groups, 1, *kernel)), attrs))  # [N, G, Y, X]
    norms = _norm(w.reshape(filters, math.prod(w.shape[1:])), -1)[:, None, None]
    scaled = factor(math.prod(w.shape[1:]), bounds) * windows
    product = _bilinear(lambda a, b: taps.conv2d(a, b, attrs), x, w)
    return _radius(product, _spread(scaled, filters), norms)


def _conv2d_input_grad(dy: F64, w: F64, attrs: Attrs, bounds: Bounds) -> Evaluation:
    """The radius is the norm of all terms at a position, from one channel of sums of squares, times that of w[:, c]."""
    groups, (images, filters, *plane), (_, channels, *kernel) = int(attrs["groups"]), dy.shape, w.shape
    squares = (dy * dy).reshape(images, groups, filters // groups, *plane).sum(axis=2)
    windows = np.sqrt(taps.conv2d_input_grad(squares, np.ones((groups, 1, *kernel)), attrs))  # [N, G, H, W]
    filters_of = w.reshape(groups, filters // groups, channels, *kernel)
    norms = np.sqrt(np.sum(filters_of * filters_of, axis=(1, 3, 4))).reshape(groups * channels, 1, 1)
    scaled = factor(filters // groups * math.prod(kernel), bounds) * windows
    product = _bilinear(lambda a, b: taps.conv2d_input_grad(a, b, attrs), dy, w)
    return _radius(product, _spread(scaled, groups * channels), norms)


def _conv2d_weight_grad(dy: F64, x: F64, attrs: Attrs, bounds: Bounds) -> Evaluation:
    """The radius is the norm of dy[:, f] times the norm of x[:, c], both over images and positions."""
    groups, channels = int(attrs["groups"]), x.shape[1] // int(attrs["groups"])
    of_filters = np.sqrt(np.sum(dy * dy, axis=(0, 2, 3)))[:, None, None, None]
    of_channels = np.sqrt(np.sum(x * x, axis=(0, 2, 3))).reshape(groups, channels)
    norms = np.repeat(of_channels, dy.shape[1] // groups, axis=0)[:, :, None, None]  # [G F, C, 1, 1]
    terms = dy.shape[0] * math.prod(dy.shape[2:])
    product = _bilinear(lambda a, b: taps.conv2d_weight_grad(a, b, attrs), dy, x)
    return _radius(product, factor(terms, bounds) * of_filters, norms)


def _scatter_add(base: F64, idx: taps.I64, src: F64, bounds: Bounds) -> Evaluation:
    """The radius depends on the row, since each row has its own number of terms."""
    rows, flat = base.shape[0], idx.reshape(-1)
    met = (flat >= 0) & (flat < rows)
    found = src.reshape(flat.size, *base.shape[1:])[met]
    total, magnitude = base.copy(), np.abs(base)
    np.add.at(total, flat[met], found)
    np.add.at(magnitude, flat[met], np.abs(found))
    terms = 1 + np.bincount(flat[met], minlength=rows).reshape(rows, *[1] * (base.ndim - 1))
    return _radius(total, factor(terms, bounds), magnitude)


def _bilinear(product: Callable[[F64, F64], F64], a: F64, b: F64) -> F64:
    """Return a sum of products in any order, and the IEEE-754 result of every order if an operand is not finite.

    NOTE: a library multiplies an absent tap as a zero, and zero times an infinite weight is NaN; by docs/opset.md,
    section 2, an absent tap meets nothing. So infinities and NaNs are found with indicators, which are never inf.
    """
    if np.isfinite(a).all() and np.isfinite(b).all():
        return product(a, b)

    def any_of(*pairs: tuple[Bool, Bool]) -> Bool:
        counts = [product(p.astype(np.float64), q.astype(np.float64)) for p, q in pairs]
        found: Bool = np.sum(counts, axis=0) > 0
        return found

    def infinite(sign: int) -> Bool:
        c = sign * b
        return any_of(
            (a == np.inf, c > 0), (a == -np.inf, c < 0), (a > 0, c == np.inf), (a < 0, c == -np.inf)
        )

    nan = any_of(
        (np.isnan(a), np.ones(b.shape, dtype=np.bool_)),
        (np.ones(a.shape, dtype=np.bool_), np.isnan(b)),
        (np.isinf(a), b == 0),
        (a == 0, np.isinf(b)),
    )
    total = product(np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0))
    total = total + np.where(infinite(1), np.inf, 0.0) + np.where(infinite(-1), -np.inf, 0.0)
    return np.where(nan, np.nan, total)


def _radius(x: F64, *factors: F64) -> Evaluation:
    return Evaluation(x, Radius(tuple(known(f) for f in factors)))


def known(factors: F64) -> F64:
    """Replace NaN by infinity. SAFETY: a NaN would affect elements that do not meet the operand that caused it."""
    return np.where(np.isnan(factors), np.inf, factors)


def _spread(windows: F64, channels: int) -> F64:
    """Return [N, G, ...] if one group broadcasts, else [N, channels, ...] with each group repeated for its channels."""
    groups = windows.shape[1]
    return windows if groups == 1 else np.repeat(windows, channels // groups, axis=1)


def _norm(x: F64, axis: int) -> F64:
    """Return norms along an axis. NOTE: squares of binary32 values are exact in float64 and do not underflow."""
    norm: F64 = np.sqrt(np.sum(x * x, axis=axis))
    return norm


def _f64(x: Any) -> F64:
    """Widen to float64. Raises InvalidInput unless the input is binary32: products of wider values are not exact."""
    if x.dtype != np.float32:
        raise InvalidInput(f"operands are {x.dtype}; evaluations start from float32")
    wide: F64 = x.astype(np.float64)
    return wide


def _erf(x: F64) -> F64:
    return np.fromiter(map(math.erf, x.reshape(-1).tolist()), dtype=np.float64, count=x.size).reshape(x.shape)


_FUNCTIONS: dict[str, Callable[..., F64]] = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "erf": _erf,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    # NOTE: np.power takes roots for one exponent of 0.5, which -0 and -inf do not have.
    "pow": np.float_power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
_OPERATIONS: dict[str, Callable[..., F64]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "cast": lambda x: x,
}
