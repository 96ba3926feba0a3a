"""The mode tc16 on a processor: products beside the other modes' and torch's, in one thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from repops.host import cpu, exact, tensor_core
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import BF16
from repops.tensors import NUMPY_DTYPE, Array

from .report import Table
from .timing import Work, medians, one_thread, take_turns

PRODUCTS = ((512, 768, 2304), (1024, 1024, 1024))
CONVOLUTION = (16, 256, 256, 8)  # images, channels, filters, side; 3 x 3
SLOWEST = (64, 768, 512)
"""A product of subnormal factors: the data for which every block is computed element by element."""
TYPE = NUMPY_DTYPE[BF16]


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def _subnormal(*shape: int) -> Array:
    bits = np.random.default_rng(sum(shape)).integers(1, 128, shape, np.uint16)
    return bits.view(TYPE).astype(np.float32)


def _cases() -> Iterator[tuple[str, str, list[Array], dict[str, Any], int]]:
    """Yield names, operators, factors, attributes and multiply-adds."""
    for m, k, n in PRODUCTS:
        yield f"mm {m} x {k} x {n}", "mm", [_normal(m, k), _normal(k, n)], {}, m * k * n
    images, c, f, side = CONVOLUTION
    window = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    arrays = [_normal(images, c, side, side), _normal(f, c, 3, 3)]
    terms = images * side * side * f * c * 9
    yield f"conv2d {c} -> {f}, 3 x 3, side {side}, {images} images", "conv2d", arrays, window, terms
    m, k, n = SLOWEST
    yield f"mm {m} x {k} x {n}, subnormal factors", "mm", [_subnormal(m, k), _normal(k, n)], {}, m * k * n


def _theirs(operator: str, arrays: list[Array], dtype: torch.dtype) -> Work:
    a, b = (torch.from_numpy(x).to(dtype) for x in arrays)
    if operator == "conv2d":
        return partial(torch.nn.functional.conv2d, a, b, padding=1)
    return partial(torch.mm, a, b)


def measure(turns: int) -> Table:
    """Measure 10^9 multiply-adds a second of CPU time, with one thread."""
    of_isa = [(name, code) for code, name in enumerate(ISA_NAMES[: BEST_ISA + 1]) if code]
    ours = ["repops-f32, f32", "repops-f32, bf16", "exact, bf16", *(f"tc16, {name}" for name, _ in of_isa)]
    table = Table("tc16", ["product", "torch f32", "torch bf16", *ours])
    for name, operator, wide, attrs, terms in _cases():
        narrow = [x.astype(TYPE) for x in wide]
        works: list[Work] = [
            _theirs(operator, wide, torch.float32),
            _theirs(operator, wide, torch.bfloat16),
            partial(cpu.execute, operator, wide, attrs),
            partial(cpu.execute, operator, narrow, attrs),
            partial(exact.execute, operator, narrow, attrs),
            *(partial(tensor_core.execute, operator, narrow, attrs, isa=isa) for _, isa in of_isa),
        ]
        with one_thread():
            seconds = medians(take_turns(works, turns, time.process_time))
        table.add(name, *(f"{terms / found / 1e9:.3g}" for found in seconds))
    return table
