"""Shape and dtype rules: each returns an operator's outputs for its inputs and attributes, or raises an OpError."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from .signature import (
    BF16,
    BOOL,
    F32,
    I64,
    MAX_ELEMENTS,
    MAX_SITES,
    MAX_STEPS,
    AttrError,
    Attrs,
    ChainError,
    Dtype,
    DtypeError,
    Rule,
    Shape,
    ShapeError,
    Spec,
)

Signature = tuple[str, tuple[tuple[str, str], ...], Rule]
"""Argument names, attributes and rule of a row."""

# ---------------------------------------------------------------------------------------------- shared rules


def _want(where: str, spec: Spec, *allowed: Dtype) -> None:
    """Raise DtypeError unless the dtype is allowed. `where` is "operator: argument"."""
    if spec[0] not in allowed:
        raise DtypeError(f"{where}: dtype not allowed", got=spec[0].name, allowed=[d.name for d in allowed])


def _want_all(name: str, args: str, inputs: Sequence[Spec], *allowed: Dtype) -> None:
    for arg, spec in zip(args.split(), inputs, strict=True):
        _want(f"{name}: {arg}", spec, *allowed)


def _want_factors(name: str, args: str, inputs: Sequence[Spec]) -> Dtype:
    """Return the dtype of both factors of a contraction, which is also its result's."""
    _want_all(name, args, inputs, F32, BF16)
    if inputs[0][0] != inputs[1][0]:
        first, second = args.split()
        found = {first: inputs[0][0].name, second: inputs[1][0].name}
        raise DtypeError(f"{name}: {first} and {second} differ in dtype", **found)
    return inputs[0][0]


def _dim(name: str, value: int, rank: int) -> int:
    if value >= rank:
        raise AttrError(f"{name}: dim out of range", dim=value, rank=rank)
    return value


def _chain(name: str, steps: int) -> None:
    """Raise ChainError above MAX_STEPS; `steps` is the length of an element's longest chain (`referee_py.element`)."""
    if steps > MAX_STEPS:
        raise ChainError(f"{name}: an element has more than 2^30 steps", steps=steps)


def broadcast(name: str, *shapes: Shape, args: str = "") -> Shape:
    """Return the broadcast shape: aligned at the right, dimensions equal or 1. `args` names the shapes in an error."""
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


def elementwise(name: str, arity: int, allowed: Sequence[Dtype], result: Dtype | None = None) -> Signature:
    """Return argument names, attributes and rule of an operator on operands of one dtype, by default its result's."""
    args = ("a", "a b")[arity - 1]

    def rule(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
        _want_all(name, args, inputs, *allowed)
        if inputs[-1][0] != inputs[0][0]:
            raise DtypeError(f"{name}: a and b differ in dtype", a=inputs[0][0].name, b=inputs[-1][0].name)
        return [(result or inputs[0][0], broadcast(name, *(shape for _, shape in inputs), args=args))]

    return args, (), rule


# ------------------------------------------------------------------------------- rules, one for each shape family


def where(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    cond, a, b = inputs
    _want("where: c", cond, BOOL)
    if a[0] != b[0]:
        raise DtypeError("where: a and b differ in dtype", a=a[0].name, b=b[0].name)
    return [(a[0], broadcast("where", cond[1], a[1], b[1], args="c a b"))]


def cast(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    given, wanted = inputs[0][0], attrs["dtype"]
    if BF16 in (given, wanted) and not {given, wanted} <= {F32, BF16}:
        raise DtypeError("cast: bf16 is cast from and to f32 only", got=given.name, dtype=wanted.name)
    return [(wanted, inputs[0][1])]


def cast_stochastic(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    a, r = inputs
    _want("cast_stochastic: a", a, F32)
    _want("cast_stochastic: r", r, I64)
    return [(BF16, broadcast("cast_stochastic", a[1], r[1], args="a r"))]


def reduce(name: str) -> Signature:
    def rule(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
        (dtype, shape), dims = inputs[0], attrs["dims"]
        _want(f"{name}: x", inputs[0], F32, I64)
        if any(a >= b for a, b in itertools.pairwise(dims)):
            raise AttrError(f"{name}: dims must ascend", dims=dims)
        for dim in dims:
            _dim(name, dim, len(shape))
        _chain(name, math.prod(shape[dim] for dim in dims))
        return [(dtype, _reduced(shape, dims, _flag(name, "keepdim", attrs["keepdim"])))]

    return "x", (("dims", "ints"), ("keepdim", "int")), rule


def argmax(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    shape = inputs[0][1]
    _want("argmax: x", inputs[0], F32, I64)
    dim = _dim("argmax", attrs["dim"], len(shape))
    if shape[dim] == 0:
        raise ShapeError("argmax: no element to choose from", shape=shape, dim=dim)
    _chain("argmax", shape[dim])
    return [(I64, _reduced(shape, (dim,), _flag("argmax", "keepdim", attrs["keepdim"])))]


def matmul(name: str, rank: int) -> Signature:
    def rule(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
        (_, a), (_, b) = inputs
        dtype = _want_factors(name, "a b", inputs)
        if len(a) != rank or len(b) != rank or a[:-2] != b[:-2] or a[-1] != b[-2]:
            raise ShapeError(f"{name}: shapes do not fit", a=a, b=b)
        _chain(name, a[-1])
        return [(dtype, a[:-1] + b[-1:])]

    return "a b", (), rule


WINDOW = (("stride", "ints"), ("padding", "ints"), ("dilation", "ints"))
_MAX_WINDOW = 1 << 31  # exclusive, for stride, padding, dilation and kernel: products stay within 64 bits


def window_positions(size: Sequence[int], kernel: Sequence[int], attrs: Attrs) -> Shape:
    """Return the window positions (height, width): floor((size + 2 pad - dil (k - 1) - 1) / stride) + 1."""
    window = zip(size, kernel, attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in window)


def _windows(name: str, size: Shape, kernel: Shape, attrs: Any) -> Shape:
    """Return the window positions. Raise AttrError or ShapeError if there are none."""
    for attr, low in (("stride", 1), ("padding", 0), ("dilation", 1)):
        if len(attrs[attr]) != 2 or any(not low <= value < _MAX_WINDOW for value in attrs[attr]):
            raise AttrError(f"{name}: {attr} must be two ints in [{low}, 2^31)", value=attrs[attr])
    if len(kernel) != 2 or any(not 1 <= k < _MAX_WINDOW for k in kernel):
        raise ShapeError(f"{name}: kernel must be at least 1 x 1", kernel=kernel)
    positions = window_positions(size, kernel, attrs)
    if min(positions) < 1:
        raise ShapeError(f"{name}: window larger than the padded input", size=size, kernel=kernel)
    return positions


def _conv(name: str, x: Shape, w: Shape, attrs: Any) -> Shape:
    """Return the output shape of the forward convolution, to which the gradients compare theirs."""
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


def conv2d(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    (_, x), (_, w) = inputs
    dtype = _want_factors("conv2d", "x w", inputs)
    out = _conv("conv2d", x, w, attrs)
    _chain("conv2d", math.prod(w[1:]))
    return [(dtype, out)]


def conv2d_input_grad(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    name, (_, dy), (_, w) = "conv2d_input_grad", *inputs
    dtype = _want_factors(name, "dy w", inputs)
    if len(dy) != 4 or len(w) != 4:
        raise ShapeError(f"{name}: needs rank 4", dy=dy, w=w)
    x = (dy[0], w[1] * attrs["groups"], *_pair(name, attrs, "input_hw"))
    if _conv(name, x, w, attrs) != dy:
        raise ShapeError(f"{name}: dy does not belong to this convolution", dy=dy, x=x, w=w)
    _chain(name, dy[1] // attrs["groups"] * math.prod(w[2:]))
    return [(dtype, x)]


def conv2d_weight_grad(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    name, (_, dy), (_, x), groups = "conv2d_weight_grad", *inputs, attrs["groups"]
    dtype = _want_factors(name, "dy x", inputs)
    if len(dy) != 4 or len(x) != 4 or groups < 1 or x[1] % groups:
        raise ShapeError(f"{name}: needs rank 4 and channels that fit the groups", dy=dy, x=x, groups=groups)
    w = (dy[1], x[1] // groups, *_pair(name, attrs, "kernel_hw"))
    if _conv(name, x, w, attrs) != dy:
        raise ShapeError(f"{name}: dy does not belong to this convolution", dy=dy, x=x, w=w)
    _chain(name, dy[0] * math.prod(dy[2:]))
    return [(dtype, w)]


def max_pool2d(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    shape = inputs[0][1]
    _want("max_pool2d: x", inputs[0], F32)
    if len(shape) != 4:
        raise ShapeError("max_pool2d: needs rank 4", shape=shape)
    out = shape[:2] + _windows("max_pool2d", shape[2:], attrs["kernel"], attrs)
    # Only taps inside the plane are steps.
    _chain("max_pool2d", math.prod(map(min, attrs["kernel"], shape[2:])))
    return [(F32, out), (I64, out)]


def take(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    (dtype, x), (_, idx) = inputs
    _want("take: idx", inputs[1], I64)
    if not x:
        raise ShapeError("take: x is a scalar, which has no rows", x=x)
    return [(dtype, idx + x[1:])]


def scatter_add(inputs: Sequence[Spec], _attrs: Any) -> list[Spec]:
    (_, base), (_, idx), (_, src) = inputs
    _want("scatter_add: base", inputs[0], F32)
    _want("scatter_add: idx", inputs[1], I64)
    _want("scatter_add: src", inputs[2], F32)
    if not base or src != idx + base[1:]:
        raise ShapeError("scatter_add: shapes do not fit", base=base, idx=idx, src=src)
    _chain("scatter_add", 1 + math.prod(idx))
    return [(F32, base)]


def reshape(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    if math.prod(attrs["shape"]) != math.prod(shape):
        raise ShapeError(
            "reshape: x and shape differ in the number of elements", x=shape, shape=attrs["shape"]
        )
    return [(dtype, attrs["shape"])]


def permute(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    if sorted(attrs["dims"]) != list(range(len(shape))):
        raise AttrError("permute: dims are not a permutation of x's", dims=attrs["dims"], x=shape)
    return [(dtype, tuple(shape[d] for d in attrs["dims"]))]


def expand(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    (dtype, shape), target = inputs[0], attrs["shape"]
    if len(target) < len(shape) or broadcast("expand", shape, target, args="x shape") != target:
        raise ShapeError("expand: x does not broadcast to shape", x=shape, shape=target)
    return [(dtype, target)]


def sliced(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    dtype, shape = inputs[0]
    dim, start, stop, step = attrs["dim"], attrs["start"], attrs["stop"], attrs["step"]
    _dim("slice", dim, len(shape))
    if not start <= stop <= shape[dim] or not 1 <= step < MAX_ELEMENTS:
        raise AttrError("slice: start, stop or step out of range", x=shape, **attrs)
    return [(dtype, (*shape[:dim], -((start - stop) // step), *shape[dim + 1 :]))]


def cat(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    (dtype, shape), dim = inputs[0], attrs["dim"]
    _dim("cat", dim, len(shape))
    for place, spec in enumerate(inputs):
        _want(f"cat: x[{place}]", spec, dtype)
        if len(spec[1]) != len(shape) or _reduced(spec[1], (dim,), 0) != _reduced(shape, (dim,), 0):
            raise ShapeError(f"cat: x[{place}] differs from x[0] outside dim", x0=shape, got=spec[1], dim=dim)
    return [(dtype, (*shape[:dim], sum(s[dim] for _, s in inputs), *shape[dim + 1 :]))]


def full(_inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    if attrs["bits"] >> {F32: 32, I64: 64, BOOL: 1, BF16: 16}[attrs["dtype"]]:
        raise AttrError("full: bits do not fit the dtype", dtype=attrs["dtype"].name, bits=attrs["bits"])
    return [(attrs["dtype"], attrs["shape"])]


def arange(_inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    return [(I64, (attrs["n"],))]


def philox(inputs: Sequence[Spec], attrs: Any) -> list[Spec]:
    _want_all("philox", "seed step", inputs, I64)
    if inputs[0][1] or inputs[1][1]:
        raise ShapeError("philox: seed and step must be scalars", seed=inputs[0][1], step=inputs[1][1])
    _want("philox: dtype", (attrs["dtype"], ()), F32, I64)
    if attrs["site"] >= MAX_SITES:
        raise AttrError(f"philox: site not below {MAX_SITES}", site=attrs["site"])
    return [(attrs["dtype"], attrs["shape"])]
