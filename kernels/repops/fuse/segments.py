"""An expression that is not a single pass, cut into several: runs of elementwise operators become one kernel each.

    batch_norm:   sum(x)
                  m = .../n                      [1, C, 1]
                  d d, d = x - m                 one kernel; only the square is kept
                  sum(d d)
                  r = rsqrt(.../n + eps)         [1, C, 1]
                  (d r) w + b                    one kernel; d is computed again, which costs less than keeping it

The bits are those of the operators applied one by one: applying an operator again to the same operands changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..opset import MAX_ELEMENTS, Shape
from ..tensors import Array
from .expression import Expression, ExpressionNode, evaluate, live
from .phases import ELEMENTWISE

# Recomputed where they are needed, rather than written to memory and read back.
_CHEAP = frozenset(
    ("add", "sub", "mul", "neg", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where", "cast")
)

Execute = Callable[..., list[Array]]
Run = Callable[[Sequence[Array]], list[Array]]


class _Step(NamedTuple):
    run: Run
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    done: tuple[int, ...] = ()  # values that no later step needs


class Segments:
    """An expression in steps. `fuse` returns one kernel of an expression, or None; `execute` applies one operator."""

    def __init__(self, expression: Expression, fuse: Callable[[Expression], Run | None], execute: Execute):
        self._expression, self._fuse, self._execute = expression, fuse, execute
        self._nodes = dict(live(expression))
        self._groups: dict[int, tuple[int, int, int, Shape, int]] = {}
        for number, node in self._nodes.items():
            self._groups[number] = self._group(number, node)
        self._kept = self._find_kept()
        self._steps: list[_Step] = []
        needed = set(expression.outputs)
        for step in reversed([self._step(numbers) for numbers in self._in_order()]):
            done = set(step.inputs) - needed
            needed |= done
            self._steps.insert(0, step._replace(done=tuple(done)))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of the expression, for inputs of its specs."""
        values = dict(enumerate(inputs))
        for step in self._steps:
            results = step.run([values[number] for number in step.inputs])
            values.update(zip(step.outputs, results, strict=True))
            for number in step.done:
                del values[number]
        return [values[number] for number in self._expression.outputs]

    def _group(self, number: int, node: ExpressionNode) -> tuple[int, int, int, Shape, int]:
        """Return (level, size, rank, shape, 0) of an elementwise node. Any other node is alone and begins a level.

        INVARIANT: broadcasting turns a dimension of 1 into a larger one, or into 0, which counts as larger here, or it
        adds dimensions of 1. So a group needs only groups of its level that are smaller, or as large and of a lower
        rank, and their ascending order is an order of execution.
        """
        level = max((self._groups[i][0] for i in node.inputs if i in self._groups), default=0)
        alone = node.op not in ELEMENTWISE and not self._is_constant(number)
        size = -1 if alone else math.prod(dim or MAX_ELEMENTS for dim in node.spec[1])
        shape = node.spec[1]
        return level + alone, size, len(shape), shape, number if alone else 0

    def _is_constant(self, number: int) -> bool:
        node = self._nodes.get(number)
        return node is not None and node.op == "full" and node.spec[1] == ()

    def _find_kept(self) -> set[int]:
        """Return the values that are written to memory: results, and what other groups need and do not recompute."""
        kept = set(self._expression.outputs) & set(self._nodes)
        for number, node in self._nodes.items():
            for operand in node.inputs:
                if operand not in self._nodes or self._groups[operand] == self._groups[number]:
                    continue
                same_shape = self._groups[operand][1:] == self._groups[number][1:]
                if not (same_shape and self._is_cheap(operand)) and not self._is_constant(operand):
                    kept.add(operand)
        return kept

    def _is_cheap(self, number: int) -> bool:
        """Return whether a value, and every value of its group that it depends on, is cheap."""
        node, group = self._nodes[number], self._groups[number]
        return node.op in _CHEAP and all(
            self._is_cheap(i) for i in node.inputs if i in self._nodes and self._groups[i] == group
        )

    def _in_order(self) -> list[list[int]]:
        """Return the kept values of each group, in order of execution."""
        groups: dict[tuple[int, int, int, Shape, int], list[int]] = {}
        for number in sorted(self._kept):
            groups.setdefault(self._groups[number], []).append(number)
        return [groups[key] for key in sorted(groups)]

    def _step(self, outputs: list[int]) -> _Step:
        """Return the step that computes these values of one group from kept values, as an expression of its own."""
        known, mine = len(self._expression.inputs), set(outputs)
        needed = set(outputs)
        inputs: set[int] = set()
        for number in sorted(self._nodes, reverse=True):
            if number in needed:
                for operand in self._nodes[number].inputs:
                    available = operand < known or (operand in self._kept and operand not in mine)
                    (inputs if available else needed).add(operand)
        order = sorted(inputs)
        place = {number: i for i, number in enumerate([*order, *sorted(needed)])}
        whole = self._expression
        part = Expression(tuple(whole.spec(i) for i in order), whole.name, tuple(f"value {i}" for i in order))
        for number in sorted(needed):
            node = self._nodes[number]
            part.nodes.append(
                ExpressionNode(node.op, tuple(place[i] for i in node.inputs), node.attrs, node.spec)
            )
        part.outputs = tuple(place[number] for number in outputs)
        kernel = self._fuse(part) if len(needed) > 1 else None
        return _Step(
            kernel or (lambda values: evaluate(part, self._execute, values)), tuple(order), tuple(outputs)
        )
