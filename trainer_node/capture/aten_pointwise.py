"""Lowering rules: arithmetic, comparison and selection, element by element."""

from __future__ import annotations

from typing import Any

from repops.opset import BOOL, F32, I64

from .builder import Ref
from .errors import Unsupported
from .lowering import Context, lowers

Operand = Ref | float


def _register_binary(aten: str, op: str) -> None:
    """Both operands in the result's dtype: PyTorch has already decided the promotion."""

    def rule(c: Context, a: Operand, b: Operand) -> Ref:
        return c.b.op(op, c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype))

    lowers(f"aten.{aten}.Tensor", f"aten.{aten}.Scalar", f"prims.{aten}.default")(rule)


def _register_unary(aten: str, op: str) -> None:
    def rule(c: Context, x: Ref) -> Ref:
        return c.b.op(op, c.tensor(x, c.out.dtype))

    lowers(f"aten.{aten}.default")(rule)


def _register_comparison(op: str) -> None:
    def rule(c: Context, a: Operand, b: Operand) -> Ref:
        dtype = _common(a, b)
        return c.b.op(op, c.tensor(a, dtype), c.tensor(b, dtype))

    lowers(f"aten.{op}.Tensor", f"aten.{op}.Scalar")(rule)


def _common(*operands: Operand) -> Any:
    floats = any(x.dtype == F32 if isinstance(x, Ref) else isinstance(x, float) for x in operands)
    return F32 if floats else I64


for _aten, _op in (("mul", "mul"), ("div", "div")):
    _register_binary(_aten, _op)
for _aten, _op in (("neg", "neg"), ("exp", "exp"), ("log", "log"), ("sqrt", "sqrt"), ("rsqrt", "rsqrt")):
    _register_unary(_aten, _op)
for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_comparison(_op)


@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(c: Context, a: Operand, b: Operand, alpha: float = 1) -> Ref:
    return c.b.op("add", c.tensor(a, c.out.dtype), _scaled(c, b, alpha))


@lowers("aten.sub.Tensor", "aten.sub.Scalar")
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


@lowers("aten.maximum.default")
def maximum(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("maximum", a, b)


@lowers("aten.minimum.default")
def minimum(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("minimum", a, b)


@lowers("aten.abs.default")
def abs_(c: Context, x: Ref) -> Ref:
    return c.b.op("maximum", x, c.b.op("neg", x))


@lowers("aten.relu.default")
def relu(c: Context, x: Ref) -> Ref:
    return c.b.op("maximum", x, c.b.full(0.0))


@lowers("aten.threshold_backward.default")
def threshold_backward(c: Context, grad: Ref, x: Ref, threshold: float) -> Ref:
    return c.b.op("where", c.b.op("le", x, c.b.full(threshold)), c.b.full(0.0), grad)


@lowers("aten.sigmoid.default")
def sigmoid(c: Context, x: Ref) -> Ref:
    one = c.b.full(1.0)
    return c.b.op("div", one, c.b.op("add", one, c.b.op("exp", c.b.op("neg", c.tensor(x, F32)))))


@lowers("aten.pow.Tensor_Scalar")
def pow_(c: Context, x: Ref, exponent: float) -> Ref:
    """The exponents that are exact combinations of other operators."""
    x = c.tensor(x, c.out.dtype)
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = c.b.op("mul", x, x)
        return square if exponent == 2 else c.b.op("mul", square, x)
    if c.out.dtype == F32 and exponent in (0.5, -0.5):
        return c.b.op("sqrt" if exponent > 0 else "rsqrt", x)
    if c.out.dtype == F32 and exponent == -1:
        return c.b.op("div", c.b.full(1.0), x)
    raise Unsupported(
        f"a power of {exponent}", "the operator set has no pow; use 0.5, 1, 2, 3 or their inverses"
    )


@lowers("aten.where.self")
def where(c: Context, condition: Ref, a: Operand, b: Operand) -> Ref:
    return c.b.op("where", condition, c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype))


@lowers("aten.logical_and.default", "aten.bitwise_and.Tensor")
def logical_and(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("logical_and", _bool(c, a), _bool(c, b))


@lowers("aten.logical_or.default", "aten.bitwise_or.Tensor")
def logical_or(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("logical_or", _bool(c, a), _bool(c, b))


@lowers("aten.logical_not.default", "aten.bitwise_not.default")
def logical_not(c: Context, x: Ref) -> Ref:
    return c.b.op("logical_not", _bool(c, x))


def _bool(c: Context, x: Ref) -> Ref:
    if c.out.dtype != BOOL:
        raise Unsupported("bitwise arithmetic on integers", "use it on bool tensors only")
    return c.tensor(x, BOOL)


@lowers("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(c: Context, x: Ref, *_: Any, **__: Any) -> Ref:
    return c.tensor(x, c.out.dtype)


@lowers("aten.clone.default", "aten.detach.default", "aten.alias.default", "aten.lift_fresh_copy.default")
def same(_: Context, x: Ref, **__: Any) -> Ref:
    return x


@lowers("aten.ones_like.default", "aten.ones.default", "aten.new_ones.default")
def ones(c: Context, *_: Any, **__: Any) -> Ref:
    return c.like(1, c.out)


@lowers("aten.zeros_like.default", "aten.zeros.default", "aten.new_zeros.default")
def zeros(c: Context, *_: Any, **__: Any) -> Ref:
    return c.like(0, c.out)


@lowers("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(c: Context, _: Any, value: Any, fill: float | None = None, **__: Any) -> Ref:
    return c.like(value if fill is None else fill, c.out)


@lowers("aten.scalar_tensor.default")
def scalar_tensor(c: Context, value: float, **_: Any) -> Ref:
    return c.like(value, c.out)
