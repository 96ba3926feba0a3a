"""The nodes of a graph, with those of the branches of `If`, and which tensors of the file are weights.

A file keeps its numbers as initialisers, as `Constant` nodes, or inside a branch; exporters differ (Paddle and
TorchScript write nodes). All become tensors of the model here, under names of their own.

    weight   a f32 tensor that reaches the outputs through arithmetic with data
    known    any other: a scale of `Resize`, a limit of `Clip`, a number in the arithmetic of shapes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch

from ..capture.errors import CaptureError

MAX_NODES = 1 << 18
MAX_DEPTH = 32
"""Deepest nesting of branches."""

_KNOWN_PLACES: Mapping[str, tuple[int, ...]] = {
    "Clip": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "If": (0,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Shape": (0,),
    "Size": (0,),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
    "Upsample": (1,),
}
"""Operands whose values a program must know, or that it does not read; a parameter would be none."""


@dataclass(frozen=True)
class OnnxNode:
    """One operator: its inputs and outputs by name, "" for one that is left out. `If` has two branches."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    branches: Mapping[str, Branch] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"ONNX node {self.name or self.op}"[:160]


@dataclass(frozen=True)
class Branch:
    """Nodes in order, which may read the names around them, and the names of the results."""

    nodes: tuple[OnnxNode, ...]
    outputs: tuple[str, ...]


def flat(nodes: Sequence[OnnxNode]) -> Iterator[OnnxNode]:
    """Give all nodes in an order in which each comes after what it reads: those of branches before their `If`."""
    for node in nodes:
        for branch in node.branches.values():
            yield from flat(branch.nodes)
        yield node


def reads(node: OnnxNode) -> set[str]:
    """Return the names that a node needs from around it, those that its branches read included."""
    names = set(node.inputs)
    for branch in node.branches.values():
        names |= set(branch.outputs)
        inner: set[str] = set()
        for child in branch.nodes:
            names |= reads(child)
            inner |= set(child.outputs)
        names -= inner
    return names - {""}


class Reader:
    """Reads the nodes of a graph and its branches, and collects their tensors.

    `node` reads one node without its inputs, outputs and branches; `tensor` one tensor of a branch.
    """

    def __init__(
        self, node: Callable[[onnx.NodeProto], OnnxNode], tensor: Callable[[onnx.TensorProto], torch.Tensor]
    ) -> None:
        self._node, self._tensor = node, tensor
        self._count = 0
        self.constants: dict[str, torch.Tensor] = {}
        """f32 tensors of Constant nodes, and all tensors of branches."""
        self._used: set[str] = set()

    def nodes(
        self, found: Sequence[onnx.NodeProto], called: dict[str, str] | None = None, depth: int = 0
    ) -> tuple[OnnxNode, ...]:
        """Return the nodes. `called` says what names of the file are called here, if not as in the file."""
        called = {} if called is None else called
        self._count += len(found)
        if self._count > MAX_NODES or depth > MAX_DEPTH:
            raise CaptureError(
                f"a model of more than {MAX_NODES} nodes, or with branches {MAX_DEPTH} deep; export it with fewer"
            )
        result = []
        for proto in found:
            node = self._node(proto)
            inputs = tuple(called.get(name, name) for name in proto.input)
            branches = {
                attribute.name: self._branch(attribute.g, dict(called), depth + 1)
                for attribute in proto.attribute
                if attribute.type == onnx.AttributeProto.GRAPH
            }
            outputs = tuple(self._called(name, called, depth) for name in proto.output)
            value = node.attributes.get("value") if node.op == "Constant" and len(outputs) == 1 else None
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.ndim and outputs[0]:
                self._keep(outputs[0], value)
                continue
            result.append(OnnxNode(node.op, node.name, inputs, outputs, node.attributes, branches))
        return tuple(result)

    def _keep(self, name: str, value: torch.Tensor) -> None:
        if name in self.constants:
            raise CaptureError(f"the model gives {name[:80]!r} twice; export it again")
        self.constants[name] = value

    def _called(self, name: str, called: dict[str, str], depth: int) -> str:
        """Return a name that nothing else in the model has: branches beside each other may use the same names."""
        unique, count = name, 1
        while depth and name and unique in self._used:
            unique, count = f"{name}.{count}", count + 1
        self._used.add(unique)
        if depth:
            called[name] = unique
        return unique

    def _branch(self, graph: onnx.GraphProto, called: dict[str, str], depth: int) -> Branch:
        for tensor in graph.initializer:
            self._keep(self._called(tensor.name, called, depth), self._tensor(tensor))
        nodes = self.nodes(graph.node, called, depth)
        return Branch(nodes, tuple(called.get(value.name, value.name) for value in graph.output))


def weights_of(
    nodes: Sequence[OnnxNode],
    inputs: Sequence[str],
    outputs: Sequence[str],
    tensors: Mapping[str, torch.Tensor],
) -> frozenset[str]:
    """Return the f32 tensors with a dimension that reach the outputs through arithmetic with data."""
    order = list(flat(nodes))
    data = set(inputs)
    for node in order:
        sources = {name for branch in node.branches.values() for name in branch.outputs} | set(node.inputs)
        if node.op not in ("Shape", "Size") and data & sources:
            data.update(node.outputs)
    data.discard("")
    reaching = data.intersection(outputs)
    for node in reversed(order):
        if node.branches and reaching.intersection(node.outputs):
            reaching.update(name for branch in node.branches.values() for name in branch.outputs)
        if not (data | reaching).intersection(node.outputs):
            continue
        known = _KNOWN_PLACES.get(node.op, ())
        reaching.update(name for place, name in enumerate(node.inputs) if place not in known)
    return frozenset(
        name
        for name, tensor in tensors.items()
        if name in reaching and tensor.dtype == torch.float32 and tensor.ndim
    )
