"""Lowering rules: arithmetic, comparison and selection, element by element."""

from __future__ import annotations

from typing import Any

import torch
from repops.opset import BF16, BOOL, F32, I64

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, Uninitialised, lowers

Operand = Ref | float


def _register_binary(op: str) -> None:
    """Register a rule that casts both operands to the result's dtype: PyTorch has already decided the promotion."""

    def rule(c: Context, a: Operand, b: Operand) -> Ref:
        name = "logical_and" if c.out.dtype == BOOL else op
        return c.b.op(name, c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype))

    lowers(f"aten.{op}.Tensor", f"aten.{op}.Scalar", f"prims.{op}.default")(rule)


def _register_unary(op: str) -> None:
    def rule(c: Context, x: Ref) -> Ref:
        return c.b.op(op, c.tensor(x, c.out.dtype))

    lowers(f"aten.{op}.default", f"prims.{op}.default")(rule)


def _register_comparison(op: str) -> None:
    def rule(c: Context, a: Operand, b: Operand) -> Ref:
        dtype = _common(a, b)
        left, right = (c.tensor(_as_compared(c, x), dtype) for x in (a, b))
        return c.b.op(op, left, right)

    lowers(f"aten.{op}.Tensor", f"aten.{op}.Scalar", f"prims.{op}.default")(rule)


def _common(*operands: Operand) -> Any:
    floats = any(x.dtype == F32 if isinstance(x, Ref) else isinstance(x, float) for x in operands)
    return F32 if floats else I64


def _as_compared(c: Context, x: Operand) -> Operand:
    """Return a number, or a tensor without dimensions, as PyTorch compares it: rounded to bf16 if the other is."""
    dtypes = {traced.dtype for traced in c.traced if isinstance(traced, torch.Tensor) and traced.ndim}
    scalar = not isinstance(x, Ref) or (not x.rank and x.dtype == F32)
    if dtypes != {torch.bfloat16} or not scalar:
        return x
    return c.tensor(c.b.op("cast", c.tensor(x, F32), dtype=BF16), F32)


for _op in ("mul", "div"):
    _register_binary(_op)
for _op in ("neg", "exp", "log", "sqrt", "rsqrt", "erf", "tanh", "sin", "cos", "log1p"):
    _register_unary(_op)
for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_comparison(_op)


@lowers("aten.add.Tensor", "aten.add.Scalar", "prims.add.default")
def add(c: Context, a: Operand, b: Operand, alpha: float = 1) -> Ref:
    if c.out.dtype == BOOL:
        return c.b.op("logical_or", c.tensor(a, BOOL), c.tensor(b, BOOL))
    left, right = c.tensor(a, c.out.dtype), _scaled(c, b, alpha)
    return _rows_into(c, left, right) or _side_by_side(c, left, right) or c.b.op("add", left, right)


def _rows_into(c: Context, left: Ref, right: Ref) -> Ref | None:
    """Add a gradient by rows (of an embedding) into the other gradient (of a tied weight) instead of into zeros."""
    for base, rows in ((left, right), (right, left)):
        scatter = c.b.made_by(rows, "scatter_add")
        if scatter and base.shape == rows.shape and c.b.is_zero(scatter.inputs[0]):
            return c.b.op("scatter_add", base, *scatter.inputs[1:])
    return None


def _side_by_side(c: Context, left: Ref, right: Ref) -> Ref | None:
    """Join gradients of slices of a tensor, each padded with zeros to its size, without the padding."""
    one, two = c.b.made_by(left, "cat"), c.b.made_by(right, "cat")
    if one is None or two is None or one.attrs != two.attrs:
        return None
    if [x.shape for x in one.inputs] != [x.shape for x in two.inputs]:
        return None
    parts = []
    for x, y in zip(one.inputs, two.inputs, strict=True):
        if not (c.b.is_zero(x) or c.b.is_zero(y)):
            return None
        parts.append(y if c.b.is_zero(x) else x)
    return c.b.op("cat", *parts, **one.attrs)


@lowers("aten.sub.Tensor", "aten.sub.Scalar", "prims.sub.default")
def sub(c: Context, a: Operand, b: Operand, alpha: float = 1) -> Ref:
    return c.b.op("sub", c.tensor(a, c.out.dtype), _scaled(c, b, alpha))


@lowers("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(c: Context, a: Operand, b: Operand, alpha: float = 1) -> Ref:
    return c.b.op("sub", c.tensor(b, c.out.dtype), _scaled(c, a, alpha))


def _scaled(c: Context, x: Operand, alpha: float) -> Ref:
    x = c.tensor(x, c.out.dtype)
    return x if alpha == 1 else c.b.op("mul", x, c.b.full(alpha, c.out.dtype))


@lowers("aten.reciprocal.default")
def reciprocal(c: Context, x: Ref) -> Ref:
    return c.b.op("div", c.b.full(1.0), c.tensor(x, F32))


def _register_extreme(op: str, prim: str, comparison: str) -> None:
    """Register a rule that uses the operator for floats, a comparison for integers."""

    def rule(c: Context, a: Operand, b: Operand) -> Ref:
        left, right = c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype)
        if c.out.dtype == F32:
            return c.b.op(op, left, right)
        return c.b.op("where", c.b.op(comparison, left, right), left, right)

    lowers(f"aten.{op}.default", f"prims.{prim}.default")(rule)


_register_extreme("maximum", "fmax", "gt")
_register_extreme("minimum", "fmin", "lt")


@lowers("aten.clamp.default", "aten.clamp.Tensor", "aten.clamp_min.default", "aten.hardtanh.default")
def clamp(c: Context, x: Ref, low: Operand | None = None, high: Operand | None = None) -> Ref:
    """Clamp by comparison, so that integers can be clamped too; NaN stays NaN, and a bound that is NaN gives NaN."""
    dtype = c.out.dtype
    x = c.tensor(x, dtype)
    for bound, op in ((low, "lt"), (high, "gt")):
        if bound is not None:
            limit = c.tensor(bound, dtype)
            taken = c.b.op(op, x, limit)
            if isinstance(bound, Ref) and dtype == F32:
                taken = c.b.op("logical_or", taken, c.b.op("ne", limit, limit))
            x = c.b.op("where", taken, limit, x)
    return x


@lowers("aten.clamp_max.default")
def clamp_max(c: Context, x: Ref, high: Operand) -> Ref:
    return clamp(c, x, None, high)


@lowers("aten.abs.default", "prims.abs.default")
def abs_(c: Context, x: Ref) -> Ref:
    if x.dtype == F32:
        return c.b.op("maximum", x, c.b.op("neg", x))
    return c.b.op("where", c.b.op("lt", x, c.b.full(0, I64)), c.b.op("neg", x), x)


@lowers("aten.sign.default", "aten.sgn.default", "prims.sign.default")
def sign(c: Context, x: Ref) -> Ref:
    zero = c.b.full(0, x.dtype)
    above, below = (c.b.op("cast", c.b.op(op, x, zero), dtype=x.dtype) for op in ("gt", "lt"))
    return c.b.op("sub", above, below)


@lowers("aten.pow.Tensor_Scalar")
def pow_(c: Context, x: Ref, exponent: float) -> Ref:
    """Lower small powers to products and roots; any other exponent is one correctly rounded operator."""
    x = c.tensor(x, c.out.dtype)
    if exponent == 0:
        return c.b.full(1, c.out.dtype, x.shape)
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = c.b.op("mul", x, x)
        return square if exponent == 2 else c.b.op("mul", square, x)
    if c.out.dtype != F32:
        raise Unsupported(
            f"an integer to the power of {exponent}", "cast it to float, or use a power of 2 or 3"
        )
    if exponent in (0.5, -0.5):
        return c.b.op("sqrt" if exponent > 0 else "rsqrt", x)
    if exponent == -1:
        return c.b.op("div", c.b.full(1.0), x)
    return c.b.op("pow", x, c.b.full(exponent))


@lowers("aten.expm1.default", "prims.expm1.default")
def expm1(c: Context, x: Ref) -> Ref:
    """Compute exp(x) - 1, but near 0, where that loses digits, 2 t / (1 - t) with t = tanh(x / 2)."""
    o, x = c.o, c.tensor(x, F32)
    one = o.scalar(1.0)
    t = o.tanh(o.mul(o.scalar(0.5), x))
    near = o.div(o.add(t, t), o.sub(one, t))
    small = o.lt(o.maximum(x, o.neg(x)), one)
    return o.where(small, near, o.sub(o.exp(x), one))


@lowers("aten.pow.Tensor_Tensor", "aten.pow.Scalar", "prims.pow.default")
def pow_tensors(c: Context, x: Operand, exponent: Operand) -> Ref:
    if c.out.dtype != F32:
        raise Unsupported("an integer to the power of a tensor", "cast it to float")
    return c.b.op("pow", c.tensor(x, F32), c.tensor(exponent, F32))


@lowers("aten.logical_and.default", "aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar")
def logical_and(c: Context, a: Operand, b: Operand) -> Ref:
    return c.b.op("logical_and", _bool(c, a), _bool(c, b))


@lowers("aten.logical_or.default", "aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar")
def logical_or(c: Context, a: Operand, b: Operand) -> Ref:
    return c.b.op("logical_or", _bool(c, a), _bool(c, b))


@lowers("aten.logical_not.default", "aten.bitwise_not.default")
def logical_not(c: Context, x: Ref) -> Ref:
    return c.b.op("logical_not", _bool(c, x))


def _bool(c: Context, x: Operand) -> Ref:
    if c.out.dtype != BOOL:
        raise Unsupported("bitwise arithmetic on integers", "use it on bool tensors only")
    return c.tensor(x, BOOL)


@lowers("aten.logical_xor.default", "aten.bitwise_xor.Tensor")
def logical_xor(c: Context, a: Ref, b: Ref) -> Ref:
    differs = c.b.op("ne", c.tensor(_bool(c, a), I64), c.tensor(_bool(c, b), I64))
    return c.tensor(differs, BOOL)


@lowers("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(c: Context, x: Ref, *_: Any, **__: Any) -> Ref:
    return c.tensor(x, c.out.dtype)


@lowers(
    "aten.clone.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.alias.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "prims.clone.default",
)
def same(_: Context, x: Ref, **__: Any) -> Ref:
    return x


@lowers("aten.ones_like.default", "aten.ones.default", "aten.new_ones.default")
def ones(c: Context, *_: Any, **__: Any) -> Ref:
    return c.like(1, c.out)


@lowers(
    "aten.zero.default",
    "aten.zeros_like.default",
    "aten.zeros.default",
    "aten.new_zeros.default",
    "aten._efficientzerotensor.default",
)
def zeros(c: Context, *_: Any, **__: Any) -> Ref:
    return c.like(0, c.out)


@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(c: Context, _: Any, value: Any, fill: float | None = None, **__: Any) -> Ref:
    return c.like(value if fill is None else fill, c.out)


@lowers(
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
    "aten.empty_strided.default",
    "prims.empty_strided.default",
)
def empty(c: Context, *_: Any, **__: Any) -> Ref | Uninitialised:
    return Uninitialised() if c.out.count else c.like(0, c.out)


@lowers(
    "aten.fill.Scalar", "aten.fill.Tensor", "aten.copy.default", "aten.copy_.default", "prims.copy_to.default"
)
def fill(c: Context, _: Any, value: Operand, *__: Any) -> Ref:
    return c.b.op("expand", c.tensor(value, c.out.dtype), shape=c.out.shape)


@lowers("aten.eye.default", "aten.eye.m")
def eye(c: Context, *_: Any, **__: Any) -> Ref:
    rows, columns = c.out.shape
    row = c.b.op("reshape", c.b.op("arange", n=rows), shape=(rows, 1))
    return c.tensor(c.b.op("eq", row, c.b.op("arange", n=columns)), c.out.dtype)


@lowers("aten.scalar_tensor.default")
def scalar_tensor(c: Context, value: float, **_: Any) -> Ref:
    return c.like(value, c.out)
