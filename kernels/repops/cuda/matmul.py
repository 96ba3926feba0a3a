"""Plans of mm and bmm (kernels/cuda/matmul.cu)."""

from __future__ import annotations

from ..tensors import Call
from .contraction import CHUNK, Contraction, add_chunks, named, tiled
from .plan import (
    LaunchPlan,
    Target,
    Word,
    ceil_div,
    elements,
    inputs_of,
    launch,
    outputs_of,
    planner,
    workspace_of,
)

VECTOR_THREADS = 128


def product_of(call: Call) -> tuple[Contraction, list[Word]]:
    """Return the contraction of mm or bmm, and the words of `Matmul` that follow its grid."""
    (dtype, a), (_, b) = call.inputs
    (m, k), n = a[-2:], b[-1]
    batches = a[0] if len(a) == 3 else 1
    (out,) = outputs_of(call)
    total = elements(call.outputs[0][1])
    return Contraction(m, n, batches, k, out, total, workspace_of(call), dtype), [k, *inputs_of(call)]


@planner("mm", "bmm")
def matmul(call: Call, target: Target) -> LaunchPlan:
    c, operands = product_of(call)
    if c.out_elements and c.k and 1 in (c.m, c.n):
        return _vector(c, call, target)
    launches, workspaces = tiled(c, target, "matmul.matmul", operands)
    return LaunchPlan(tuple(launches), workspaces)


def _vector(c: Contraction, call: Call, target: Target) -> LaunchPlan:
    kernel, other = ("row_times_matrix", c.n) if c.m == 1 else ("matrix_times_column", c.m)
    chunks = ceil_div(c.k, CHUNK)
    to = c.out if chunks == 1 else c.workspace
    blocks = ceil_div(other, VECTOR_THREADS) * c.batches * chunks
    words: list[Word] = [c.batches, c.k, other, chunks, *inputs_of(call), to]
    first = launch(named(f"matmul.{kernel}", c.dtype), blocks, VECTOR_THREADS, words)
    if chunks == 1:
        return LaunchPlan((first,))
    return LaunchPlan((first, add_chunks(c, chunks, target)), (chunks * c.out_elements * 4,))
