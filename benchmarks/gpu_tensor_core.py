"""The mode tc16 on a GPU: whether its tensor cores keep the rule (docs/tensor-cores.md), block by block, and the speed
of contractions.

The mode is the rule in integers, so whoever computes it on a device compares the device with the rule first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from repops.block_data import DRAWERS, drawn
from repops.cuda.errors import RuleBroken
from repops.sums import SumMode

from .gpu_checks import Call, Differs
from .gpu_timings import CONVOLUTIONS, GPT2, GPT2_GRADIENTS, Case, bound

EACH = 1 << 15
"""Blocks of each kind of data: 600,000 in all."""


def blocks_keep_the_rule() -> int:
    """Compare EACH blocks, and a product, of every kind of data with the rule. Return how many; raise Differs."""
    from repops.cuda import rule

    try:
        return rule.check(EACH)
    except RuleBroken as error:
        raise Differs({"blocks": str(error).splitlines()}) from error


def calls_of_warpgroups() -> Iterator[Call]:
    """Yield products and convolutions, of all kinds of data, that are large enough for warpgroups."""
    for number, kind in enumerate(DRAWERS):
        rng = np.random.default_rng([number, 3])
        for m, k, n in ((64, 64, 64), (130, 70, 200), (200, 1100, 136), (256, 512, 192), (96, 40, 301)):
            yield "mm", [drawn(rng, kind, (m, k)), drawn(rng, kind, (k, n))], {}
        yield "bmm", [drawn(rng, kind, (3, 130, 600)), drawn(rng, kind, (3, 600, 72))], {}
    for images, channels, size, filters, kernel, stride, padding, groups in (
        (8, 64, 28, 64, 3, 1, 1, 1),
        (4, 128, 14, 256, 3, 2, 1, 1),
        (4, 256, 14, 64, 1, 1, 0, 1),
        (4, 64, 56, 64, 1, 1, 0, 1),
        (4, 3, 64, 64, 7, 2, 3, 1),
        (4, 64, 7, 256, 3, 1, 1, 2),
    ):
        rng = np.random.default_rng([size, filters])
        out = (size + 2 * padding - kernel) // stride + 1
        attrs = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": groups}
        shapes = (
            (images, channels, size, size),
            (filters, channels // groups, kernel, kernel),
            (images, filters, out, out),
        )
        for kind in ("ordinary", "infinities"):
            x, w, y = (drawn(rng, kind, shape) for shape in shapes)
            yield "conv2d", [x, w], attrs
            yield "conv2d_input_grad", [y, w], {**attrs, "input_hw": (size, size)}
            yield "conv2d_weight_grad", [y, x], {**attrs, "kernel_hw": (kernel, kernel)}


SQUARES = (("square", 4096, 4096, 4096), ("square", 8192, 8192, 8192), ("head", 8192, 768, 50304))


def cases() -> Iterator[Case]:
    """Yield contractions of bf16 in the mode tc16, beside the vendor's."""
    import torch

    torch.backends.cudnn.benchmark = True

    def drawn_there(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").bfloat16()

    for name, m, k, n in (*SQUARES, *GPT2, *GPT2_GRADIENTS):
        a, b = drawn_there(m, k), drawn_there(k, n)
        what, work = f"{name}: {m} x {k} x {n}", 2.0 * m * k * n
        yield Case(f"tc16 mm {what}", _ours("mm", [a, b]), partial(torch.mm, a, b), work, "TFLOP/s")
    for k, n in ((64, 1024), (1024, 64)):
        a, b = drawn_there(96, 1024, k), drawn_there(96, k, n)
        theirs, work = partial(torch.bmm, a, b), 2.0 * 96 * 1024 * k * n
        yield Case(f"tc16 bmm 96 x 1024 x {k} x {n}", _ours("bmm", [a, b]), theirs, work, "TFLOP/s")
    for images, channels, size, filters, kernel, stride, padding in CONVOLUTIONS:
        x, w = drawn_there(images, channels, size, size), drawn_there(filters, channels, kernel, kernel)
        attrs = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": 1}
        theirs = partial(torch.conv2d, x, w, stride=stride, padding=padding)
        work = 2.0 * theirs().numel() * channels * kernel * kernel
        shape = f"{images} x {channels} x {size}², {filters} of {kernel}², stride {stride}"
        yield Case(f"tc16 conv {shape}", _ours("conv2d", [x, w], **attrs), theirs, work, "TFLOP/s")


def _ours(name: str, inputs: list[Any], **attrs: Any) -> Callable[[], object]:
    return bound(name, inputs, attrs, SumMode.TC16)
