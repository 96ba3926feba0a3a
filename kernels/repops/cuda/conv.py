"""Plans of conv2d and its gradients (kernels/cuda/conv.cu)."""

from __future__ import annotations

import math

from ..opset import Shape
from ..tensors import Call
from .contraction import TILES, Contraction, Tile, tiled
from .plan import LaunchPlan, Target, Word, ceil_div, elements, inputs_of, outputs_of, planner, workspace_of

NEAR = 1 << 30  # below this the kernels index with 32 bits


@planner("conv2d", "conv2d_input_grad", "conv2d_weight_grad")
def convolution(call: Call, target: Target) -> LaunchPlan:
    problem, operands, far = convolution_of(call)
    tiles = (Tile("far", *TILES[-1][1:]),) if far else TILES
    launches, workspaces = tiled(problem, target, f"conv.{call.op.name}", operands, tiles)
    return LaunchPlan(tuple(launches), workspaces)


def convolution_of(call: Call) -> tuple[Contraction, list[Word], bool]:
    """Return the contraction, the words of `Convolution` that follow its grid, and whether indices need 64 bits."""
    name, attrs, groups = call.op.name, call.attrs, call.attrs["groups"]
    shapes = [shape for _, shape in (*call.inputs, *call.outputs)]
    x, w, y = {
        "conv2d": shapes,
        "conv2d_input_grad": [shapes[2], shapes[1], shapes[0]],
        "conv2d_weight_grad": [shapes[1], shapes[2], shapes[0]],
    }[name]
    images, c, f = x[0], w[1], w[0] // groups
    window = w[2] * w[3]
    classes: Shape = (1, 1)
    if name == "conv2d_input_grad":
        classes = tuple(min(step, size) for step, size in zip(attrs["stride"], x[2:], strict=True))
        positions = math.prod(ceil_div(size, n) for size, n in zip(x[2:], attrs["stride"], strict=True))
        m, n, k = c, images * positions, f * window
        matrix, image = w, y
    elif name == "conv2d":
        m, n, k = f, images * y[2] * y[3], c * window
        matrix, image = w, x
    else:
        m, n, k = f, c * window, images * y[2] * y[3]
        matrix, image = y, x
    divisors = [math.gcd(s, d) for s, d in zip(attrs["stride"], attrs["dilation"], strict=True)]
    sources = {"conv2d": (1, 0), "conv2d_input_grad": (1, 0), "conv2d_weight_grad": (0, 1)}[name]
    operands: list[Word] = [groups, c, f, *x[2:], *y[2:], *w[2:]]
    operands += [*attrs["stride"], *attrs["padding"], *attrs["dilation"], images, k, *classes]
    for values in (attrs["stride"], attrs["dilation"]):
        operands += [value // by for value, by in zip(values, divisors, strict=True)]
    operands += [inputs_of(call)[i] for i in sources]

    far = not _near(matrix, image, x, w, attrs["padding"], attrs["dilation"])
    out = elements(call.outputs[0][1])
    batches = groups * math.prod(classes)
    dtype = call.inputs[0][0]
    problem = Contraction(m, n, batches, k, outputs_of(call)[0], out, workspace_of(call), dtype)
    return problem, operands, far


def _near(matrix: Shape, image: Shape, x: Shape, w: Shape, padding: Shape, dilation: Shape) -> bool:
    """Return whether every number that the kernels compute, also far into the padding, fits in 32 bits."""
    lines, columns = (
        size + 2 * p + d * k for size, p, d, k in zip(x[2:], padding, dilation, w[2:], strict=True)
    )
    return 2 * lines * columns + max(elements(matrix), elements(image)) < NEAR
