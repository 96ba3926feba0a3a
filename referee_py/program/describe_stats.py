"""The cost of a program, from declared types alone: nothing is run and no tensor is read."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from .describe import Graph
from .skeleton import Skeleton
from .structure import Structure


@dataclass(frozen=True)
class Stats:
    """Numbers of nodes, elements, bytes and operations of one step.

    `flops` counts two for a multiplication with its addition, one an element for an elementwise operator, one an input
    element for a reduction, and nothing for moving elements. `largest` are outputs as (bytes, node, output).
    """

    nodes_by_operator: dict[str, int]
    flops_by_operator: dict[str, int]
    state_elements: int
    state_bytes: int
    constant_bytes: int
    intermediate_bytes: int
    largest: tuple[tuple[int, int, int], ...]

    @property
    def nodes(self) -> int:
        return sum(self.nodes_by_operator.values())

    @property
    def flops(self) -> int:
        return sum(self.flops_by_operator.values())


def stats(graph: Graph, largest: int = 5) -> Stats:
    """Return the statistics of a validated program."""
    nodes: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    sizes = []
    for number, node in enumerate(graph.nodes):
        nodes[node.name] += 1
        flops[node.name] += node_flops(graph, node)
        sizes += [(type_.nbytes, number, output) for output, type_ in enumerate(node.outputs)]
    types = graph if isinstance(graph, Skeleton) else graph.skeleton
    ranked = sorted(sizes, key=lambda item: (-item[0], item[1], item[2]))
    return Stats(
        dict(nodes.most_common()),
        {name: count for name, count in flops.most_common() if count},
        sum(math.prod(type_.shape) for type_ in types.initial),
        sum(type_.nbytes for type_ in types.initial),
        sum(type_.nbytes for type_ in types.constants),
        sum(size for size, _, _ in sizes),
        tuple(ranked[:largest]),
    )


def commitment_steps(graph: Graph) -> float:
    """Estimate how many plain steps' time it takes to commit to one step, besides computing it: 3 to 20.

    A committed step pays for each node a call from Python and a few hashes, and hashes every intermediate value. NOTE:
    an estimate from declared types, so that strides which are chosen by it are the same on every machine. The rates are
    those of one core of a server; it is within a factor of two for the models of docs/benchmarks.md.
    """
    found = stats(graph)
    commit_s = found.nodes * 22e-6 + found.intermediate_bytes / 2e9
    step_s = found.nodes * 1.2e-6 + found.intermediate_bytes / 16e9 + found.flops / 150e9
    return commit_s / step_s if step_s else 0.0


def node_flops(graph: Graph, node: Structure) -> int:
    """Return the operations of one node, taps in the padding included."""
    out = math.prod(node.outputs[0].shape)
    match node.name:
        case "mm" | "bmm":
            return 2 * out * graph.type_of(node.inputs[0]).shape[-1]
        case "conv2d":
            return 2 * out * math.prod(graph.type_of(node.inputs[1]).shape[1:])
        case "conv2d_input_grad":  # every output of the forward convolution meets each tap once
            return 2 * _elements(graph, node, 0) * math.prod(graph.type_of(node.inputs[1]).shape[1:])
        case "conv2d_weight_grad":
            return 2 * _elements(graph, node, 0) * math.prod(node.outputs[0].shape[1:])
        case "max_pool2d":
            return out * int(math.prod(node.attrs["kernel"]))
        case "sum" | "amax" | "argmax":
            return _elements(graph, node, 0)
        case "scatter_add":
            return _elements(graph, node, 2)
    return out if node.op <= _LAST_ELEMENTWISE else 0


_LAST_ELEMENTWISE = 29
"""Number of `where`; `cast` and all operators after it move or make elements (docs/opset.md, table of operators)."""


def _elements(graph: Graph, node: Structure, place: int) -> int:
    return math.prod(graph.type_of(node.inputs[place]).shape)
