"""The whole graph of a program as data for the script that draws it (`assay_explorer/static/graph.js`).

Up to `MAX_WHOLE` operators are one picture. A longer program is shown by group, and each group with what it reads and
what reads it. A group is a module's operators, at most `MAX_GROUP` of them; without labels, that many in their order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .layers import places
from .operator import Graph
from .text import said

PARTS = (("optimizer", "optimizer"), ("loss or gradient", "gradient"))
"""Parts of a step by how the labels of their operators begin; all others are of the forward pass."""
MAX_WHOLE, MAX_GROUP, MAX_BESIDE = 2000, 400, 200
"""Operators of one picture, of a group, and of other groups in the picture of one."""


@dataclass(frozen=True)
class Group:
    """Operators that are shown as one. ``name`` is a stranger's words, cut."""

    name: str
    nodes: tuple[int, ...]
    ops: str


class WholeGraph(Graph):
    """A program's graph that can be shown whole, by operator or by group."""

    @property
    def count(self) -> int:
        return len(self.program.nodes)

    @cached_property
    def groups(self) -> list[Group]:
        """All groups, in the order of their first operators."""
        members: dict[str, list[int]] = {}
        for node in range(self.count):
            members.setdefault(self.place(node)[0], []).append(node)
        found = []
        for name, nodes in members.items():
            for k in range(0, len(nodes), MAX_GROUP):
                part = nodes[k : k + MAX_GROUP]
                span = f"operators {part[0]} to {part[-1]}"
                whole = len(part) == len(nodes) and name
                found.append(
                    Group(
                        name if whole else f"{name}, {span}" if name else span, tuple(part), self._ops(part)
                    )
                )
        return sorted(found, key=lambda group: group.nodes[0])

    @cached_property
    def group_of(self) -> list[int]:
        """The number of each operator's group."""
        found = [0] * self.count
        for number, group in enumerate(self.groups):
            for node in group.nodes:
                found[node] = number
        return found

    @property
    def by_group(self) -> bool:
        """Whether the program is too long for one picture."""
        return self.count > MAX_WHOLE

    def picture(self, group: int | None) -> bytes:
        """Return the picture of a group as JSON; of all without one. Each is made once.

        nodes      rows of id, x, y, label, words, classes; ids are operators, or groups in a picture of those
        edges      pairs of ids: who is read, and who reads
        left_out   operators of other groups that are not in the picture
        """
        key = -1 if group is None else group
        if key not in self._made:
            shown = self._overview() if group is None and self.by_group else self._operators(group)
            self._made[key] = json.dumps(shown, separators=(",", ":")).encode()
        return self._made[key]

    @cached_property
    def _made(self) -> dict[int, bytes]:
        return {}

    def _overview(self) -> dict[str, Any]:
        """Return a node for each group. NOTE: the backward pass reads the forward pass, so groups may read each other;
        for the layout an edge counts only towards the later one."""
        edges = Counter(
            (self.group_of[source], self.group_of[node])
            for node in range(self.count)
            for source in self.sources(node)
            if self.group_of[source] != self.group_of[node]
        )
        at = places(_sources(len(self.groups), edges))
        nodes = [
            [
                number,
                *at[number],
                said(group.name, 40),
                f"{len(group.nodes)} operators: {group.ops}",
                part_of(group.name),
            ]
            for number, group in enumerate(self.groups)
        ]
        return {"nodes": nodes, "edges": [[*edge] for edge in edges], "left_out": 0}

    def _operators(self, group: int | None) -> dict[str, Any]:
        """Return a node for each operator of a group, and for those of others at its edges."""
        own = range(self.count) if group is None else self.groups[group].nodes
        inside = {*own}
        beside = {other for node in own for other in (*self.sources(node), *self.readers(node))} - inside
        kept = inside.union(sorted(beside)[:MAX_BESIDE])
        order = sorted(kept)
        number = {node: k for k, node in enumerate(order)}
        edges = [(source, node) for node in order for source in self.sources(node) if source in kept]
        at = places(_sources(len(order), ((number[a], number[b]) for a, b in edges)))
        nodes = [self._node(node, at[number[node]], node in inside) for node in order]
        return {
            "nodes": nodes,
            "edges": [[*edge] for edge in edges],
            "left_out": len(inside | beside) - len(order),
        }

    def _node(self, node: int, at: tuple[int, int], inside: bool) -> list[Any]:
        structure, (module, call) = self.program.nodes[node], self.place(node)
        shape = said(str(structure.outputs[0]), 24) if structure.outputs else ""
        words = " · ".join(part for part in (shape, module, call) if part)
        return [
            node,
            *at,
            f"{node} {said(structure.name, 16)}",
            words,
            part_of(module) + ("" if inside else " beside"),
        ]

    def _ops(self, nodes: Sequence[int]) -> str:
        ops = Counter(self.program.nodes[node].name for node in nodes)
        return ", ".join(f"{count} {said(op, 24)}" for op, count in ops.most_common(3))


def part_of(name: str) -> str:
    """Return the part of a step that a module's operators belong to, by its name."""
    return next((part for begin, part in PARTS if name.startswith(begin)), "forward")


def _sources(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(count)]
    for source, node in edges:
        if source < node:
            found[node].append(source)
    return found
