"""The operator set: ONE table, one row an operator. Everything that must agree on operators reads this file.

A row says what an operator is called, how many inputs it takes, which attributes it has and in which order,
and which outputs it gives for which inputs. What the outputs CONTAIN is defined in docs/opset.md, readable as
code in `repops.reference`. Operators are total: what `infer` accepts cannot fail, whatever the data.

    OpError
      UnknownOpError  no row of that name
      ArityError      wrong number of inputs
      AttrError       an attribute missing, extra, of the wrong kind or out of range
      DtypeError      an input's dtype is not allowed here
      ShapeError      ranks or dimensions do not fit together, or exceed the limits
      ArrayError      (repops.tensors) an input or `out` is not a plain C-contiguous array
      AliasError      (repops.tensors) `out` overlaps an input or another output
      GradientError   (repops.bridge) a tensor requires a gradient where none is given

Messages name the operator and the argument, in the names of the rows below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

OPSET_VERSION = 1
MAX_RANK = 8
MAX_ELEMENTS = 1 << 40  # exclusive; bounds every dimension too, so that index arithmetic fits in 64 bits
MAX_SITES = 1 << 24  # exclusive, so that site and block number fit in one word of a Philox counter


class Dtype(IntEnum):
    """Element types and their codes in commitments. Code 0 is illegal."""

    F32 = 1  # IEEE binary32
    I64 = 2  # two's complement
    BOOL = 3  # one byte, 0 or 1


F32, I64, BOOL = Dtype.F32, Dtype.I64, Dtype.BOOL
ITEM_SIZE = {F32: 4, I64: 8, BOOL: 1}

Shape = tuple[int, ...]
Spec = tuple[Dtype, Shape]
Attrs = Mapping[str, Any]


class OpError(Exception):
    """An operator that may not be applied like this. `values` holds what was found."""

    def __init__(self, message: str, **values: Any):
        self.values = values
        found = ", ".join(f"{key}={value!r}" for key, value in values.items())
        super().__init__(f"{message} ({found})" if found else message)


class UnknownOpError(OpError): ...


class ArityError(OpError): ...


class AttrError(OpError): ...


class DtypeError(OpError): ...


class ShapeError(OpError): ...


@dataclass(frozen=True)
class Op:
    """One row. `args` names the inputs, "a b"; "x*" is any number of them but none. `attrs` is the order of attributes
    when serialised.

    Attribute kinds: "int" is 0 <= v < 2^64; "ints" is a tuple of them; "dtype" is a Dtype code.
    """

    id: int
    name: str
    args: str
    attrs: tuple[tuple[str, str], ...]
    rule: Callable[[Sequence[Spec], Any], list[Spec]]

    @cached_property
    def arity(self) -> int | None:
        """How many inputs; None is variadic."""
        return None if self.args.endswith("*") else len(self.args.split())

    def argument(self, place: int) -> str:
        """What input `place` is called."""
        return f"{self.args[:-1]}[{place}]" if self.arity is None else self._names[place]

    @cached_property
    def _names(self) -> list[str]:
        return self.args.split()

    def check_arity(self, count: int) -> None:
        if count != self.arity if self.arity is not None else not count:
            raise ArityError(f"{self.name}: takes the inputs ({self.args})", got=count)

    def infer(self, inputs: Sequence[Spec], attrs: Attrs) -> list[Spec]:
        """The (dtype, shape) of every output, or an OpError saying why there are none."""
        self.check_arity(len(inputs))
        for place, (dtype, shape) in enumerate(inputs):
            check_spec(f"{self.name}: {self.argument(place)}", dtype, shape)
        outputs = self.rule(inputs, self.normalize(attrs))
        for place, (dtype, shape) in enumerate(outputs):
            check_spec(f"{self.name}: output {place}", dtype, shape)
        return outputs

    def normalize(self, attrs: Attrs) -> dict[str, Any]:
        """Exactly the schema's attributes, in its order, with ints as tuples and dtypes as Dtype."""
        if len(attrs) != len(self.attrs) or any(name not in attrs for name, _ in self.attrs):
            raise AttrError(
                f"{self.name}: wrong attributes", expected=[n for n, _ in self.attrs], got=list(attrs)
            )
        return {name: _PARSE[kind](self.name, name, attrs[name]) for name, kind in self.attrs}


def check_spec(where: str, dtype: int, shape: Sequence[int]) -> None:
    """The limits that every tensor obeys. `where` begins the message."""
    if dtype not in ITEM_SIZE:
        raise DtypeError(f"{where}: unknown dtype", dtype=dtype)
    if len(shape) > MAX_RANK:
        raise ShapeError(f"{where}: rank above {MAX_RANK}", shape=shape)
    if any(dim < 0 or dim >= MAX_ELEMENTS for dim in shape) or math.prod(shape) >= MAX_ELEMENTS:
        raise ShapeError(
            f"{where}: dimensions out of range: each, and their product, is below 2^40", shape=shape
        )


def _parse_int(op: str, name: str, value: Any) -> int:
    # NOTE: a bool is refused and a Dtype is not, in each of the kinds alike; numpy's integers are no ints.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise AttrError(f"{op}: {name} must be an int in [0, 2^64)", value=value, type=type(value).__name__)
    return int(value)


def _parse_ints(op: str, name: str, value: Any) -> Shape:
    if not isinstance(value, (tuple, list)):
        raise AttrError(f"{op}: {name} must be a list of ints", value=value, type=type(value).__name__)
    return tuple(_parse_int(op, name, item) for item in value)


def _parse_dtype(op: str, name: str, value: Any) -> Dtype:
    if not isinstance(value, int) or isinstance(value, bool) or value not in ITEM_SIZE:
        raise AttrError(f"{op}: {name} must be a dtype code", value=value, type=type(value).__name__)
    return Dtype(value)


_PARSE: dict[str, Callable[[str, str, Any], Any]] = {
    "int": _parse_int,
    "ints": _parse_ints,
    "dtype": _parse_dtype,
}


# ---------------------------------------------------------------------------------------------- shared rules


def _want(where: str, spec: Spec, *allowed: Dtype) -> None:
    """`where` is "operator: argument"."""
    if spec[0] not in allowed:
        raise DtypeError(f"{where}: dtype not allowed", got=spec[0].name, allowed=[d.name for d in allowed])


def _want_all(name: str, args: str, inputs: Sequence[Spec], *allowed: Dtype) -> None:
    for arg, spec in zip(args.split(), inputs, strict=True):
        _want(f"{name}: {arg}", spec, *allowed)


def _dim(name: str, value: int, rank: int) -> int:
    if value >= rank:
        raise AttrError(f"{name}: dim out of range", dim=value, rank=rank)
    return value


def broadcast(name: str, *shapes: Shape, args: str = "") -> Shape:
    """Align at the right; in each place the dimensions are equal or 1. `args` names the shapes for a refusal."""
    rank = max(map(len, shapes))
    result = []
    for column in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True):
        wide = {dim for dim in column if dim != 1}
        if len(wide) > 1:
            found = dict(zip(args.split(), shapes, strict=True)) if args else {"shapes": shapes}
            raise ShapeError(f"{name}: shapes do not broadcast", **found)
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def _reduced(shape: Shape, dims: Sequence[int], keepdim: int) -> Shape:
    if keepdim:
        return tuple(1 if d in dims else size for d, size in enumerate(shape))
    return tuple(size for d, size in enumerate(shape) if d not in dims)


def _flag(name: str, attr: str, value: int) -> int:
    if value > 1:
        raise AttrError(f"{name}: {attr} must be 0 or 1", value=value)
    return value


def _elementwise(name: str, arity: int, allowed: Sequence[Dtype], result: Dtype | None = None) -> Any:
    """Broadcast operands of one dtype out of `allowed`; the result has it too unless `result` differs."""
    args = ("a", "a b")[arity - 1]

    def rule(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
        _want_all(name, args, inputs, *allowed)
        if inputs[-1][0] != inputs[0][0]:
            raise DtypeError(f"{name}: a and b differ in dtype", a=inputs[0][0].name, b=inputs[-1][0].name)
        return [(result or inputs[0][0], broadcast(name, *(shape for _, shape in inputs), args=args))]

    return args, (), rule


# ---------------------------------------------------------------------------------- rules, one a shape family


def _where(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    cond, a, b = inputs
    _want("where: c", cond, BOOL)
    if a[0] != b[0]:
        raise DtypeError("where: a and b differ in dtype", a=a[0].name, b=b[0].name)
    return [(a[0], broadcast("where", cond[1], a[1], b[1], args="c a b"))]


def _cast(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    return [(attrs["dtype"], inputs[0][1])]


def _reduce(name: str) -> Any:
    def rule(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
        (dtype, shape), dims = inputs[0], attrs["dims"]
        _want(f"{name}: x", inputs[0], F32, I64)
        if any(a >= b for a, b in itertools.pairwise(dims)):
            raise AttrError(f"{name}: dims must ascend", dims=dims)
        for dim in dims:
            _dim(name, dim, len(shape))
        return [(dtype, _reduced(shape, dims, _flag(name, "keepdim", attrs["keepdim"])))]

    return "x", (("dims", "ints"), ("keepdim", "int")), rule


def _argmax(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    shape = inputs[0][1]
    _want("argmax: x", inputs[0], F32, I64)
    dim = _dim("argmax", attrs["dim"], len(shape))
    if shape[dim] == 0:
        raise ShapeError("argmax: no element to choose from", shape=shape, dim=dim)
    return [(I64, _reduced(shape, (dim,), _flag("argmax", "keepdim", attrs["keepdim"])))]


def _matmul(name: str, rank: int) -> Any:
    def rule(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
        (_, a), (_, b) = inputs
        _want_all(name, "a b", inputs, F32)
        if len(a) != rank or len(b) != rank or a[:-2] != b[:-2] or a[-1] != b[-2]:
            raise ShapeError(f"{name}: shapes do not fit", a=a, b=b)
        return [(F32, a[:-1] + b[-1:])]

    return "a b", (), rule


_WINDOW = (("stride", "ints"), ("padding", "ints"), ("dilation", "ints"))
_MAX_WINDOW = 1 << 31  # exclusive, for stride, padding, dilation and kernel: products stay within 64 bits


def _windows(name: str, size: Shape, kernel: Shape, attrs: Any) -> Shape:
    """Window positions in (height, width): floor((size + 2 pad - dil (k - 1) - 1) / stride) + 1."""
    for attr, low in (("stride", 1), ("padding", 0), ("dilation", 1)):
        if len(attrs[attr]) != 2 or any(not low <= value < _MAX_WINDOW for value in attrs[attr]):
            raise AttrError(f"{name}: {attr} must be two ints in [{low}, 2^31)", value=attrs[attr])
    if len(kernel) != 2 or any(not 1 <= k < _MAX_WINDOW for k in kernel):
        raise ShapeError(f"{name}: kernel must be at least 1 x 1", kernel=kernel)
    result = []
    for n, k, s, p, d in zip(size, kernel, attrs["stride"], attrs["padding"], attrs["dilation"], strict=True):
        span = n + 2 * p - d * (k - 1) - 1
        if span < 0:
            raise ShapeError(f"{name}: window larger than the padded input", size=size, kernel=kernel)
        result.append(span // s + 1)
    return tuple(result)


def _conv(name: str, x: Shape, w: Shape, attrs: Any) -> Shape:
    """The output shape of the forward convolution; the gradients check that theirs belongs to one."""
    groups = attrs["groups"]
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(f"{name}: needs rank 4", x=x, w=w)
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(f"{name}: channels do not fit the groups", x=x, w=w, groups=groups)
    return (x[0], w[0], *_windows(name, x[2:], w[2:], attrs))


def _pair(name: str, attrs: Any, attr: str) -> Shape:
    if len(attrs[attr]) != 2:
        raise AttrError(f"{name}: {attr} must be two ints", value=attrs[attr])
    return tuple(attrs[attr])


def _conv2d(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    _want_all("conv2d", "x w", inputs, F32)
    return [(F32, _conv("conv2d", inputs[0][1], inputs[1][1], attrs))]


def _conv2d_input_grad(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    name, (_, dy), (_, w) = "conv2d_input_grad", *inputs
    _want_all(name, "dy w", inputs, F32)
    if len(dy) != 4 or len(w) != 4:
        raise ShapeError(f"{name}: needs rank 4", dy=dy, w=w)
    x = (dy[0], w[1] * attrs["groups"], *_pair(name, attrs, "input_hw"))
    if _conv(name, x, w, attrs) != dy:
        raise ShapeError(f"{name}: dy does not belong to this convolution", dy=dy, x=x, w=w)
    return [(F32, x)]


def _conv2d_weight_grad(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    name, (_, dy), (_, x), groups = "conv2d_weight_grad", *inputs, attrs["groups"]
    _want_all(name, "dy x", inputs, F32)
    if len(dy) != 4 or len(x) != 4 or groups < 1 or x[1] % groups:
        raise ShapeError(f"{name}: needs rank 4 and channels that fit the groups", dy=dy, x=x, groups=groups)
    w = (dy[1], x[1] // groups, *_pair(name, attrs, "kernel_hw"))
    if _conv(name, x, w, attrs) != dy:
        raise ShapeError(f"{name}: dy does not belong to this convolution", dy=dy, x=x, w=w)
    return [(F32, w)]


def _max_pool2d(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    shape = inputs[0][1]
    _want("max_pool2d: x", inputs[0], F32)
    if len(shape) != 4:
        raise ShapeError("max_pool2d: needs rank 4", shape=shape)
    out = shape[:2] + _windows("max_pool2d", shape[2:], attrs["kernel"], attrs)
    return [(F32, out), (I64, out)]


def _take(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    (dtype, x), (_, idx) = inputs
    _want("take: idx", inputs[1], I64)
    if not x:
        raise ShapeError("take: x is a scalar, which has no rows", x=x)
    return [(dtype, idx + x[1:])]


def _scatter_add(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    (_, base), (_, idx), (_, src) = inputs
    _want("scatter_add: base", inputs[0], F32)
    _want("scatter_add: idx", inputs[1], I64)
    _want("scatter_add: src", inputs[2], F32)
    if not base or src != idx + base[1:]:
        raise ShapeError("scatter_add: shapes do not fit", base=base, idx=idx, src=src)
    return [(F32, base)]


def _reshape(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    if math.prod(attrs["shape"]) != math.prod(shape):
        raise ShapeError(
            "reshape: x and shape differ in the number of elements", x=shape, shape=attrs["shape"]
        )
    return [(dtype, attrs["shape"])]


def _permute(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    if sorted(attrs["dims"]) != list(range(len(shape))):
        raise AttrError("permute: dims are not a permutation of x's", dims=attrs["dims"], x=shape)
    return [(dtype, tuple(shape[d] for d in attrs["dims"]))]


def _expand(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    (dtype, shape), target = inputs[0], attrs["shape"]
    if len(target) < len(shape) or broadcast("expand", shape, target, args="x shape") != target:
        raise ShapeError("expand: x does not broadcast to shape", x=shape, shape=target)
    return [(dtype, target)]


def _slice(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    dim, start, stop, step = attrs["dim"], attrs["start"], attrs["stop"], attrs["step"]
    _dim("slice", dim, len(shape))
    if not start <= stop <= shape[dim] or not 1 <= step < MAX_ELEMENTS:
        raise AttrError("slice: start, stop or step out of range", x=shape, **attrs)
    return [(dtype, (*shape[:dim], -((start - stop) // step), *shape[dim + 1 :]))]


def _cat(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    (dtype, shape), dim = inputs[0], attrs["dim"]
    _dim("cat", dim, len(shape))
    for place, spec in enumerate(inputs):
        _want(f"cat: x[{place}]", spec, dtype)
        if len(spec[1]) != len(shape) or _reduced(spec[1], (dim,), 0) != _reduced(shape, (dim,), 0):
            raise ShapeError(f"cat: x[{place}] differs from x[0] outside dim", x0=shape, got=spec[1], dim=dim)
    return [(dtype, (*shape[:dim], sum(s[dim] for _, s in inputs), *shape[dim + 1 :]))]


def _full(_inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    if attrs["bits"] >> {F32: 32, I64: 64, BOOL: 1}[attrs["dtype"]]:
        raise AttrError("full: bits do not fit the dtype", dtype=attrs["dtype"].name, bits=attrs["bits"])
    return [(attrs["dtype"], attrs["shape"])]


def _arange(_inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    return [(I64, (attrs["n"],))]


def _philox(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    _want_all("philox", "seed step", inputs, I64)
    if inputs[0][1] or inputs[1][1]:
        raise ShapeError("philox: seed and step must be scalars", seed=inputs[0][1], step=inputs[1][1])
    _want("philox: dtype", (attrs["dtype"], ()), F32, I64)
    if attrs["site"] >= MAX_SITES:
        raise AttrError(f"philox: site not below {MAX_SITES}", site=attrs["site"])
    return [(attrs["dtype"], attrs["shape"])]


# ------------------------------------------------------------------------------------------------- the table

_NUM = (F32, I64)
_KEEP = (("dim", "int"), ("keepdim", "int"))
_GROUPED = (*_WINDOW, ("groups", "int"))

OPS: tuple[Op, ...] = (
    Op(1, "add", *_elementwise("add", 2, _NUM)),
    Op(2, "sub", *_elementwise("sub", 2, _NUM)),
    Op(3, "mul", *_elementwise("mul", 2, _NUM)),
    Op(4, "div", *_elementwise("div", 2, (F32,))),
    Op(5, "neg", *_elementwise("neg", 1, _NUM)),
    Op(6, "maximum", *_elementwise("maximum", 2, (F32,))),
    Op(7, "minimum", *_elementwise("minimum", 2, (F32,))),
    Op(8, "sqrt", *_elementwise("sqrt", 1, (F32,))),
    Op(9, "exp", *_elementwise("exp", 1, (F32,))),
    Op(10, "log", *_elementwise("log", 1, (F32,))),
    Op(11, "rsqrt", *_elementwise("rsqrt", 1, (F32,))),
    Op(12, "erf", *_elementwise("erf", 1, (F32,))),
    Op(13, "tanh", *_elementwise("tanh", 1, (F32,))),
    Op(14, "sin", *_elementwise("sin", 1, (F32,))),
    Op(15, "cos", *_elementwise("cos", 1, (F32,))),
    Op(16, "log1p", *_elementwise("log1p", 1, (F32,))),
    Op(17, "pow", *_elementwise("pow", 2, (F32,))),
    Op(20, "eq", *_elementwise("eq", 2, _NUM, BOOL)),
    Op(21, "ne", *_elementwise("ne", 2, _NUM, BOOL)),
    Op(22, "lt", *_elementwise("lt", 2, _NUM, BOOL)),
    Op(23, "le", *_elementwise("le", 2, _NUM, BOOL)),
    Op(24, "gt", *_elementwise("gt", 2, _NUM, BOOL)),
    Op(25, "ge", *_elementwise("ge", 2, _NUM, BOOL)),
    Op(26, "logical_and", *_elementwise("logical_and", 2, (BOOL,))),
    Op(27, "logical_or", *_elementwise("logical_or", 2, (BOOL,))),
    Op(28, "logical_not", *_elementwise("logical_not", 1, (BOOL,))),
    Op(29, "where", "c a b", (), _where),
    Op(30, "cast", "a", (("dtype", "dtype"),), _cast),
    Op(40, "sum", *_reduce("sum")),
    Op(41, "amax", *_reduce("amax")),
    Op(42, "argmax", "x", _KEEP, _argmax),
    Op(50, "mm", *_matmul("mm", 2)),
    Op(51, "bmm", *_matmul("bmm", 3)),
    Op(52, "conv2d", "x w", _GROUPED, _conv2d),
    Op(53, "conv2d_input_grad", "dy w", (*_GROUPED, ("input_hw", "ints")), _conv2d_input_grad),
    Op(54, "conv2d_weight_grad", "dy x", (*_GROUPED, ("kernel_hw", "ints")), _conv2d_weight_grad),
    Op(55, "max_pool2d", "x", (("kernel", "ints"), *_WINDOW), _max_pool2d),
    Op(60, "take", "x idx", (), _take),
    Op(61, "scatter_add", "base idx src", (), _scatter_add),
    Op(70, "reshape", "x", (("shape", "ints"),), _reshape),
    Op(71, "permute", "x", (("dims", "ints"),), _permute),
    Op(72, "expand", "x", (("shape", "ints"),), _expand),
    Op(73, "slice", "x", (("dim", "int"), ("start", "int"), ("stop", "int"), ("step", "int")), _slice),
    Op(74, "cat", "x*", (("dim", "int"),), _cat),
    Op(80, "full", "", (("shape", "ints"), ("dtype", "dtype"), ("bits", "int")), _full),
    Op(81, "arange", "", (("n", "int"),), _arange),
    Op(82, "philox", "seed step", (("shape", "ints"), ("dtype", "dtype"), ("site", "int")), _philox),
)

BY_NAME = {op.name: op for op in OPS}
BY_ID = {op.id: op for op in OPS}


def lookup(name: str) -> Op:
    """The row of that name."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise UnknownOpError("no such operator", name=name) from None
