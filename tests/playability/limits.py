"""Calls of every operator at and around the limits of the operator set: types and attributes; nothing is computed.

Ranks 0 to 9; dimensions 0, 1, usual and up to 2^40; products just below and just above 2^40, with a zero in each
place; up to 256 inputs; the longest attributes; windows, paddings, strides and dilations up to 2^31; every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from repops.opset import BF16, BOOL, F32, I64, MAX_ELEMENTS, MAX_RANK, Dtype, OpError, Shape, Spec, lookup

Call = tuple[list[Spec], dict[str, Any]]

FEW = (0, 1, 1, 1, 2, 3, 5)
EDGES = (31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097)
HUGE = (
    1 << 20,
    (1 << 22) + 1,
    1 << 29,
    (1 << 30) - 1,
    1 << 30,
    (1 << 30) + 1,
    (1 << 31) - 1,
    1 << 31,
    1 << 39,
)
LAST = (MAX_ELEMENTS - 1, MAX_ELEMENTS, MAX_ELEMENTS + 1)
MOST = (1 << 64) - 1
"""The largest number that an attribute can hold."""
WORDS = (*LAST, 1 << 62, (1 << 63) - 1, 1 << 63, MOST)
LIMIT_OF_WINDOW = 1 << 31


class Limits:
    """An endless supply of calls, determined by the seed."""

    def __init__(self, seed: object) -> None:
        self.random = Random(repr(seed))

    def call(self, name: str) -> Call:
        """Return types of inputs, and attributes; the operator takes most of them."""
        specs, attrs = _MAKERS[name](self)
        if self.random.random() < 0.1:
            specs = self._spoiled(specs)
        if attrs and self.random.random() < 0.1:
            attrs = self._bent(attrs)
        return specs, attrs

    # ------------------------------------------------------------------ numbers and shapes

    def choose(self, *items: Any) -> Any:
        return self.random.choice(items)

    def size(self) -> int:
        """Return a dimension."""
        kinds: list[Sequence[int]] = [FEW, FEW, FEW, EDGES, HUGE, LAST]
        return self.random.choice(self.random.choices(kinds, (8, 4, 2, 4, 3, 0.2))[0])

    def small(self) -> int:
        return self.random.choice((1, 1, 1, 2, 3, 4))

    def rank(self, low: int = 0) -> int:
        return self.random.choice((low, *range(low, MAX_RANK + 1), MAX_RANK, MAX_RANK, MAX_RANK + 1))

    def shape(self, low: int = 0) -> Shape:
        rank = self.rank(low)
        kind = self.random.random()
        if kind < 0.3:  # any sizes; of many dimensions most are 1
            dims = [self.size() if self.random.random() < 3 / (rank or 1) else 1 for _ in range(rank)]
        elif kind < 0.6:
            dims = [self.small() for _ in range(rank)]
        else:
            dims = self._full(rank)
        if rank and self.random.random() < 0.25:  # a zero, in each place
            dims[self.random.randrange(rank)] = 0
        return tuple(dims)

    def _full(self, rank: int) -> list[int]:
        """Return dimensions with as many elements as permitted, slightly fewer or more; or up to 2^44."""
        dims, left = list[int](), MAX_ELEMENTS << self.choose(0, 0, 0, 1, 4)
        for place in range(rank):
            last = place == rank - 1
            size = left if last else min(left, 1 << self.random.randrange(0, 40))
            dims.append(min(max(size - self.choose(0, 0, 1) * last, 1), MAX_ELEMENTS - 1))
            left = max(left // max(size, 1), 1)
        self.random.shuffle(dims)
        return dims

    def dtype(self) -> Dtype:
        return Dtype(self.choose(F32, I64, BOOL, BF16))

    def factors(self) -> Dtype:
        """Return the dtype of a contraction's factors."""
        return Dtype(self.choose(F32, BF16))

    def broadcastable(self, count: int) -> list[Shape]:
        full = self.shape()
        shapes = []
        for _ in range(count):
            shape = tuple(1 if self.random.random() < 0.2 else dim for dim in full)
            shapes.append(shape[self.random.randrange(len(shape) + 1) if self.random.random() < 0.3 else 0 :])
        return shapes

    def window(self) -> int:
        """Return a stride, a dilation or a kernel."""
        return int(
            self.choose(1, 1, 1, 2, 3, 7, self.choose(*EDGES), 1 << 20, LIMIT_OF_WINDOW - 1, LIMIT_OF_WINDOW)
        )

    def geometry(self, room: int) -> tuple[Shape, Shape, dict[str, Shape]]:
        """Return image, kernel and window attributes, which fit as long as they are below their limits.

        `room` bounds the image's elements.
        """
        sizes: list[int] = []
        kernels: list[int] = []
        attrs: dict[str, list[int]] = {"stride": [], "padding": [], "dilation": []}
        for _ in range(2):
            size = min(self.size(), room)
            room = max(room // max(size, 1), 1)
            padding = self.choose(0, 0, 1, self.window() - 1, LIMIT_OF_WINDOW - 1)
            dilation = self.window()
            reach = size + 2 * padding
            most = max((reach - 1) // dilation + 1, 1)
            kernel = min(self.choose(most, most, self.small(), self.window()), LIMIT_OF_WINDOW)
            stride = self.choose(self.window(), max(reach - dilation * (kernel - 1) - 1, 1))
            sizes.append(size)
            kernels.append(kernel)
            for key, value in zip(attrs, (stride, padding, dilation), strict=True):
                attrs[key].append(value)
        return (sizes[0], sizes[1]), (kernels[0], kernels[1]), {key: tuple(v) for key, v in attrs.items()}

    # ------------------------------------------------------------------ unsound calls

    def _spoiled(self, specs: list[Spec]) -> list[Spec]:
        """Change a dtype, rank or dimension, or the number of inputs by one."""
        specs = list(specs)
        if not specs:
            return [(F32, ())]
        i = self.random.randrange(len(specs))
        dtype, dims = specs[i]
        match self.choose("dtype", "rank", "dim", "more", "fewer"):
            case "dtype":
                specs[i] = self.dtype(), dims
            case "rank":
                specs[i] = dtype, (*dims, 1)
            case "dim" if dims:
                d = self.random.randrange(len(dims))
                specs[i] = dtype, (*dims[:d], self.choose(dims[d] + 1, self.size()), *dims[d + 1 :])
            case "more":
                specs.insert(i, specs[i])
            case _:
                del specs[i]
        return specs

    def _bent(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Change one attribute, or the length of a list."""
        key = self.random.choice(sorted(attrs))
        value = attrs[key]
        match value:
            case Dtype():
                value = self.dtype()
            case int():
                value = self.choose(value + 1, max(value - 1, 0), self.random.choice(WORDS), 0)
                value = min(value, MOST)
            case tuple():
                longer = (*value, self.choose(1, self.size()))
                value = self.choose(value[:-1], longer, (*value, *(1,) * (255 - len(value))), value[::-1])
        return {**attrs, key: value}


def outputs_of(name: str, specs: Sequence[Spec], attrs: dict[str, Any]) -> list[Spec]:
    """Return the result of the operator's rule, within the limits of tensors or not; anything if the rule fails."""
    op = lookup(name)
    try:
        return op.rule(specs, op.normalize(attrs))
    except (OpError, ValueError, IndexError, TypeError):
        return [specs[0] if specs else (F32, (1,))]


# ------------------------------------------------------------------------------------------ one maker a shape family


def _elementwise(arity: int, *dtypes: Dtype) -> Callable[[Limits], Call]:
    def make(limits: Limits) -> Call:
        dtype = limits.choose(*dtypes)
        return [(dtype, shape) for shape in limits.broadcastable(arity)], {}

    return make


def _where(limits: Limits) -> Call:
    dtype = limits.dtype()
    cond, a, b = limits.broadcastable(3)
    return [(BOOL, cond), (dtype, a), (dtype, b)], {}


def _cast(limits: Limits) -> Call:
    return [(limits.dtype(), limits.shape())], {"dtype": limits.dtype()}


def _cast_stochastic(limits: Limits) -> Call:
    a, r = limits.broadcastable(2)
    return [(F32, a), (I64, r)], {}


def _reduce(limits: Limits) -> Call:
    shape = limits.shape()
    dims = tuple(d for d in range(len(shape)) if limits.random.random() < limits.choose(0.5, 1))
    return [(limits.choose(F32, F32, I64), shape)], {"dims": dims, "keepdim": limits.choose(0, 1)}


def _argmax(limits: Limits) -> Call:
    shape = limits.shape(1)
    return [(limits.choose(F32, I64), shape)], {
        "dim": limits.random.randrange(max(len(shape), 1)),
        "keepdim": limits.choose(0, 1),
    }


def _matmul(batches: int) -> Callable[[Limits], Call]:
    def make(limits: Limits) -> Call:
        m, k, n = (limits.size() for _ in range(3))
        batch, dtype = (limits.size(),) * batches, limits.factors()
        return [(dtype, (*batch, m, k)), (dtype, (*batch, k, n))], {}

    return make


def _conv(which: str) -> Callable[[Limits], Call]:
    def make(limits: Limits) -> Call:
        images, channels, filters, groups = (
            limits.choose(1, limits.size()),
            limits.size(),
            limits.size(),
            limits.choose(1, 1, 2, 3),
        )
        if limits.random.random() < 0.7:
            images, channels, filters = limits.choose(0, 1, 2), limits.small(), limits.small()
        size, kernel, window = limits.geometry(limits.choose(1 << 10, 1 << 32, 1 << 41))
        dtype = limits.factors()
        x, w = (dtype, (images, channels * groups, *size)), (dtype, (filters * groups, channels, *kernel))
        attrs: dict[str, Any] = {**window, "groups": groups}
        y = outputs_of("conv2d", [x, w], attrs)[0]
        if which == "input":
            return [y, w], {**attrs, "input_hw": size}
        if which == "weight":
            return [y, x], {**attrs, "kernel_hw": kernel}
        return [x, w], attrs

    return make


def _max_pool2d(limits: Limits) -> Call:
    size, kernel, window = limits.geometry(limits.choose(1 << 10, 1 << 32, 1 << 41))
    planes = (limits.choose(0, 1, 1, 2, limits.size()), limits.choose(0, 1, 1, 2, limits.size()))
    return [(F32, (*planes, *size))], {"kernel": kernel, **window}


def _take(limits: Limits) -> Call:
    x, idx = limits.shape(1), limits.shape() if limits.random.random() < 0.5 else (limits.size(),)
    return [(limits.dtype(), x), (I64, idx)], {}


def _scatter_add(limits: Limits) -> Call:
    base, idx = limits.shape(1), limits.shape() if limits.random.random() < 0.5 else (limits.size(),)
    return [(F32, base), (I64, idx), (F32, (*idx, *base[1:]))], {}


def _reshape(limits: Limits) -> Call:
    shape = limits.shape()
    count = math.prod(shape)
    other = limits.choose(
        (count,), (*shape, 1), (1, *shape[::-1]), (*shape[:-2], math.prod(shape[-2:])), shape[::-1]
    )
    if not count and limits.random.random() < 0.7:  # another shape without elements
        other = list(limits.shape(1)) or [0]
        other[limits.random.randrange(len(other))] = 0
    # NOTE: a spoiled shape has products that no attribute holds.
    return [(limits.dtype(), shape)], {"shape": tuple(min(dim, MOST) for dim in other)}


def _permute(limits: Limits) -> Call:
    shape = limits.shape()
    dims = list(range(len(shape)))
    limits.random.shuffle(dims)
    return [(limits.dtype(), shape)], {"dims": tuple(dims)}


def _expand(limits: Limits) -> Call:
    (shape,) = limits.broadcastable(1)
    more = limits.choose((), (limits.size(),), (limits.small(),) * 2)
    return [(limits.dtype(), shape)], {
        "shape": (*more, *(limits.choose(1, limits.size()) if d == 1 else d for d in shape))
    }


def _slice(limits: Limits) -> Call:
    shape = limits.shape(1)
    dim = limits.random.randrange(max(len(shape), 1))
    size = shape[dim] if shape else 1
    start = limits.random.randint(0, size)
    stop = limits.choose(size, limits.random.randint(start, size))
    step = limits.choose(1, 2, 3, max(stop - start, 1), limits.random.choice(LAST))
    return [(limits.dtype(), shape)], {"dim": dim, "start": start, "stop": stop, "step": step}


def _cat(limits: Limits) -> Call:
    count = limits.choose(1, 2, 3, 12, 254, 255, 255, 256)
    shape, dtype = limits.shape(1), limits.dtype()
    if count > 12 and limits.random.random() < 0.7:  # small enough that this many fit
        shape = tuple(min(d, limits.small()) for d in shape)
    dim = limits.random.randrange(max(len(shape), 1))
    sizes = [limits.choose(0, 1, 2, shape[dim] if shape else 1) for _ in range(count)]
    return [(dtype, (*shape[:dim], size, *shape[dim + 1 :])) for size in sizes], {"dim": dim}


def _full(limits: Limits) -> Call:
    dtype = limits.dtype()
    bits = limits.choose(0, 1, (1 << {F32: 32, I64: 64, BOOL: 1, BF16: 16}[dtype]) - 1)
    return [], {"shape": limits.shape(), "dtype": dtype, "bits": bits}


def _arange(limits: Limits) -> Call:
    return [], {"n": limits.choose(limits.size(), limits.random.choice(WORDS))}


def _philox(limits: Limits) -> Call:
    site = limits.choose(0, (1 << 24) - 1, 1 << 24)
    return [(I64, ())] * 2, {"shape": limits.shape(), "dtype": limits.choose(F32, I64), "site": site}


_NUMERIC = ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")
_UNARY = ("sqrt", "exp", "log", "rsqrt", "erf", "tanh", "sin", "cos", "log1p")
_MAKERS: dict[str, Callable[[Limits], Call]] = {
    **dict.fromkeys(_NUMERIC, _elementwise(2, F32, I64)),
    **dict.fromkeys(("div", "maximum", "minimum", "pow"), _elementwise(2, F32)),
    **dict.fromkeys(_UNARY, _elementwise(1, F32)),
    **dict.fromkeys(("logical_and", "logical_or"), _elementwise(2, BOOL)),
    "neg": _elementwise(1, F32, I64),
    "logical_not": _elementwise(1, BOOL),
    **{
        "where": _where,
        "cast": _cast,
        "cast_stochastic": _cast_stochastic,
        "sum": _reduce,
        "amax": _reduce,
        "argmax": _argmax,
    },
    **{"mm": _matmul(0), "bmm": _matmul(1)},
    **{
        "conv2d": _conv("forward"),
        "conv2d_input_grad": _conv("input"),
        "conv2d_weight_grad": _conv("weight"),
    },
    **{"max_pool2d": _max_pool2d, "take": _take, "scatter_add": _scatter_add},
    **{"reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "cat": _cat},
    **{"full": _full, "arange": _arange, "philox": _philox},
}
