"""Computes outputs of a program's first step, whatever computes its operators, with as few values at once as it can.

For the guard: a step that is compared needs no hashes, no records and no optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from repops.opset import BF16

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, SlotSource, Structure

from .draft import Loaded

Execute = Callable[[Structure, Sequence[Any]], Sequence[Any]]
"""Computes the outputs of a node, from its inputs."""


def compared_outputs(loaded: Loaded) -> dict[str, SlotSource]:
    """Return where the metrics of a step come from, and the buffers and frozen parameters after it, by name."""
    after = zip(loaded.labels.slots, loaded.skeleton.slots, strict=True)
    written = {name: source for name, source in after if name.startswith(("buffer.", "frozen."))}
    return {**loaded.labels.metrics, **written}


def evaluate(
    loaded: Loaded, read: Callable[[Array], Any], execute: Execute, step: Any
) -> Iterator[tuple[str, Any]]:
    """Yield each compared output by name, as soon as it is computed. `read` prepares a tensor of the program, `step` is
    the first step's number.

    A value is dropped after its last use. Raises what `execute` raises.
    """
    nodes = loaded.skeleton.nodes
    wanted: dict[int, list[tuple[str, int]]] = {}
    for name, source in compared_outputs(loaded).items():
        wanted.setdefault(source.node, []).append((name, source.output))
    last = _last_uses(nodes, wanted)
    sources = {Kind.CONSTANT: loaded.constants, Kind.SLOT: loaded.initial}
    values: dict[int, Sequence[Any]] = {}

    def value(operand: Operand) -> Any:
        if operand.kind == Kind.NODE:
            return values[operand.index][operand.output]
        return step if operand.kind == Kind.STEP else read(sources[operand.kind][operand.index])

    for k, node in enumerate(nodes):
        if k not in last:
            continue
        values[k] = execute(node, [value(operand) for operand in node.inputs])
        for name, output in wanted.get(k, ()):
            yield name, values[k][output]
        for done in {k, *(operand.index for operand in node.inputs if operand.kind == Kind.NODE)}:
            if last[done] == k:
                del values[done]


def narrow_outputs(loaded: Loaded) -> frozenset[str]:
    """Return the names of compared outputs that bf16 has rounded somewhere on their way."""
    types = {Kind.CONSTANT: loaded.skeleton.constants, Kind.SLOT: loaded.skeleton.initial}
    narrow: list[bool] = []
    for node in loaded.skeleton.nodes:
        before = [
            narrow[i.index]
            if i.kind == Kind.NODE
            else i.kind in types and types[i.kind][i.index].dtype == BF16
            for i in node.inputs
        ]
        narrow.append(any(before) or any(type_.dtype == BF16 for type_ in node.outputs))
    return frozenset(name for name, source in compared_outputs(loaded).items() if narrow[source.node])


def _last_uses(nodes: Sequence[Structure], wanted: Mapping[int, Any]) -> dict[int, int]:
    """Return the last node that reads each node that is needed: itself if nothing does."""
    last = {k: k for k in wanted}
    for k in range(len(nodes) - 1, -1, -1):
        if k in last:
            for operand in nodes[k].inputs:
                if operand.kind == Kind.NODE:
                    last.setdefault(operand.index, k)
                    last[operand.index] = max(last[operand.index], k)
    return last
