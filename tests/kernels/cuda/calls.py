"""Calls that reach every kernel: several tiles, chunks and levels, tails, strides, groups, and long lists."""

import ml_dtypes
import numpy as np


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def whole(*shape, seed=0, low=-(2**62), high=2**62):
    return np.random.default_rng(seed).integers(low, high, shape)


def special(*shape, seed=0):
    """Return ordinary values among zeros of both signs, subnormals, infinities and NaNs."""
    rng = np.random.default_rng(seed)
    odd = np.array([0, -0.0, 1e-45, -1e-40, np.inf, -np.inf, np.nan, 3e38], np.float32)
    return np.where(rng.random(shape) < 0.05, rng.choice(odd, shape), normal(*shape, seed=seed)).astype(
        np.float32
    )


def rounded(*arrays):
    return [array.astype(ml_dtypes.bfloat16) for array in arrays]


def zeros_and_signs(*shape, seed=0):
    """Return terms whose sums stay zero for long, so that a stray +0 is visible."""
    return np.random.default_rng(seed).choice(np.array([0, -0.0, -0.0, 1, -1], np.float32), shape)


def window(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def convolution(kind, images, channels, filters, size, kernel, make=normal, **options):
    """Return conv2d or one of its gradients, by forward sizes. Channels and filters are those of a group."""
    attrs = window(**options)
    groups = attrs["groups"]
    sides = zip(size, kernel, attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)
    out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sides)
    x = make(images, groups * channels, *size, seed=1)
    w = make(groups * filters, channels, *kernel, seed=2)
    y = make(images, groups * filters, *out, seed=3)
    if kind == "conv2d":
        return kind, [x, w], attrs
    if kind == "conv2d_input_grad":
        return kind, [y, w], {**attrs, "input_hw": size}
    return kind, [y, x], {**attrs, "kernel_hw": kernel}


def convolutions():
    for kind in ("conv2d", "conv2d_input_grad", "conv2d_weight_grad"):
        yield convolution(kind, 2, 17, 13, (9, 11), (4, 3), stride=(2, 1), padding=(1, 2), groups=2)
        yield convolution(kind, 1, 60, 33, (8, 7), (3, 3), padding=(1, 1))
        yield convolution(kind, 3, 5, 40, (13, 12), (3, 2), stride=(3, 2), padding=(2, 1), dilation=(2, 3))
        yield convolution(kind, 2, 64, 8, (7, 7), (1, 1), stride=(2, 2))
        yield convolution(kind, 2, 9, 7, (6, 6), (5, 5), make=special, padding=(4, 3))
        yield convolution(kind, 2, 40, 7, (6, 6), (4, 4), make=zeros_and_signs, padding=(3, 3), stride=(2, 3))
        yield convolution(kind, 1, 3, 3, (2, 3), (2, 2), padding=(2**30, 5), stride=(2**30 - 1, 2))
        yield convolution(kind, 1, 256, 250, (9, 28), (1, 1))
        yield convolution(kind, 1, 72, 65, (9, 9), (1, 1), padding=(1, 1))
    # Long enough that the mode exact splits them.
    yield convolution("conv2d", 2, 300, 40, (6, 6), (3, 3))
    yield convolution("conv2d_input_grad", 2, 40, 200, (6, 6), (3, 3), stride=(1, 2))
    yield convolution("conv2d_weight_grad", 12, 7, 9, (16, 16), (3, 3), padding=(1, 1))


def contractions():
    for m, k, n in ((130, 1100, 129), (64, 36, 260), (33, 513, 40), (257, 16, 255), (65, 24, 70)):
        yield "mm", [normal(m, k, seed=1), normal(k, n, seed=2)], {}
    yield "mm", [special(40, 700, seed=1), special(700, 50, seed=2)], {}
    yield "mm", [zeros_and_signs(40, 1030, seed=1), zeros_and_signs(1030, 36, seed=2)], {}
    yield "mm", [normal(1, 1100, seed=1), normal(1100, 300, seed=2)], {}
    yield "mm", [normal(300, 1030, seed=1), normal(1030, 1, seed=2)], {}
    yield "bmm", [normal(3, 1, 40, seed=1), normal(3, 40, 130, seed=2)], {}
    yield "bmm", [normal(3, 130, 600, seed=1), normal(3, 600, 1, seed=2)], {}
    yield "bmm", [normal(5, 30, 513, seed=1), normal(5, 513, 70, seed=2)], {}


def reductions():
    for name in ("sum", "amax"):
        yield name, [normal(9001, 33)], {"dims": (0,), "keepdim": 0}
        yield name, [special(3, 70000)], {"dims": (1,), "keepdim": 0}
        yield name, [normal(20, 7, 30, 31)], {"dims": (0, 2, 3), "keepdim": 1}
        yield name, [normal(20, 7, 30, 31)], {"dims": (0, 2), "keepdim": 1}
        yield name, [normal(5, 7, 30, 301)], {"dims": (1,), "keepdim": 1}
        yield name, [whole(33, 500)], {"dims": (0,), "keepdim": 0}
        yield name, [whole(5, 5000)], {"dims": (1,), "keepdim": 0}
        yield name, [whole(20, 500)], {"dims": (0,), "keepdim": 0}
    yield "sum", [normal(1, 4096 * 4096 // 8 + 3)], {"dims": (1,), "keepdim": 0}
    yield "argmax", [special(40, 1000)], {"dim": 1, "keepdim": 0}
    yield "argmax", [special(40, 100, 7)], {"dim": 1, "keepdim": 1}
    yield "argmax", [whole(3, 700, high=2**61) % 5], {"dim": 1, "keepdim": 0}
    yield "argmax", [whole(3, 70, 40) % 5], {"dim": 1, "keepdim": 0}
    pool = {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
    yield "max_pool2d", [special(3, 9, 20, 21)], pool


def movements():
    for dtype in (np.float32, np.int64, np.bool_, ml_dtypes.bfloat16):
        x = whole(33, 40, 18, low=-3, high=3).astype(dtype)
        yield "permute", [x], {"dims": (2, 0, 1)}
        yield "permute", [x], {"dims": (1, 0, 2)}
        yield "expand", [x[:, :1].copy()], {"shape": (2, 33, 40, 18)}
        yield "slice", [x], {"dim": 1, "start": 3, "stop": 39, "step": 2}
        yield "slice", [x.reshape(33, 720)], {"dim": 1, "start": 16, "stop": 720, "step": 1}
        yield "cat", [x, x[:, :3].copy(), x], {"dim": 1}
        yield "cat", [x.reshape(-1, 16), x.reshape(-1, 16)], {"dim": 0}
        yield "take", [x, whole(50, 3, low=-2, high=40)], {}
        yield "take", [x.reshape(33, -1), whole(50, low=-2, high=40)], {}
    for dtype in (1, 2, 3, 4):
        yield "full", [], {"shape": (70, 31), "dtype": dtype, "bits": 1}
    yield "arange", [], {"n": 5000}
    seed, step = np.array(-(2**63) + 5), np.array(2**40 + 3)
    for dtype in (1, 2):
        yield "philox", [seed, step], {"shape": (10007,), "dtype": dtype, "site": 2**24 - 1}
    few = np.random.default_rng(0).integers(0, 9, 5000)
    yield "scatter_add", [normal(9, 70), few, normal(5000, 70, seed=1)], {}
    many = whole(3000, low=-5, high=70005)
    yield "scatter_add", [special(70000, 2), many, special(3000, 2, seed=1)], {}
    yield "scatter_add", [normal(300), whole(40, 100, low=0, high=300), normal(40, 100, seed=1)], {}


def elementwise():
    yield "add", [special(300, 517, seed=1), special(517, seed=2)], {}
    yield "mul", [special(30, 16, 64, seed=1), special(30, 1, 64, seed=2)], {}
    yield "div", [special(100, 100, seed=1), special(100, 1, seed=2)], {}
    yield "where", [normal(30, 51, seed=1) > 0, normal(30, 1, seed=2), normal(seed=3)], {}
    yield "sub", [whole(70, 41, seed=1), whole(70, 1, seed=2)], {}
    yield "lt", [special(100, 64, seed=1), special(64, seed=2)], {}
    yield "logical_and", [normal(100, 64) > 0, normal(64) > 0], {}
    for dtype in (1, 2, 3):
        for x in (special(40, 33), whole(40, 33), special(40, 33) > 0):
            yield "cast", [x], {"dtype": dtype}
    yield "cast", [special(40, 33)], {"dtype": 4}
    yield "cast", rounded(special(40, 33)), {"dtype": 4}
    yield "cast", rounded(special(40, 33)), {"dtype": 1}
    yield "cast_stochastic", [special(40, 64, seed=1), whole(64, seed=2)], {}
    yield "where", [normal(30, 64, seed=1) > 0, *rounded(normal(30, 1, seed=2), normal(64, seed=3))], {}
    yield "erf", [special(40, 100)], {}
    yield "pow", [special(40, 100, seed=1), special(100, seed=2)], {}


def of_bf16():
    """Yield the contractions with factors of bf16."""
    for name, inputs, attrs in (*contractions(), *convolutions()):
        yield name, rounded(*inputs), attrs


def spread(*shape, low, high, seed=0):
    """Return values with random exponents from `low` to `high`, also subnormal ones, all below infinity."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(low, high, shape)
    return np.ldexp(rng.uniform(1, 1.99, shape), exponents).astype(np.float32) * rng.choice(
        np.array([1, -1], np.float32), shape
    )


def half_way(batches, k, tiny, seed=0):
    """Return factors of a bmm of bf16 whose sums are half-way between two results, plus `tiny` times 2^-266.

    The rest of the terms cancel. The first row has the terms as they are, the second with the opposite sign.
    """
    rng = np.random.default_rng(seed)
    a, b = np.zeros((batches, 2, k), np.float32), np.zeros((batches, k, 1), np.float32)
    for batch in range(batches):
        exponent = int(rng.integers(-110, 110))
        first = int(np.clip(exponent // 2, -126, 120))
        terms = [(np.ldexp(rng.integers(128, 256), exponent), 1.0)]  # bits 7 to 0
        terms.append((2.0**first, 2.0 ** (exponent - 1 - first)))
        terms.append((tiny * 2.0**-133, 2.0**-133))
        while len(terms) + 2 <= k:
            x, y = normal(2, seed=int(rng.integers(2**31))) * 2.0 ** rng.integers(-60, 60)
            x, y = rounded(x, y)
            terms += [(x, y), (-x, y)]
        order = rng.permutation(len(terms))
        pairs = np.array(terms, np.float64)[order]
        a[batch, 0, : len(terms)], b[batch, : len(terms), 0] = pairs[:, 0], pairs[:, 1]
    a[:, 1] = -a[:, 0]
    return rounded(a, b)


def hard_products():
    """Yield products of bf16 that are hard for sums of bytes: wide ranges, ties, cancellation, no finite sum."""
    for low, high in ((-133, 127), (-133, -120), (-40, 40), (-20, 0), (-9, 9), (60, 66), (110, 127)):
        for m, k, n in ((17, 70, 9), (5, 600, 70)):
            a, b = spread(m, k, low=low, high=high, seed=m), spread(k, n, low=low, high=high, seed=n)
            yield "mm", rounded(a, b), {}
            half = k // 2  # what cancels, but for the last bits of some terms
            a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half]
            b[: half // 4] *= np.float32(1 + 2.0**-7)
            yield "mm", rounded(a, b), {}
        one_row = spread(40, 33, low=low, high=high, seed=3)
        yield "mm", rounded(one_row, np.ones((33, 8), np.float32)), {}
    for tiny in (0, 1, -1):
        for k in (3, 40, 133):
            yield "bmm", half_way(20, k, tiny, seed=k), {}
    few = np.random.default_rng(0).integers(-9, 10, (2, 64, 64)).astype(np.float32)
    yield "mm", rounded(*few), {}
    yield "mm", rounded(*np.full((2, 64, 64), 255, np.float32)), {}
    for seed in range(4):
        yield "mm", rounded(special(40, 50, seed=seed), special(50, 30, seed=seed + 9)), {}
        infinite = normal(40, 50, seed=seed)
        infinite[seed, 3 * seed], infinite[20, 5] = np.inf, -np.inf
        yield "mm", rounded(infinite, zeros_and_signs(50, 30, seed=seed)), {}
        yield "bmm", rounded(special(3, 9, 40, seed=seed), normal(3, 40, 7, seed=seed)), {}
    yield "mm", rounded(np.full((3, 4), -0.0, np.float32), normal(4, 5)), {}
    yield "mm", rounded(normal(33, 9000, seed=1), normal(9000, 7, seed=2)), {}


def every_call():
    for family in (elementwise, reductions, contractions, convolutions, of_bf16, movements):
        yield from family()
