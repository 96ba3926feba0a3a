"""Hooks that only read: metrics of a run, and the tensors of one node for a party that judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..commit import Record
from ..commit.tensor import Array
from ..program import SlotSource
from .interpreter import NodeHook, Site
from .values import Value


class Metrics(NodeHook):
    """Keeps named outputs of the latest step: `Metrics({"loss": SlotSource(node, output)})`."""

    def __init__(self, sources: Mapping[str, SlotSource]) -> None:
        self.latest: dict[str, Array] = {}
        self._names: dict[int, list[tuple[str, int]]] = {}
        for name, source in sources.items():
            self._names.setdefault(source.node, []).append((name, source.output))

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        for name, output in self._names.get(at.node, ()):
            self.latest[name] = outputs[output].array
        return outputs


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The inputs and outputs of one node in one step."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class Capture(NodeHook):
    """Keeps the tensors of some nodes in every step."""

    def __init__(self, *nodes: int) -> None:
        self.nodes = frozenset(nodes)
        self.found: dict[int, NodeValues] = {}
        self._inputs: tuple[Array, ...] = ()

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        self._inputs = tuple(value.array for value in inputs) if at.node in self.nodes else ()
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if at.node in self.nodes:
            self.found[at.node] = NodeValues(self._inputs, tuple(value.array for value in outputs))
        return outputs


class Chain(NodeHook):
    """Several hooks, applied in order."""

    def __init__(self, *hooks: NodeHook) -> None:
        self.hooks = hooks
        self.keeps_values = any(hook.keeps_values for hook in hooks)

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        for hook in self.hooks:
            inputs = hook.inputs(at, inputs)
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        for hook in self.hooks:
            outputs = hook.outputs(at, outputs)
        return outputs

    def record(self, at: Site, record: Record) -> Record:
        for hook in self.hooks:
            record = hook.record(at, record)
        return record
