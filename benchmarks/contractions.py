"""Matrix products and convolutions, of the shapes of real models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import repops
import torch

from .contest import Case, close, draw

aten = torch.ops.aten
Theirs = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
IMAGES = 16

# ResNet-50 for images of 32 x 32: channels in, out, kernel, image side, stride. Padding keeps the size.
RESNET_50 = (
    (3, 64, 3, 32, 1),
    (64, 64, 1, 32, 1),
    (64, 64, 3, 32, 1),
    (64, 256, 1, 32, 1),
    (256, 64, 1, 32, 1),
    (256, 128, 1, 32, 1),
    (128, 128, 3, 32, 2),
    (128, 512, 1, 16, 1),
    (256, 512, 1, 32, 2),
    (512, 128, 1, 16, 1),
    (128, 128, 3, 16, 1),
    (512, 256, 1, 16, 1),
    (256, 256, 3, 16, 2),
    (256, 1024, 1, 8, 1),
    (512, 1024, 1, 16, 2),
    (1024, 256, 1, 8, 1),
    (256, 256, 3, 8, 1),
    (1024, 512, 1, 8, 1),
    (512, 512, 3, 8, 2),
    (512, 2048, 1, 4, 1),
    (1024, 2048, 1, 8, 2),
    (2048, 512, 1, 4, 1),
    (512, 512, 3, 4, 1),
)

SQUARES = tuple((n, n, n) for n in (256, 512, 768, 1024, 2048))
# GPT-2 small, four sequences of 128 tokens: projections, the gradients of operands and weights, the head.
GPT_2 = (
    (512, 768, 2304),
    (512, 768, 768),
    (512, 768, 3072),
    (512, 3072, 768),
    (512, 2304, 768),
    (768, 512, 2304),
    (768, 512, 768),
    (768, 512, 3072),
    (3072, 512, 768),
    (512, 768, 50257),
)
ATTENTION = ((48, 128, 64, 128), (48, 128, 128, 64))
SMALL = tuple((n, n, n) for n in (32, 64, 128))
VECTORS = ((1, 768, 3072), (1, 3072, 768), (1, 768, 50257), (768, 768, 1), (3072, 768, 1))


def _product(family: str, *shape: int) -> Case:
    *batch, m, k, n = shape
    operator = "bmm" if batch else "mm"
    tensors = [draw(*batch, m, k), draw(*batch, k, n)]
    arrays = [tensor.numpy() for tensor in tensors]
    execute, function = repops.backend("cpu").execute, getattr(torch, operator)
    name = f"{operator} " + (f"{batch[0]} of " if batch else "") + f"{m} x {k} x {n}"
    return Case(
        family,
        name,
        lambda: execute(operator, arrays, {}),
        [lambda: function(*tensors)],
        lambda: close(execute(operator, arrays, {})[0], function(*tensors), name),
    )


def _convolutions(shape: tuple[int, ...]) -> Iterator[Case]:
    """Yield the three convolutions of a layer. torch computes each with all tensors in either memory format."""
    c, f, kernel, side, stride = shape
    x, w = draw(IMAGES, c, side, side), draw(f, c, kernel, kernel)
    dy = draw(IMAGES, f, side // stride, side // stride)
    window = {"stride": (stride,) * 2, "padding": (kernel // 2,) * 2, "dilation": (1, 1), "groups": 1}
    what = f"{c} -> {f}, {kernel} x {kernel}, side {side}" + (f", stride {stride}" if stride > 1 else "")

    def case(
        operator: str, title: str, tensors: list[torch.Tensor], more: dict[str, Any], theirs: Theirs
    ) -> Case:
        arrays = [tensor.numpy() for tensor in tensors]
        formats = [(x, w, dy), tuple(t.contiguous(memory_format=torch.channels_last) for t in (x, w, dy))]
        execute = repops.backend("cpu").execute
        name = f"{title} {what}"
        return Case(
            f"{title}, ResNet-50",
            name,
            lambda: execute(operator, arrays, {**window, **more}),
            [partial(theirs, *of_format) for of_format in formats],
            lambda: close(execute(operator, arrays, {**window, **more})[0], theirs(x, w, dy), name),
        )

    options = (window["stride"], window["padding"], (1, 1), False, (0, 0), 1)

    def forward(x: torch.Tensor, w: torch.Tensor, _dy: torch.Tensor) -> torch.Tensor:
        return aten.convolution(x, w, None, *options)

    def input_gradient(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return aten.convolution_backward(dy, x, w, None, *options, [True, False, False])[0]

    def weight_gradient(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return aten.convolution_backward(dy, x, w, None, *options, [False, True, False])[1]

    yield case("conv2d", "conv2d", [x, w], {}, forward)
    if c > 3:  # the gradient of an image is not needed
        yield case("conv2d_input_grad", "input gradient", [dy, w], {"input_hw": (side, side)}, input_gradient)
    yield case(
        "conv2d_weight_grad", "weight gradient", [dy, x], {"kernel_hw": (kernel,) * 2}, weight_gradient
    )


def cases() -> Iterator[Case]:
    for shape in (*SQUARES, *GPT_2):
        yield _product("mm", *shape)
    for batches in ATTENTION:
        yield _product("bmm of attention", *batches)
    for shape in SMALL:
        yield _product("small mm", *shape)
    for shape in VECTORS:
        yield _product("one row or column", *shape)
    for convolution in RESNET_50:
        yield from _convolutions(convolution)
