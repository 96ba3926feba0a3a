"""Matrix products that read their operands where they lie: in views, and before a cast from bf16 widens them."""

from __future__ import annotations

from collections.abc import Sequence

from repops.host.strided import MAX_OUTER, Matrices
from repops.opset import F32, Shape

from .graph import Graph, GraphNode
from .machine import Matmul
from .views import View, refined, regroup


def operand_views(graph: Graph, node: GraphNode, widens: bool) -> list[View]:
    """Return the views that a node reads. `widens`: the machine's products of f32 read operands of bf16, so that what
    is cast for them need not be in memory."""
    plain = [graph.view(value) for value in node.inputs]
    if not widens or node.op not in ("mm", "bmm") or graph.specs[node.outputs[0]][0] != F32:
        return plain
    narrow = [graph.before_cast(value) or view for value, view in zip(node.inputs, plain, strict=True)]
    return narrow if narrow != plain and matmul(graph, node, narrow) is not None else plain


def matmul(graph: Graph, node: GraphNode, reads: Sequence[View]) -> Matmul | None:
    """Return mm or bmm as a product of these views, or None if it has no terms of this form: a vector and a matrix that
    lies row by row, or a batch with too many loops."""
    a, b = reads
    (m, k), n, (result,) = a.shape[-2:], b.shape[-1], node.outputs
    # NOTE: a vector is multiplied faster by a matrix as it lies; but a copy of a matrix takes longer than the product.
    if (1 in (m, n) and all(view.is_contiguous() for view in reads)) or graph.elements(result) == 0:
        return None
    batch: Shape | None = a.shape[:-2]
    for view in (a, b):
        sizes = tuple(size for dim in view.dims[:-2] for size, _ in dim)
        batch = None if batch is None else refined(batch, sizes)
    if batch is None or len(batch) > MAX_OUTER + 1:
        return None
    found = [made for view in (a, b) if (made := _matrices(graph, view, batch)) is not None]
    if len(found) < 2:
        return None
    step, own = m * n, []
    for size in reversed(batch):
        own.append(step)
        step *= size
    found.append(Matrices(tuple(reversed(own)), n, 1, graph.specs[result][0]))
    return Matmul(batch, m, k, n, found)


def _matrices(graph: Graph, view: View, batch: Shape) -> Matrices | None:
    loops = regroup([factor for dim in view.dims[:-2] for factor in dim], batch)
    inner = View(view.base, 0, view.dims[-2:]).strides()
    if loops is None or any(len(loop) != 1 for loop in loops) or inner is None:
        return None
    # NOTE: packing reads runs along one of the two dimensions; a matrix without such runs is better copied.
    if 1 not in inner and 1 not in view.shape[-2:]:
        return None
    row, column = inner
    return Matrices(tuple(loop[0][1] for loop in loops), row, column, graph.specs[view.base][0])
