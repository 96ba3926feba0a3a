"""The mode exact: contractions compared with torch's of binary32 and binary64, sums with those of repops-f32."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import repops
import torch
from repops.fuse import composites
from repops.fuse.expression import record
from repops.fuse.fusion import Fused
from repops.host import cpu, exact
from repops.tensors import Array, spec_of

from .contractions import ATTENTION, GPT_2
from .report import Table, ms
from .timing import Work, medians, ratio, take_turns

CONVOLUTION = (16, 256, 256, 8)  # images, channels, filters, side; 3 x 3
CHOSEN = (96, 768, 128)
SUMS = (((4096, 4096), 1), ((4096, 4096), 0), ((512, 50257), 1))
ROWS = ((512, 768), (6144, 128))


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def _few_bits(*shape: int) -> Array:
    """Normal numbers cut to 8 significant bits, as bfloat16 has them."""
    return (_normal(*shape).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def chosen(m: int, k: int, n: int) -> list[Array]:
    """Return factors whose products cancel but for a term of 2^-298, at exponents so far apart that every element must
    be summed without rounding."""
    rng = np.random.default_rng(k)
    half = k // 2
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[:, :half] *= np.exp2(rng.integers(-60, 60, half))
    b[:half] *= np.exp2(rng.integers(-60, 60, (half, 1)))
    a[:, half:], b[half:] = a[:, :half], -b[:half]
    a[:, 0], b[0], a[:, half] = 2.0**-149, 2.0**-149, 0
    order = rng.permutation(k)
    return [np.ascontiguousarray(a[:, order], np.float32), np.ascontiguousarray(b[order], np.float32)]


def _products() -> Iterator[tuple[str, str, list[Array], dict[str, Any], Work]]:
    def case(name: str, operator: str, arrays: list[Array]) -> Any:
        return name, operator, arrays, {}, partial(getattr(torch, operator), *map(torch.from_numpy, arrays))

    for m, k, n in GPT_2:
        yield case(f"mm {m} x {k} x {n}", "mm", [_normal(m, k), _normal(k, n)])
    m, k, n = GPT_2[0]
    yield case(f"mm {m} x {k} x {n}, 8 bits", "mm", [_few_bits(m, k), _few_bits(k, n)])
    for batch, m, k, n in ATTENTION:
        arrays = [_normal(batch, m, k), _normal(batch, k, n)]
        yield case(f"bmm {batch} of {m} x {k} x {n}", "bmm", arrays)
    images, c, f, side = CONVOLUTION
    arrays = [_normal(images, c, side, side), _normal(f, c, 3, 3)]
    window = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    theirs = partial(torch.nn.functional.conv2d, *map(torch.from_numpy, arrays), padding=1)
    yield f"conv2d {c} -> {f}, 3 x 3, side {side}", "conv2d", arrays, window, theirs
    m, k, n = CHOSEN
    yield case(f"mm {m} x {k} x {n}, chosen", "mm", chosen(m, k, n))


def _terms(operator: str, arrays: Sequence[Array], elements: int) -> int:
    return elements * (arrays[1][0].size if operator == "conv2d" else arrays[0].shape[-1])


def products(turns: int) -> Table:
    """Measure contractions with one thread. Shares are of elements: those that the binary64 sum leaves open, and those
    of these that compensated sums leave open, too."""
    columns = ["product", "torch ms", "repops-f32 / torch", "exact / torch", "exact, ns per term"]
    table = Table("exact", [*columns, "left open by binary64", "by compensated sums"])
    torch.set_num_threads(1)
    repops.set_num_threads(1)
    for name, operator, arrays, attrs, theirs in _products():
        before = exact.decided()
        (found,) = exact.execute(operator, arrays, attrs)
        first, second = (now - then for now, then in zip(exact.decided(), before, strict=True))
        usual = partial(cpu.execute, operator, arrays, attrs)
        times = take_turns(
            [theirs, usual, partial(exact.execute, operator, arrays, attrs)], turns, time.process_time
        )
        seconds = medians(times)
        table.add(
            name,
            ms(seconds[0]),
            f"{ratio(times[1], times[0]):.2f}",
            f"{ratio(times[2], times[0]):.2f}",
            f"{seconds[2] / _terms(operator, arrays, found.size) * 1e9:.3f}",
            f"{(first + second) / found.size:.1e}",
            f"{second / found.size:.1e}",
        )
    return table


def sums(turns: int) -> Table:
    """Measure sums and fused rows with one thread."""
    table = Table("exact-sums", ["sum", "repops-f32 ms", "exact / repops-f32"])
    repops.set_num_threads(1)

    def add(name: str, usual: Work, ours: Work) -> None:
        times = take_turns([usual, ours], turns, time.process_time)
        table.add(name, ms(medians(times)[0]), f"{ratio(times[1], times[0]):.2f}")

    for shape, dim in SUMS:
        x, attrs = _normal(*shape), {"dims": (dim,), "keepdim": 0}
        for what, values in (("", x), (", squares", x * x), (", exponents 2^-60 to 2^60", _spread(x))):
            call = ("sum", [values], attrs)
            add(f"sum {shape} over {dim}{what}", partial(cpu.execute, *call), partial(exact.execute, *call))
    for shape in ROWS:
        x, w = _normal(*shape), _normal(shape[-1])
        for function, inputs, options in (
            (composites.softmax, [x], {}),
            (composites.layer_norm, [x, w, w], {"eps": 1e-5}),
        ):
            expression = record(function, [spec_of(array) for array in inputs], **options)
            usual, ours = Fused(expression), Fused(expression, exact=True)
            add(f"{function.__name__} {shape}", partial(usual, inputs), partial(ours, inputs))
    return table


def _spread(x: Array) -> Array:
    exponents = np.random.default_rng(0).integers(-60, 60, x.shape, dtype=np.int8)
    return np.ldexp(x, exponents)
