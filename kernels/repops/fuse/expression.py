"""Expressions over operators: written once, then executed directly or recorded.

A composite (softmax, say) is a plain function of an `Ops` and some values:

    def silu(o, x):
        return o.div(x, o.add(o.scalar(1.0), o.exp(o.neg(x))))

With `Eager` the values are arrays and each operator is executed when it is called. With a `Recorder` the values are
symbols and the result is an `Expression`, which `fusion` turns into one kernel. Both give the same bits, because
an expression IS its sequence of operators.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np

from ..opset import F32, ArityError, Dtype, OpError, Spec, lookup
from ..tensors import freeze

Value = TypeVar("Value")
Made = TypeVar("Made", covariant=True)


class Ops(Protocol[Made]):
    """Every operator of the table as a method, and `scalar`. The implementation chooses the type of values."""

    def scalar(self, value: float) -> Made:
        """Return an f32 of shape (), the binary32 nearest to `value`."""
        ...

    def __getattr__(self, name: str) -> Callable[..., Made]: ...


def f32_bits(value: float) -> int:
    """Return the bits of the binary32 nearest to `value`."""
    return int(np.float32(value).view(np.uint32))


class Eager:
    """Executes each operator when it is called. `execute` is a backend's."""

    def __init__(self, execute: Callable[[str, Sequence[Any], dict[str, Any]], list[Any]]):
        self._execute = execute

    def scalar(self, value: float) -> Any:
        return self._execute("full", [], {"shape": (), "dtype": F32, "bits": f32_bits(value)})[0]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        lookup(name)

        def operator(*inputs: Any, **attrs: Any) -> Any:
            outputs = self._execute(name, inputs, attrs)
            return outputs[0] if len(outputs) == 1 else outputs

        return operator


@dataclass(frozen=True)
class Symbol:
    """A value of an expression: its spec and its number, which counts the inputs first and then the nodes."""

    number: int
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def spec(self) -> Spec:
        return self.dtype, self.shape


@dataclass(frozen=True)
class ExpressionNode:
    """One operator of an expression."""

    op: str
    inputs: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]
    spec: Spec


@dataclass
class Expression:
    """Operators in order. Value i is input i, or the result of node i - len(inputs)."""

    inputs: tuple[Spec, ...]
    name: str
    names: tuple[str, ...]  # of the inputs
    nodes: list[ExpressionNode] = field(default_factory=list)
    outputs: tuple[int, ...] = ()

    def spec(self, number: int) -> Spec:
        known = len(self.inputs)
        return self.inputs[number] if number < known else self.nodes[number - known].spec


class Recorder:
    """Records each operator when it is called; one operator on one set of values is recorded once."""

    def __init__(self, inputs: Sequence[Spec], name: str = "expression", names: Sequence[str] = ()):
        self.expression = Expression(tuple(inputs), name, tuple(names))
        self._known: dict[tuple[Any, ...], Symbol] = {}

    def input(self, place: int) -> Symbol:
        return Symbol(place, *self.expression.inputs[place])

    def scalar(self, value: float) -> Symbol:
        return self._record("full", (), {"shape": (), "dtype": F32, "bits": f32_bits(value)})

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        lookup(name)
        return lambda *inputs, **attrs: self._record(name, inputs, attrs)

    def _record(self, name: str, inputs: Sequence[Symbol], attrs: dict[str, Any]) -> Symbol:
        op = lookup(name)
        outputs = op.infer([symbol.spec for symbol in inputs], attrs)
        if len(outputs) != 1:
            raise TypeError(f"{name} has {len(outputs)} results; an expression's operators have one")
        numbers = tuple(symbol.number for symbol in inputs)
        key = (name, numbers, freeze(op.normalize(attrs)))
        if key not in self._known:
            number = len(self.expression.inputs) + len(self.expression.nodes)
            self.expression.nodes.append(ExpressionNode(*key, outputs[0]))
            self._known[key] = Symbol(number, *outputs[0])
        return self._known[key]


@lru_cache(maxsize=4096)
def argument_names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of a composite's inputs: its positional parameters after the first.

    Raise ArityError if it does not take `count` inputs.
    """
    names: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    if len(names) != count:
        raise ArityError(f"{function.__name__}: takes the inputs ({' '.join(names)})", got=count)
    return tuple(names)


def record(function: Callable[..., Any], inputs: Sequence[Spec], **options: Any) -> Expression:
    """Return the expression of `function(ops, *inputs, **options)`, which returns one value or a tuple of values.

    Raise the OpError of the operator that refuses, extended by the inputs of the function.
    """
    name, names = function.__name__, argument_names(function, len(inputs))
    recorder = Recorder(inputs, name, names)
    try:
        result = function(recorder, *map(recorder.input, range(len(inputs))), **options)
    except OpError as error:
        found = {key: (dtype.name, shape) for key, (dtype, shape) in zip(names, inputs, strict=True)}
        raise type(error)(f"{name}: {error}", **found) from error
    expression = recorder.expression
    expression.outputs = tuple(
        symbol.number for symbol in (result if isinstance(result, tuple) else (result,))
    )
    return expression


def live(expression: Expression) -> list[tuple[int, ExpressionNode]]:
    """Return the nodes that an output needs, with their numbers, in order."""
    first = len(expression.inputs)
    needed = set(expression.outputs)
    for number, node in reversed(list(enumerate(expression.nodes, first))):
        if number in needed:
            needed.update(node.inputs)
    return [(number, node) for number, node in enumerate(expression.nodes, first) if number in needed]


def evaluate(
    expression: Expression, execute: Callable[..., list[Value]], inputs: Sequence[Value]
) -> list[Value]:
    """Return the expression's outputs, computed one operator after the other."""
    values = list(inputs)
    for node in expression.nodes:
        values += execute(node.op, [values[i] for i in node.inputs], dict(node.attrs))
    return [values[i] for i in expression.outputs]
