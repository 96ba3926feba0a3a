"""The graph around a node of a program, and the rest of the program by module.

    sources ── three hops ──> the node ── three hops ──> those that read it

A program may have 10,000 nodes and more: the neighbourhood is cut to `MAX_COLUMN` nodes a column, modules to
`MAX_MODULES`, what is found to `MAX_FOUND`; the page shows how many are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from markupsafe import Markup

from referee_py.program import Kind, Operand, Program
from referee_py.program.describe import Names, attributes

from .drawing import NARROW, svg
from .text import said

HOPS = 3
MAX_COLUMN = 7
MAX_MODULES = 120
MAX_FOUND = 100
NODE_W, NODE_H, GAP_X, GAP_Y = 128, 46, 26, 14
NARROW_ROW, GAP_ROW = 3, 44
"""Nodes in a row of the narrow drawing, and the space between two rows."""
Places = dict[int, tuple[float, float]]


@dataclass(frozen=True)
class Source:
    """Source of an input, in words; they come after the number of the operator that gives it, if one does."""

    words: str
    node: int | None = None


@dataclass(frozen=True)
class Shown:
    """A node as a row: everything in it is text."""

    node: int
    op: str
    outputs: str
    inputs: tuple[Source, ...]
    attributes: str
    module: str
    call: str


class Graph:
    """A program with the names of its nodes, ready to be asked."""

    def __init__(self, program: Program, names: Names) -> None:
        self.program, self.names = program, names

    @cached_property
    def _readers(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.program.nodes]
        for number, node in enumerate(self.program.nodes):
            for source in {o.index for o in node.inputs if o.kind is Kind.NODE}:
                found[source].append(number)
        return found

    def readers(self, node: int) -> Sequence[int]:
        """Return the nodes that read an output of this one."""
        return self._readers[node]

    def sources(self, node: int) -> list[int]:
        """Return the nodes whose outputs this one reads."""
        inputs = self.program.nodes[node].inputs
        return list(dict.fromkeys(o.index for o in inputs if o.kind is Kind.NODE))

    def shown(self, node: int) -> Shown:
        """Return a node as text. SAFETY: labels are strangers' words; they are cut here, and escaped where shown."""
        structure = self.program.nodes[node]
        module, call = self.place(node)
        return Shown(
            node,
            structure.name,
            ", ".join(map(str, structure.outputs)),
            tuple(self.source(operand) for operand in structure.inputs[:64]),
            said(attributes(structure), 200),
            module,
            call,
        )

    def source(self, operand: Operand) -> Source:
        """Return where an input comes from."""
        if operand.kind is Kind.NODE:
            return Source(f", output {operand.output}" if operand.output else "", operand.index)
        name = {Kind.SLOT: "state ", Kind.CONSTANT: "data "}.get(operand.kind)
        if name is None:
            return Source("the number of the step")
        label = self.names.operand(operand)
        named = "" if label.startswith(("slot:", "constant:")) else f": {said(label, 60)}"
        return Source(f"{name}{operand.index}{named}")

    def place(self, node: int) -> tuple[str, str]:
        """Return a node's module path and the call of PyTorch that it came from, from its label `path: call`."""
        label = self.names.label(node)
        path, found, call = label.partition(": ")
        return (said(path, 80), said(call, 80)) if found else (said(label, 80), "")

    # ------------------------------------------------------------------ neighbourhood

    def columns(self, node: int, hops: int = HOPS, most: int = MAX_COLUMN) -> tuple[list[list[int]], int]:
        """Return the nodes within so many hops by column, sources first, and how many are left out."""
        left_out = 0

        def spread(step: int) -> list[list[int]]:
            nonlocal left_out
            seen, layer, found = {node}, [node], []
            for _ in range(hops):
                near = [
                    other
                    for one in layer
                    for other in (self.sources(one) if step < 0 else self.readers(one))
                    if other not in seen
                ]
                unique = sorted(set(near), key=lambda other: abs(other - node))
                left_out += max(0, len(unique) - most)
                layer = sorted(unique[:most])
                seen.update(unique)
                found.append(layer)
            return found

        before, after = spread(-1), spread(1)
        return [*reversed(before), [node], *after], left_out

    def draw(self, node: int, link: str, disputed: int | None) -> tuple[Markup, tuple[int, int]]:
        """Return the neighbourhood as two drawings, of which narrow screens show the second, which has one hop; and how
        many nodes each leaves out. ``link`` plus a node's number is its page; empty for none."""
        columns, left_out = self.columns(node)
        columns = [column for column in columns if column]
        height = max(map(len, columns)) * (NODE_H + GAP_Y) + GAP_Y
        at: Places = {}
        for c, column in enumerate(columns):
            top = (height - len(column) * (NODE_H + GAP_Y) + GAP_Y) / 2
            at |= {
                number: (4 + c * (NODE_W + GAP_X), top + k * (NODE_H + GAP_Y))
                for k, number in enumerate(column)
            }
        rows, hidden = self.columns(node, 1, NARROW_ROW)
        rows = [row for row in rows if row]
        below: Places = {}
        for r, row in enumerate(rows):
            left = (NARROW - len(row) * (NODE_W + GAP_Y) + GAP_Y) / 2
            below |= {
                number: (left + k * (NODE_W + GAP_Y), 6 + r * (NODE_H + GAP_ROW))
                for k, number in enumerate(row)
            }
        wide = len(columns) * (NODE_W + GAP_X) - GAP_X + 8, height
        narrow = NARROW, len(rows) * (NODE_H + GAP_ROW) - GAP_ROW + 12
        drawn = self._drawing(node, at, wide, link, disputed, "wide")
        return Markup(drawn + self._drawing(node, below, narrow, link, disputed, "narrow")), (
            left_out,
            hidden,
        )

    def _drawing(
        self, node: int, at: Places, size: tuple[int, int], link: str, disputed: int | None, cls: str
    ) -> Markup:
        down, parts = cls == "narrow", []
        for number, (x, y) in at.items():
            for source in self.sources(number):
                if source not in at:
                    continue
                sx, sy = at[source]
                # NOTE: edges leave on the right and come in on the left; in rows, below and above.
                out, into = (
                    ((NODE_W / 2, NODE_H), (NODE_W / 2, 0))
                    if down
                    else ((NODE_W, NODE_H / 2), (0, NODE_H / 2))
                )
                (ax, ay), (bx, by) = (sx + out[0], sy + out[1]), (x + into[0], y + into[1])
                bend = max(18.0, abs(by - ay if down else bx - ax) / 2)
                dx, dy = (0.0, bend) if down else (bend, 0.0)
                near = "edge near" if number == node or source == node else "edge"
                parts.append(
                    f'<path class="{near}" d="M{ax:.0f} {ay:.0f} C{ax + dx:.0f} {ay + dy:.0f} '
                    f'{bx - dx:.0f} {by - dy:.0f} {bx:.0f} {by:.0f}"/>'
                )
        for number, (x, y) in at.items():
            structure = self.program.nodes[number]
            kind = "node" + (" here" if number == node else "") + (" disputed" if number == disputed else "")
            shape = said(str(structure.outputs[0]), 20) if structure.outputs else ""
            body = (
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{NODE_W}" height="{NODE_H}" rx="9"/>'
                f'<text class="op" x="{x + NODE_W / 2:.0f}" y="{y + 19:.0f}">'
                f"{number} {escape(said(structure.name, 12))}</text>"
                f'<text class="shape" x="{x + NODE_W / 2:.0f}" y="{y + 36:.0f}">{escape(shape)}</text>'
            )
            title = (
                f"<title>{escape(said(f'{number} {structure.name} {self.names.label(number)}', 160))}</title>"
            )
            group = f'<g class="{kind}">{title}{body}</g>'
            parts.append(f'<a href="{link}{number}">{group}</a>' if link and number != node else group)
        words = f"operator {node} with what it reads and what reads it, {len(at)} operators"
        drawing = svg(*size, "".join(parts), words, f"graph-{cls}", f"graph {cls}")
        # NOTE: links in it are for everybody, so it is not a picture but a group.
        return Markup(str(drawing).replace('role="img"', 'role="group"', 1))

    # ------------------------------------------------------------------ the rest

    def modules(self) -> tuple[list[tuple[str, int, str]], int]:
        """Return the modules in program order: name, number of nodes, operators; and how many are left out."""
        counts: dict[str, Counter[str]] = {}
        for node, structure in enumerate(self.program.nodes):
            counts.setdefault(self.place(node)[0], Counter())[structure.name] += 1
        rows = [
            (name, sum(ops.values()), ", ".join(f"{count} {op}" for op, count in ops.most_common(4)))
            for name, ops in counts.items()
        ]
        return rows[:MAX_MODULES], max(0, len(rows) - MAX_MODULES)

    def search(self, words: str, module: str | None) -> tuple[list[int], int]:
        """Return the nodes whose number, operator or label has these words, or that are of a module; and how many
        are left out."""
        wanted = words.strip().lower()
        found = [
            node
            for node, structure in enumerate(self.program.nodes)
            if (module is None or self.place(node)[0] == module)
            and (
                not wanted
                or wanted in (str(node), structure.name)
                or wanted in self.names.label(node).lower()
                or wanted in structure.name
            )
        ]
        return found[:MAX_FOUND], max(0, len(found) - MAX_FOUND)
