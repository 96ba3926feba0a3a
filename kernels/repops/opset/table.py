"""The table: a row for each operator, in the order of ids."""

from __future__ import annotations

from . import rules
from .signature import BOOL, F32, I64, Arithmetic, Op, UnknownOpError

OPSET_VERSION = 1

_SUM, _ELEMENTARY, _SINGLE = Arithmetic.SUM, Arithmetic.ELEMENTARY, Arithmetic.SINGLE
_NUM = (F32, I64)
_KEEP = (("dim", "int"), ("keepdim", "int"))
_GROUPED = (*rules.WINDOW, ("groups", "int"))

OPS: tuple[Op, ...] = (
    Op(1, "add", *rules.elementwise("add", 2, _NUM), arithmetic=_SINGLE),
    Op(2, "sub", *rules.elementwise("sub", 2, _NUM), arithmetic=_SINGLE),
    Op(3, "mul", *rules.elementwise("mul", 2, _NUM), arithmetic=_SINGLE),
    Op(4, "div", *rules.elementwise("div", 2, (F32,)), arithmetic=_SINGLE),
    Op(5, "neg", *rules.elementwise("neg", 1, _NUM)),
    Op(6, "maximum", *rules.elementwise("maximum", 2, (F32,))),
    Op(7, "minimum", *rules.elementwise("minimum", 2, (F32,))),
    Op(8, "sqrt", *rules.elementwise("sqrt", 1, (F32,)), arithmetic=_SINGLE),
    Op(9, "exp", *rules.elementwise("exp", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(10, "log", *rules.elementwise("log", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(11, "rsqrt", *rules.elementwise("rsqrt", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(12, "erf", *rules.elementwise("erf", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(13, "tanh", *rules.elementwise("tanh", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(14, "sin", *rules.elementwise("sin", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(15, "cos", *rules.elementwise("cos", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(16, "log1p", *rules.elementwise("log1p", 1, (F32,)), arithmetic=_ELEMENTARY),
    Op(17, "pow", *rules.elementwise("pow", 2, (F32,)), arithmetic=_ELEMENTARY),
    Op(20, "eq", *rules.elementwise("eq", 2, _NUM, BOOL)),
    Op(21, "ne", *rules.elementwise("ne", 2, _NUM, BOOL)),
    Op(22, "lt", *rules.elementwise("lt", 2, _NUM, BOOL)),
    Op(23, "le", *rules.elementwise("le", 2, _NUM, BOOL)),
    Op(24, "gt", *rules.elementwise("gt", 2, _NUM, BOOL)),
    Op(25, "ge", *rules.elementwise("ge", 2, _NUM, BOOL)),
    Op(26, "logical_and", *rules.elementwise("logical_and", 2, (BOOL,))),
    Op(27, "logical_or", *rules.elementwise("logical_or", 2, (BOOL,))),
    Op(28, "logical_not", *rules.elementwise("logical_not", 1, (BOOL,))),
    Op(29, "where", "c a b", (), rules.where),
    Op(30, "cast", "a", (("dtype", "dtype"),), rules.cast, arithmetic=_SINGLE),
    Op(31, "cast_stochastic", "a r", (), rules.cast_stochastic),
    Op(40, "sum", *rules.reduce("sum"), arithmetic=_SUM),
    Op(41, "amax", *rules.reduce("amax")),
    Op(42, "argmax", "x", _KEEP, rules.argmax),
    Op(50, "mm", *rules.matmul("mm", 2), arithmetic=_SUM),
    Op(51, "bmm", *rules.matmul("bmm", 3), arithmetic=_SUM),
    Op(52, "conv2d", "x w", _GROUPED, rules.conv2d, arithmetic=_SUM),
    Op(
        53,
        "conv2d_input_grad",
        "dy w",
        (*_GROUPED, ("input_hw", "ints")),
        rules.conv2d_input_grad,
        arithmetic=_SUM,
    ),
    Op(
        54,
        "conv2d_weight_grad",
        "dy x",
        (*_GROUPED, ("kernel_hw", "ints")),
        rules.conv2d_weight_grad,
        arithmetic=_SUM,
    ),
    Op(55, "max_pool2d", "x", (("kernel", "ints"), *rules.WINDOW), rules.max_pool2d),
    Op(60, "take", "x idx", (), rules.take),
    Op(61, "scatter_add", "base idx src", (), rules.scatter_add, arithmetic=_SUM),
    Op(70, "reshape", "x", (("shape", "ints"),), rules.reshape),
    Op(71, "permute", "x", (("dims", "ints"),), rules.permute),
    Op(72, "expand", "x", (("shape", "ints"),), rules.expand),
    Op(73, "slice", "x", (("dim", "int"), ("start", "int"), ("stop", "int"), ("step", "int")), rules.sliced),
    Op(74, "cat", "x*", (("dim", "int"),), rules.cat),
    Op(80, "full", "", (("shape", "ints"), ("dtype", "dtype"), ("bits", "int")), rules.full),
    Op(81, "arange", "", (("n", "int"),), rules.arange),
    Op(82, "philox", "seed step", (("shape", "ints"), ("dtype", "dtype"), ("site", "int")), rules.philox),
)

BY_NAME = {op.name: op for op in OPS}
BY_ID = {op.id: op for op in OPS}


def lookup(name: str) -> Op:
    """The row of that name."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise UnknownOpError("no such operator", name=name) from None
