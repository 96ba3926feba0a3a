"""The kernel calls of a step, before they have memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from repops.fuse.phases import NotFusibleError

from .bodies import Apart, Bodies, Body
from .graph import VIEWS, Graph, GraphNode
from .groups import Groups, Unit
from .machine import Bind, Machine
from .products import matmul
from .views import View

ROUNDS = 4
"""Number of times that a graph is regrouped because some of its groups cannot be kernels."""


@dataclass
class Task:
    """A kernel call. `position` is its place in the program; pairs (read, write) in `shareable` may share memory. A
    `logged` task runs in every step, and may take `spare` bytes besides."""

    name: str
    position: float
    reads: list[View]
    writes: tuple[int, ...]
    bind: Bind
    shareable: set[tuple[int, int]] = field(default_factory=set)
    logged: bool = False
    spare: int = 0


def tasks_of(graph: Graph, machine: Machine) -> list[Task]:
    """Return the calls that compute a graph's results, in no order. Some task writes every base that they read."""
    apart: set[int] = set()
    for _ in range(ROUNDS):
        try:
            return _tasks(Bodies(graph, Groups(graph, apart), machine.widens), machine)
        except Apart as found:
            apart |= found.nodes
    # INVARIANT: without groups nothing can be refused.
    return _tasks(Bodies(graph, Groups(graph, range(len(graph.nodes))), machine.widens), machine)


def _tasks(bodies: Bodies, machine: Machine) -> list[Task]:
    graph, tasks, refused = bodies.graph, [], list[Unit]()
    for body in bodies.bodies:
        try:
            tasks.append(_task(body, graph, machine))
        except NotFusibleError:
            refused.append(body.unit)
    if refused:
        raise Apart(refused)
    return [*tasks, *_sources(graph, tasks, machine)]


def casts_of(graph: Graph, machine: Machine) -> list[Task]:
    """Return the calls that compute the kept casts from the program's slots."""
    return [_plain(node, machine, graph) for node in graph.casts]


def _sources(graph: Graph, tasks: list[Task], machine: Machine) -> list[Task]:
    """Return tasks for values that are needed and that no task writes: copies of views, operators without operands."""
    made = {value for task in tasks for value in task.writes} | set(range(graph.step + 1))
    earliest: dict[int, float] = {}  # position of a value's first reader
    wanted: deque[int] = deque()

    def want(values: Iterable[int], position: float) -> None:
        for value in values:
            earliest[value] = min(position, earliest.get(value, position))
            wanted.append(value)

    for task in tasks:
        want((view.base for view in task.reads), task.position)
    want(
        (graph.view(value).base for value in (*graph.after, *graph.watched, *graph.ends)),
        float(len(graph.nodes)),
    )
    found = []
    while wanted:
        value = wanted.popleft()
        if value in made or graph.elements(value) == 0:
            continue
        made.add(value)
        node = graph.maker[value]
        task = _copy(value, graph, machine) if node.op in VIEWS else _plain(node, machine, graph)
        task.position = earliest[value] - 0.5
        want((view.base for view in task.reads), task.position)
        found.append(task)
    return found


def _task(body: Body, graph: Graph, machine: Machine) -> Task:
    """Make the task of a body. Raises NotFusibleError."""
    position = float(body.unit.nodes[-1].number)
    if body.expression is not None and body.unfused is not None:
        bind, shareable = machine.fused(body.expression, body.strides, body.unfused)
        name = "fused " + " ".join(node.op for node in body.expression.nodes if node.op != "full")
        logged = any(graph.is_logged(operator.node) for operator in body.unfused.operators)
        spare = body.unfused.nbytes if logged else 0
        return Task(name, position, body.reads, body.writes, bind, shareable, logged, spare)
    node = body.node
    specs = [graph.specs[value] for value in node.inputs]
    logged = graph.is_logged(node)
    if node.op in ("mm", "bmm") and not all(
        _is_plain(*read, graph) for read in zip(body.reads, node.inputs, strict=True)
    ):
        shape = matmul(graph, node, body.reads)
        made = machine.product(node, shape) if shape is not None else None
        if made is not None:
            return Task(node.op, position, body.reads, body.writes, made, logged=logged)
    reads = [
        view if view.is_contiguous() else View.whole(value, graph.shape(value))
        for view, value in zip(body.reads, node.inputs, strict=True)
    ]
    return Task(node.op, position, reads, node.outputs, machine.operator(node, specs), logged=logged)


def _is_plain(view: View, value: int, graph: Graph) -> bool:
    """Return whether an operand is a contiguous value of its own dtype."""
    return view.is_contiguous() and graph.specs[view.base][0] == graph.specs[value][0]


def _plain(node: GraphNode, machine: Machine, graph: Graph) -> Task:
    """Make the task of an operator whose operands are whole values."""
    reads = [View.whole(value, graph.shape(value)) for value in node.inputs]
    specs = [graph.specs[value] for value in node.inputs]
    return Task(node.op, 0.0, reads, node.outputs, machine.operator(node, specs))


def _copy(value: int, graph: Graph, machine: Machine) -> Task:
    """Make the task that copies a view to an array of its own."""
    view = graph.view(value)
    return Task("copy", 0.0, [view], (value,), copy_of(view, graph.item_size(value), machine))


def copy_of(view: View, item_size: int, machine: Machine) -> Bind:
    """Return a call that writes the elements of a view one after the other."""
    factors = view.factors()
    shape, strides = tuple(size for size, _ in factors), tuple(stride for _, stride in factors)
    return machine.copy(shape, strides, item_size)
