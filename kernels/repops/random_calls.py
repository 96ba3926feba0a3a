"""Pseudo-random calls of every operator, for the self-test and for tests/kernels.

The data comes from SHA-256 in counter mode, so a seed gives the same call on every machine and in every version. A new
operator adds its maker to `MAKERS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .opset import BF16, BOOL, F32, I64, Dtype, Shape, window_positions
from .tensors import NUMPY_DTYPE, Array

Call = tuple[list[Array], dict[str, Any]]
ANY = (F32, I64, BOOL, BF16)
Scale = Literal["tiny", "usual", "long"]

SPECIAL_F32 = np.array(
    [
        *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF),  # zeros, subnormals
        *(0x00800000, 0x80800000, 0x00800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F000000),  # smallest normal, largest
        *(0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF),  # infinities, NaNs
        *(0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x3F000000, 0x4B800000),  # +-1, beside 1, 1/2, 2^24
        *(
            0x5F000000,
            0xDF000000,
            0xDF000001,
            0x42B17218,
            0xC2CFF1B5,
            0x33800000,
        ),  # +-2^63, the value below -2^63, ends of exp, 2^-24
    ],
    dtype=np.uint32,
)
SPECIAL_I64 = np.array([0, 1, -1, 2, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63)], dtype=np.int64)


class Source:
    """A stream of values that depends only on the seed.

    `scale` sets the size of tensors: "tiny" has a few elements, which take the slow reference a millisecond; "usual"
    sometimes exceeds a chunk of 512 or a block of 4096; "long" always does, and also exceeds the share of one thread.
    """

    def __init__(self, seed: str, scale: Scale = "usual"):
        self.tiny, self.long = scale == "tiny", scale == "long"
        self._seed = seed.encode()
        self._counter = 0

    def bytes(self, count: int) -> bytes:
        blocks = range(self._counter, self._counter + (count + 31) // 32)
        self._counter = blocks.stop
        return b"".join(hashlib.sha256(b"%s/%d" % (self._seed, i)).digest() for i in blocks)[:count]

    def below(self, bound: int) -> int:
        return int.from_bytes(self.bytes(8), "little") % bound

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def choose(self, *items: Any) -> Any:
        return items[self.below(len(items))]

    def size(self) -> int:
        """Return a dimension: mostly small and odd, sometimes 0 or 1, sometimes longer than a vector or a panel."""
        if self.tiny:
            return int(self.choose(0, 1, 1, 2, 3, 4, 5, 9))
        return int(self.choose(0, 1, 1, 2, 3, 5, 7, 8, 13, 17, 33))

    def shape(self, low: int = 0, high: int = 4) -> Shape:
        if self.long:
            return self._long_shape()
        return tuple(self.size() for _ in range(self.between(low, min(high, 3) if self.tiny else high)))

    def _long_shape(self) -> Shape:
        rows, planes = self.between(2, 40), self.between(2, 3)
        return tuple(
            self.choose(
                (self.between(16385, 20000),),
                (rows, 20000 // rows + self.below(4)),
                (20000 // rows + self.below(4), rows),
                (planes, 1, rows, 9000 // rows + self.below(4)),
            )
        )

    def f32(self, shape: Shape) -> Array:
        n = int(np.prod(shape, dtype=np.int64))
        bits: Array = np.frombuffer(self.bytes(4 * n), dtype="<u4").astype(np.uint32)
        # Most styles avoid NaN and infinity, which would swallow a long sum.
        style = self.choose(0, 0, 1, 1, 2, 3, 4, 5, 5)
        if style == 0:  # between 2^-7 and 2, as in a network
            bits = (bits & 0x83FFFFFF) + np.uint32(0x3C000000)
        elif style == 1:  # small integers and many zeros
            return ((bits % 7).astype(np.float32) - np.float32(3)).reshape(shape)
        elif style == 2:  # any bits
            pass
        elif style == 3:  # ordinary values with a few special ones
            special = SPECIAL_F32[bits % len(SPECIAL_F32)]
            bits = np.where(bits >> 26 == 0, special, (bits & 0x83FFFFFF) + np.uint32(0x3C000000))
        elif style == 4:  # special values only, and NaNs of any payload
            special = SPECIAL_F32[bits % len(SPECIAL_F32)]
            bits = np.where((special & 0x7FFFFFFF) > 0x7F800000, special | (bits & 0x003FFFFE), special)
        else:  # magnitudes from 2^-95 to 2, so that products underflow gradually to zero
            bits = (bits & 0x807FFFFF) | ((32 + (bits >> 23) % 96) << 23)
        return bits.astype(np.uint32).view(np.float32).reshape(shape)

    def i64(self, shape: Shape) -> Array:
        n = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(self.bytes(8 * n), dtype="<i8").astype(np.int64)
        style = self.below(3)
        if style == 0:
            values = values % 9 - 4
        elif style == 1:
            values = SPECIAL_I64[values % len(SPECIAL_I64)]
        return values.reshape(shape)

    def array(self, dtype: Dtype, shape: Shape) -> Array:
        if dtype == BF16:
            return np.asarray(self.f32(shape).view(np.uint32) >> 16, np.uint16).view(NUMPY_DTYPE[BF16])
        if dtype == BOOL:
            n = int(np.prod(shape, dtype=np.int64))
            return (np.frombuffer(self.bytes(n), dtype=np.uint8) & 1).astype(np.bool_).reshape(shape)
        return self.f32(shape) if dtype == F32 else self.i64(shape)

    def factors(self) -> Dtype:
        """Return the dtype of a contraction's factors."""
        return Dtype(self.choose(F32, F32, BF16))

    def broadcastable(self, count: int) -> list[Shape]:
        """Return shapes that broadcast together: some dimensions become 1, some leading ones are dropped."""
        full = self.shape()
        shapes = []
        for _ in range(count):
            shape = tuple(1 if self.below(4) == 0 else dim for dim in full)
            shapes.append(shape[self.below(len(shape) + 1) if self.below(3) == 0 else 0 :])
        return shapes


# ----------------------------------------------------------------------------- makers of calls, one for each family


def _elementwise(arity: int, *dtypes: Dtype) -> Callable[[Source], Call]:
    def make(s: Source) -> Call:
        dtype = s.choose(*dtypes)
        return [s.array(dtype, shape) for shape in s.broadcastable(arity)], {}

    return make


def _where(s: Source) -> Call:
    cond, a, b = s.broadcastable(3)
    dtype = s.choose(*ANY)
    return [s.array(BOOL, cond), s.array(dtype, a), s.array(dtype, b)], {}


def _cast(s: Source) -> Call:
    given = s.choose(*ANY)
    casts = {F32: ANY, BF16: (F32, BF16)}.get(given, (F32, I64, BOOL))
    return [s.array(given, s.shape())], {"dtype": s.choose(*casts)}


def _cast_stochastic(s: Source) -> Call:
    a, r = s.broadcastable(2)
    return [s.f32(a), s.i64(r)], {}


def _reduce(s: Source) -> Call:
    if s.tiny:
        wide: Shape = (s.between(20, 200),)
        high: Shape = (s.between(20, 100), s.between(1, 5))
    else:
        wide, high = (s.between(1, 3), s.between(4000, 9000)), (s.between(4000, 5000), 19)
    shape = s.choose(s.shape(), s.shape(), wide, high)
    dims = tuple(d for d in range(len(shape)) if s.below(2))
    return [s.array(s.choose(F32, F32, I64), shape)], {"dims": dims, "keepdim": s.below(2)}


def _argmax(s: Source) -> Call:
    shape = tuple(max(1, dim) for dim in s.shape(1))
    return [s.array(s.choose(F32, I64), shape)], {"dim": s.below(len(shape)), "keepdim": s.below(2)}


def _mm(s: Source) -> Call:
    if s.tiny:
        m, n, k = s.size(), s.choose(s.size(), s.between(1, 40)), s.choose(s.size(), s.between(1, 20))
    elif s.long:
        m, n, k = s.between(1, 30), s.between(30, 70), s.between(1000, 1600)
    else:
        m, n = s.size(), s.choose(s.size(), s.between(30, 70))
        k = s.choose(s.size(), s.size(), s.between(500, 1100))
    dtype = s.factors()
    return [s.array(dtype, (m, k)), s.array(dtype, (k, n))], {}


def _bmm(s: Source) -> Call:
    (a, b), _ = _mm(s)
    batch = s.between(0, 3)
    dtype = s.factors()
    return [s.array(dtype, (batch, *a.shape)), s.array(dtype, (batch, *b.shape))], {}


def _pair(s: Source, low: int, high: int) -> Shape:
    return s.between(low, high), s.between(low, high)


def _geometry(s: Source, highest: int) -> tuple[Shape, Shape, dict[str, Shape]]:
    """Return an image size, a kernel size and window attributes that fit them."""
    attrs = {"stride": _pair(s, 1, 3), "padding": _pair(s, 0, 3), "dilation": _pair(s, 1, 2)}
    if s.below(3) == 0:
        attrs["stride"] = attrs["dilation"] = (1, 1)
    kernel = _pair(s, 1, 4)
    spans = zip(kernel, attrs["padding"], attrs["dilation"], strict=True)
    smallest = [max(0, d * (k - 1) + 1 - 2 * p) for k, p, d in spans]
    return tuple(low + s.below(highest) for low in smallest), kernel, attrs


# (channels, filters, images) for which the contraction usually has several chunks.
LONG_CONV = {"forward": (150, 5, 2), "input": (5, 150, 2), "weight": (7, 9, 12)}


def _conv(which: str) -> Callable[[Source], Call]:
    def make(s: Source) -> Call:
        groups, images = s.choose(1, 1, 2, 3), s.between(0, 3)
        channels, filters = s.choose(0, 1, 3, 9, 40 if which != "weight" else 3), s.choose(1, 2, 13)
        if s.tiny:
            channels, filters, images = s.choose(0, 1, 1, 2, 3), s.choose(1, 2, 3), s.choose(0, 1, 1, 2)
        elif s.long:  # K is the window or the plane times channels, filters or images
            channels, filters, images = LONG_CONV[which]
        size, kernel, window = _geometry(s, 16 if s.long else 3 if s.tiny else s.choose(4, 12))
        x, w = (images, channels * groups, *size), (filters * groups, channels, *kernel)
        y = (images, filters * groups, *window_positions(size, kernel, window))
        attrs: dict[str, Any] = {**window, "groups": groups}
        dtype = s.factors()
        if which == "input":
            return [s.array(dtype, y), s.array(dtype, w)], {**attrs, "input_hw": size}
        if which == "weight":
            return [s.array(dtype, y), s.array(dtype, x)], {**attrs, "kernel_hw": kernel}
        return [s.array(dtype, x), s.array(dtype, w)], attrs

    return make


def _max_pool2d(s: Source) -> Call:
    size, kernel, window = _geometry(s, 4 if s.tiny else 9)
    planes = (5, 20) if s.long else (s.between(0, 2), s.between(0, 3))
    return [s.f32((*planes, *size))], {"kernel": kernel, **window}


def _index(s: Source, rows: int, shape: Shape) -> Array:
    """Return row indices: mostly valid, some repeated, some out of range on either side."""
    small = np.frombuffer(s.bytes(int(np.prod(shape, dtype=np.int64))), dtype=np.uint8).astype(np.int64)
    index = small % (rows + 3) - 1
    return np.where(small == 255, np.iinfo(np.int64).min, index).reshape(shape)


def _take(s: Source) -> Call:
    x = s.array(s.choose(*ANY), (s.between(1, 90), 67) if s.long else s.shape(1, 3))
    return [x, _index(s, x.shape[0], (s.between(200, 400),) if s.long else s.shape(0, 2))], {}


def _scatter_add(s: Source) -> Call:
    base = s.f32((s.size(), *s.choose((), (), (3,), (2, 5), (70,))))
    index = _index(s, base.shape[0], (s.between(200, 400),) if s.long else s.shape(0, 2))
    return [base, index, s.f32((*index.shape, *base.shape[1:]))], {}


def _reshape(s: Source) -> Call:
    x = s.array(s.choose(*ANY), s.shape())
    return [x], {"shape": s.choose((x.size,), (*x.shape, 1), (1, *x.shape[::-1]))}


def _permute(s: Source) -> Call:
    x = s.array(s.choose(*ANY), s.shape())
    return [x], {"dims": tuple(sorted(range(x.ndim), key=lambda _: s.bytes(4)))}


def _expand(s: Source) -> Call:
    (shape,) = s.broadcastable(1)
    more = (s.between(0, 3),) if s.long else s.shape(0, 2)
    target = (*more, *(s.size() if dim == 1 else dim for dim in shape))
    return [s.array(s.choose(*ANY), shape)], {"shape": target}


def _slice(s: Source) -> Call:
    x = s.array(s.choose(*ANY), s.shape(1))
    dim = s.below(x.ndim)
    start = s.between(0, x.shape[dim])
    stop = s.between(start, x.shape[dim])
    return [x], {"dim": dim, "start": start, "stop": stop, "step": s.between(1, 4)}


def _cat(s: Source) -> Call:
    shape, dtype = s.shape(1), s.choose(*ANY)
    dim = s.below(len(shape))
    parts = [(*shape[:dim], s.size(), *shape[dim + 1 :]) for _ in range(s.between(1, 4))]
    return [s.array(dtype, part) for part in parts], {"dim": dim}


def _full(s: Source) -> Call:
    dtype = s.choose(*ANY)
    return [], {
        "shape": s.shape(),
        "dtype": dtype,
        "bits": s.below({F32: 1 << 32, I64: 1 << 64, BOOL: 2, BF16: 1 << 16}[dtype]),
    }


def _arange(s: Source) -> Call:
    return [], {"n": s.between(16385, 20000) if s.long else s.size()}


def _philox(s: Source) -> Call:
    return [s.i64(()), s.i64(())], {
        "shape": s.choose(s.shape(), (s.between(0, 300),)),
        "dtype": s.choose(F32, I64),
        "site": s.below(1 << 24),
    }


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
MAKERS: dict[str, Callable[[Source], Call]] = {
    **{name: _elementwise(2, F32, I64) for name in ("add", "sub", "mul", *_COMPARISONS)},
    **{name: _elementwise(2, F32) for name in ("div", "maximum", "minimum", "pow")},
    **{name: _elementwise(1, F32) for name in ("sqrt", "exp", "log", "rsqrt")},
    **{name: _elementwise(1, F32) for name in ("erf", "tanh", "sin", "cos", "log1p")},
    **{name: _elementwise(2, BOOL) for name in ("logical_and", "logical_or")},
    **{
        "cast_stochastic": _cast_stochastic,
        "neg": _elementwise(1, F32, I64),
        "logical_not": _elementwise(1, BOOL),
        "where": _where,
        "cast": _cast,
    },
    **{"sum": _reduce, "amax": _reduce, "argmax": _argmax, "mm": _mm, "bmm": _bmm},
    **{
        "conv2d": _conv("forward"),
        "conv2d_input_grad": _conv("input"),
        "conv2d_weight_grad": _conv("weight"),
    },
    **{"max_pool2d": _max_pool2d, "take": _take, "scatter_add": _scatter_add},
    **{"reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "cat": _cat},
    **{"full": _full, "arange": _arange, "philox": _philox},
}


def random_call(name: str, seed: object, scale: Scale = "usual") -> Call:
    """Return legal inputs and attributes for one operator. Equal arguments give equal calls."""
    return MAKERS[name](Source(f"repops/{name}/{seed}/{scale}", scale))
