"""Plans of the elementwise operators (kernels/cuda/pointwise.cu)."""

from __future__ import annotations

from ..fuse.phases import row_major
from ..opset import ITEM_SIZE, MAX_RANK, Dtype, Shape
from ..tensors import Call
from .plan import (
    Axes,
    LaunchPlan,
    Target,
    Word,
    elements,
    grid,
    inputs_of,
    launch,
    merge,
    outputs_of,
    planner,
)

THREADS = 256
ELEMENTARY = ("exp", "log", "log1p", "tanh", "erf", "sin", "cos", "pow")


def broadcast_strides(shape: Shape, out: Shape) -> tuple[int, ...]:
    """Return the operand's stride for each dimension of the output: 0 where the operand is broadcast."""
    own = tuple(0 if size == 1 else step for size, step in zip(shape, row_major(shape), strict=True))
    return (0,) * (len(out) - len(shape)) + own


def _kernel(call: Call) -> str:
    def letters(dtype: Dtype) -> str:
        return dtype.name.lower()

    name = call.op.name
    if name == "where":
        return f"where_{ITEM_SIZE[call.outputs[0][0]]}"
    if name == "cast":
        return f"cast_{letters(call.inputs[0][0])}_{letters(call.outputs[0][0])}"
    # NOTE: the C headers have functions called exp_f32 and so on.
    name = f"map_{name}" if name in ELEMENTARY else name
    return f"{name}_{letters(call.inputs[0][0])}"


@planner(*["add", "sub", "mul", "div", "neg", "maximum", "minimum", "sqrt", "rsqrt"], *ELEMENTARY)
@planner(
    *[
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_not",
        "where",
        "cast",
        "cast_stochastic",
    ]
)
def elementwise(call: Call, target: Target) -> LaunchPlan:
    shape = call.outputs[0][1]
    n = elements(shape)
    if n == 0:
        return LaunchPlan(())
    dims, strides = merge(shape, *[broadcast_strides(own, shape) for _, own in call.inputs])
    if not dims:
        dims, strides = (1,), [(1,) for _ in strides]
    rest = 3 - len(strides)
    words: list[Word] = [n, *Axes(dims, strides[0]).words()]
    for operand in (*strides[1:], *[()] * rest):
        words += [*operand, *[0] * (MAX_RANK - len(operand))]
    words += [*inputs_of(call), *[0] * rest, *outputs_of(call)]
    per_thread = 16 // max(ITEM_SIZE[dtype] for dtype, _ in (*call.inputs, *call.outputs))
    blocks = grid(n, THREADS * per_thread, target)
    return LaunchPlan((launch(f"pointwise.{_kernel(call)}", blocks, THREADS, words),))
