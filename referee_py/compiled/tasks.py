"""The kernel calls of a step, before they have memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from repops.opset import Shape
from repops.phases import NotFusibleError
from repops.strided import MAX_OUTER, Matrices

from .bodies import Apart, Bodies, Body
from .graph import VIEWS, Graph, Node
from .groups import Groups
from .machine import Bind, Machine, Matmul
from .views import View, refined, regroup


@dataclass
class Task:
    """A kernel call. `position` is its place in the program; `shareable` pairs (read, write) may be one memory."""

    name: str
    position: float
    reads: list[View]
    writes: tuple[int, ...]
    bind: Bind
    shareable: set[tuple[int, int]] = field(default_factory=set)


def tasks_of(graph: Graph, machine: Machine) -> tuple[list[Task], Bodies]:
    """The calls that compute a graph's results, in no order. Every view read is of something a task writes."""
    apart: set[int] = set()
    while True:
        try:
            return _tasks(Bodies(graph, Groups(graph, apart)), machine)
        except Apart as found:
            apart |= {node.number for node in found.unit.nodes}


def _tasks(bodies: Bodies, machine: Machine) -> tuple[list[Task], Bodies]:
    graph = bodies.graph
    tasks = [_task(body, bodies, machine) for body in bodies.bodies]
    made = {value for task in tasks for value in task.writes} | set(range(graph.step + 1))
    wanted = [(view.base, task.position) for task in tasks for view in task.reads]
    wanted += [(bodies.view(value).base, float(len(graph.nodes))) for value in (*graph.after, *graph.watched)]
    while wanted:
        value, position = wanted.pop(0)
        if value in made or graph.elements(value) == 0:
            continue
        made.add(value)
        node = graph.maker[value]
        task = _copy(value, bodies, machine) if node.op in VIEWS else _plain(node, machine)
        task.position = (
            min([position, *(t.position for t in tasks if value in [v.base for v in t.reads])]) - 0.5
        )
        wanted += [(view.base, task.position) for view in task.reads]
        tasks.append(task)
    return tasks, bodies


def _task(body: Body, bodies: Bodies, machine: Machine) -> Task:
    graph, position = bodies.graph, float(body.unit.nodes[-1].number)
    if body.expression is not None:
        try:
            bind, shareable = machine.fused(body.expression, body.strides)
        except NotFusibleError as error:
            raise Apart(body.unit) from error
        name = "fused " + " ".join(node.op for node in body.expression.nodes if node.op != "full")
        return Task(name, position, body.reads, body.writes, bind, shareable)
    node = body.node
    if node.op in ("mm", "bmm") and (made := _product(body, graph, machine)) is not None:
        return Task(node.op, position, body.reads, body.writes, made)
    reads = [
        view if view.is_contiguous() else View.whole(value, graph.shape(value))
        for view, value in zip(body.reads, node.inputs, strict=True)
    ]
    specs = [graph.specs[value] for value in node.inputs]
    return Task(node.op, position, reads, node.outputs, machine.operator(node.op, specs, node.attrs))


def _plain(node: Node, machine: Machine) -> Task:
    """An operator without operands."""
    return Task(node.op, 0.0, [], node.outputs, machine.operator(node.op, [], node.attrs))


def _copy(value: int, bodies: Bodies, machine: Machine) -> Task:
    """A view as an array of its own."""
    view = bodies.view(value)
    factors = [factor for dim in view.dims for factor in dim]
    shape, strides = tuple(size for size, _ in factors), tuple(stride for _, stride in factors)
    size = bodies.graph.item_size(value)
    return Task("copy", 0.0, [view], (value,), machine.copy(shape, strides, size))


def _product(body: Body, graph: Graph, machine: Machine) -> Bind | None:
    """A matrix product that reads its operands where they lie; None if one of them does not lie well enough."""
    a, b = body.reads
    (m, k), n = a.shape[-2:], b.shape[-1]
    if (
        all(view.is_contiguous() for view in (a, b))
        or m == 1
        or n == 1
        or graph.elements(body.writes[0]) == 0
    ):
        return None
    batch: Shape | None = a.shape[:-2]
    for view in (a, b):
        sizes = tuple(size for dim in view.dims[:-2] for size, _ in dim)
        batch = None if batch is None else refined(batch, sizes)
    if batch is None or len(batch) > MAX_OUTER + 1:
        return None
    operands = [made for view in (a, b) if (made := _matrices(view, batch)) is not None]
    if len(operands) < 2:
        return None
    step, own = m * n, []
    for size in reversed(batch):
        own.append(step)
        step *= size
    operands.append(Matrices(tuple(reversed(own)), n, 1))
    return machine.product(Matmul(batch, m, k, n, operands))


def _matrices(view: View, batch: Shape) -> Matrices | None:
    loops = regroup([factor for dim in view.dims[:-2] for factor in dim], batch)
    inner = View(view.base, 0, view.dims[-2:]).strides()
    if loops is None or any(len(loop) != 1 for loop in loops) or inner is None:
        return None
    # NOTE: packing reads runs of one of the two; a matrix that has none is better copied.
    if 1 not in inner and 1 not in view.shape[-2:]:
        return None
    return Matrices(tuple(loop[0][1] for loop in loops), *inner)
