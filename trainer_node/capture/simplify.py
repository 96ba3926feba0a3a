"""The same value without a new node, or with a cheaper one: what `Builder.op` tries first.

INVARIANT: none of these changes a bit of the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from repops.opset import F32

if TYPE_CHECKING:
    from .builder import Builder, Ref


def simpler(b: Builder, name: str, inputs: Sequence[Ref], attrs: dict[str, Any]) -> Ref | None:
    """None if there is no simpler way."""
    if name in ("reshape", "permute", "expand", "cast"):
        return _layout(b, name, inputs[0], attrs)
    if name in _ELEMENTWISE:
        return _neutral(b, name, inputs) or _folded(b, name, inputs) or _narrow(b, name, inputs)
    return None


def _layout(b: Builder, name: str, x: Ref, attrs: dict[str, Any]) -> Ref | None:
    """Layouts that change nothing, and two of a kind in a row."""
    if name in ("reshape", "expand") and tuple(attrs["shape"]) == x.shape:
        return x
    if name == "cast":
        return x if attrs["dtype"] == x.dtype else None
    if name == "permute" and list(attrs["dims"]) == list(range(x.rank)):
        return x
    inner = b.made_by(x, name)
    if inner is None:
        return None
    if name == "permute":
        dims = tuple(inner.attrs["dims"][d] for d in attrs["dims"])
        return b.op("permute", inner.inputs[0], dims=dims)
    return b.op(name, inner.inputs[0], shape=attrs["shape"])


def _neutral(b: Builder, name: str, inputs: Sequence[Ref]) -> Ref | None:
    """x * 1, x / 1, true and x, false or x; for integers x + 0 and x - 0 too (of floats, -0 + 0 is not -0)."""
    for place, kept in ((1, 0), (0, 1)):
        if len(inputs) != 2 or (place == 0 and name in ("div", "sub")):
            continue
        one, x = inputs[place], inputs[kept]
        bits = _NEUTRAL_F32.get(name) if x.dtype == F32 else _NEUTRAL.get(name)
        if bits is not None and b.is_full(one, bits) and _broadcast(one, x) == x.shape:
            return x
    return None


def _broadcast(*refs: Ref) -> tuple[int, ...]:
    return np.broadcast_shapes(*(ref.shape for ref in refs))


def _folded(b: Builder, name: str, inputs: Sequence[Ref]) -> Ref | None:
    """Arithmetic on f32 scalars that are known now."""
    if name not in _FOLDS or any(ref.dtype != F32 for ref in inputs):
        return None
    values = [b.scalar_value(ref) for ref in inputs]
    if any(value is None for value in values):
        return None
    with np.errstate(all="ignore"):
        return b.full(float(_FOLDS[name](*values)))


def _narrow(b: Builder, name: str, inputs: Sequence[Ref]) -> Ref | None:
    """Elementwise operators broadcast by themselves: what was expanded for them need not have been."""
    sources = [node.inputs[0] if (node := b.made_by(ref, "expand")) else ref for ref in inputs]
    if all(source is ref for source, ref in zip(sources, inputs, strict=True)):
        return None
    shape = _broadcast(*inputs)
    return b.op("expand", b.op(name, *sources), shape=shape)


_ARITHMETIC = {"add", "sub", "mul", "div", "neg", "maximum", "minimum", "pow"}
_FUNCTIONS = {"sqrt", "exp", "log", "rsqrt", "erf", "tanh", "sin", "cos", "log1p"}
_LOGIC = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "where"}
_ELEMENTWISE = _ARITHMETIC | _FUNCTIONS | _LOGIC
_NEUTRAL_F32 = {"mul": 0x3F800000, "div": 0x3F800000}
_NEUTRAL = {"mul": 1, "add": 0, "sub": 0, "logical_and": 1, "logical_or": 0}
_FOLDS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
}
