"""Simplifications of a node: a simpler operand that has the same bits, if there is one.

Every rule keeps all bits of every value (any NaN counts as the committed NaN). A rule about floating point must hold
for signed zeros, infinities and NaNs too. So `x + 0` stays, since -0 + 0 is +0, and `x + -0` becomes x.

That is so in repops-f32. In rounded-f64 an operator that rounds gives a value on the mode's grid, and a sum gives no
-0: there x * 1 need not be x, a sum of one element need not be that element, and exp(1) need not be that of
repops-f32. So rules that remove or precompute an operator that rounds (a column of the operator table) hold in
repops-f32 alone; they apply with `ahead`, for authors of new programs. All other rules hold in every mode.

    known values   operators on `full` alone, element by element or moving elements: a `full` again
    neutral        x * 1, x / 1, x - 0, x + -0, true and x, false or x, min(x, x), where(c, x, x), not not x, neg neg x
    nothing moved  reshape, permute, expand, slice, cat, cast, sum and amax that leave everything as it is
    chains         reshape of reshape, permute of permute, expand of expand, slice of slice
    broadcasting   an elementwise operator takes the operand of an `expand` if its result keeps its shape; if not, the
                   result is expanded instead
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from repops import reference
from repops.fuse.phases import ELEMENTWISE
from repops.opset import F32, I64, Arithmetic, Dtype, broadcast, lookup
from repops.tensors import NUMPY_DTYPE, canonical

from ..commit.tensor import Array
from .structure import Kind, Operand, Structure, TensorType

Rule = Callable[["Graph", tuple[Operand, ...], dict[str, Any]], Operand | None]


class Graph:
    """Nodes under construction: equal nodes are merged, and each is as simple as the rules make it.

    With `ahead`, also by the rules that hold in repops-f32 alone.
    """

    def __init__(
        self, constants: Sequence[TensorType], initial: Sequence[TensorType], ahead: bool = False
    ) -> None:
        self._ahead = ahead
        self.nodes: list[Structure] = []
        self._types = {Kind.CONSTANT: constants, Kind.SLOT: initial, Kind.STEP: (TensorType(I64, ()),)}
        self._known: dict[tuple[int, tuple[Operand, ...], bytes], int] = {}

    def type_of(self, operand: Operand) -> TensorType:
        if operand.kind == Kind.NODE:
            return self.nodes[operand.index].outputs[operand.output]
        return self._types[operand.kind][operand.index]

    def shape(self, operand: Operand) -> tuple[int, ...]:
        return self.type_of(operand).shape

    def made_by(self, operand: Operand, *names: str) -> Structure | None:
        """Return the node that gives the operand, or None if it is not one of these operators."""
        if operand.kind != Kind.NODE:
            return None
        node = self.nodes[operand.index]
        return node if node.name in names else None

    def node(self, structure: Structure) -> int:
        """Return the number of a node, without applying any rule; an equal node is reused."""
        key = (structure.op, structure.inputs, structure.attributes)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(structure)
        return self._known[key]

    def op(self, name: str, *inputs: Operand, **attrs: Any) -> Operand:
        """Return the first output of an operator, in the simplest known way."""
        rules = (*_VALUES.get(name, ()), *_WIRING.get(name, ()))
        if not self._ahead and self._rounds(name, inputs, attrs):
            rules = _WIRING.get(name, ())
        for rule in rules:
            simpler = rule(self, inputs, attrs)
            if simpler is not None:
                return simpler
        known = [(self.type_of(i).dtype, self.shape(i)) for i in inputs]
        outputs = [TensorType(d, s) for d, s in lookup(name).infer(known, attrs)]
        return Operand(Kind.NODE, self.node(Structure.make(name, inputs, outputs, **attrs)))

    def _rounds(self, name: str, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> bool:
        """Return whether the operator's result is rounded to a grid in rounded-f64."""
        first = self.type_of(inputs[0]).dtype if inputs else None
        return lookup(name).arithmetic_of(first, attrs) is not Arithmetic.MOVED

    def full(self, bits: int, type_: TensorType) -> Operand:
        if type_.dtype.is_float:
            bits = _bits_of(canonical(scalar(bits, type_.dtype)))
        made = Structure.make("full", (), (type_,), shape=type_.shape, dtype=type_.dtype, bits=bits)
        return Operand(Kind.NODE, self.node(made))

    def bits(self, operand: Operand) -> int | None:
        """Return the bits of each element, or None unless all are equal and known."""
        node = self.made_by(operand, "full")
        return node.attrs["bits"] if node else None

    def is_all(self, operand: Operand, f32: int, i64: int | None = None) -> bool:
        """Return whether every element has these bits."""
        dtype = self.type_of(operand).dtype
        wanted = f32 if dtype == F32 else i64 if dtype == I64 else None
        return wanted is not None and self.bits(operand) == wanted


def scalar(bits: int, dtype: Dtype) -> Array:
    """Return one element of a `full`, as an array of rank 0."""
    raw = bits.to_bytes(8, "little")[: NUMPY_DTYPE[dtype].itemsize]
    return np.frombuffer(raw, NUMPY_DTYPE[dtype].newbyteorder("<")).reshape(()).astype(NUMPY_DTYPE[dtype])


def _bits_of(array: Array) -> int:
    return int.from_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes(), "little")


# --------------------------------------------------------------------------------------------------- known values


def _folded(name: str) -> Rule:
    def rule(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
        known = [g.bits(operand) for operand in inputs]
        values = [
            scalar(bits, g.type_of(operand).dtype)
            for bits, operand in zip(known, inputs, strict=True)
            if bits is not None
        ]
        if len(values) != len(inputs):
            return None
        # NOTE: the readable reference defines the operators, so its bits are the right ones.
        (value,) = reference.execute(name, values, attrs)
        ((dtype, shape),) = lookup(name).infer([(g.type_of(i).dtype, g.shape(i)) for i in inputs], attrs)
        return g.full(_bits_of(value), TensorType(dtype, shape))

    return rule


def _moved_full(name: str) -> Rule:
    """Return the rule that moves elements that are all equal in any way."""

    def rule(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
        bits = g.bits(inputs[0])
        if bits is None or any(g.bits(other) != bits for other in inputs[1:]):
            return None
        ((dtype, shape),) = lookup(name).infer([(g.type_of(i).dtype, g.shape(i)) for i in inputs], attrs)
        return g.full(bits, TensorType(dtype, shape))

    return rule


def _canonical_full(g: Graph, _: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand:
    return g.full(attrs["bits"], TensorType(Dtype(attrs["dtype"]), tuple(attrs["shape"])))


# -------------------------------------------------------------------------------------------------------- neutral


def _if_same_type(g: Graph, candidate: Operand, others: Sequence[Operand]) -> Operand | None:
    """Return the candidate, or None if broadcasting with the others gives it another shape."""
    shape = g.shape(candidate)
    return candidate if broadcast("neutral", shape, *(g.shape(o) for o in others)) == shape else None


def _neutral(right: tuple[int, int | None], commutes: bool = False) -> Rule:
    """Return the rule x op e = x, if e has the given bits in f32 and i64; and e op x = x if it commutes."""

    def rule(g: Graph, inputs: tuple[Operand, ...], _: dict[str, Any]) -> Operand | None:
        a, b = inputs
        if g.is_all(b, *right) and (same := _if_same_type(g, a, [b])):
            return same
        if commutes and g.is_all(a, *right):
            return _if_same_type(g, b, [a])
        return None

    return rule


def _neutral_truth(bits: int) -> Rule:
    """Return the rule true and x = x, or x or false = x."""

    def rule(g: Graph, inputs: tuple[Operand, ...], _: dict[str, Any]) -> Operand | None:
        for known, x in (inputs, reversed(inputs)):
            if g.bits(known) == bits and (same := _if_same_type(g, x, [known])):
                return same
        return None

    return rule


def _idempotent(_: Graph, inputs: tuple[Operand, ...], __: dict[str, Any]) -> Operand | None:
    return inputs[0] if inputs[0] == inputs[1] else None


def _involution(name: str) -> Rule:
    def rule(g: Graph, inputs: tuple[Operand, ...], _: dict[str, Any]) -> Operand | None:
        inner = g.made_by(inputs[0], name)
        return inner.inputs[0] if inner else None

    return rule


def _chosen(g: Graph, inputs: tuple[Operand, ...], _: dict[str, Any]) -> Operand | None:
    """Apply where(c, a, a) = a; a known condition chooses its operand."""
    condition, a, b = inputs
    bits = g.bits(condition)
    if a != b and bits is None:
        return None
    chosen = b if bits == 0 else a
    shape = broadcast("where", *(g.shape(operand) for operand in inputs))
    return chosen if g.shape(chosen) == shape else g.op("expand", chosen, shape=shape)


# -------------------------------------------------------------------------------------------------- nothing moved


def _same_shape(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    return inputs[0] if g.shape(inputs[0]) == tuple(attrs["shape"]) else None


def _only_ones_added(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    shape, wanted = g.shape(inputs[0]), tuple(attrs["shape"])
    padded = (1,) * (len(wanted) - len(shape)) + shape
    return g.op("reshape", inputs[0], shape=wanted) if padded == wanted else None


def _only_ones_permuted(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    """Replace by a reshape if dimensions other than 1 keep their order, and so row-major order is unchanged."""
    shape, dims = g.shape(inputs[0]), attrs["dims"]
    moved = [d for d in dims if shape[d] != 1]
    return g.op("reshape", inputs[0], shape=tuple(shape[d] for d in dims)) if moved == sorted(moved) else None


def _whole_slice(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    size = g.shape(inputs[0])[attrs["dim"]]
    whole = attrs["start"] == 0 and attrs["stop"] == size and (attrs["step"] == 1 or size <= 1)
    return inputs[0] if whole else None


def _single(_: Graph, inputs: tuple[Operand, ...], __: dict[str, Any]) -> Operand | None:
    return inputs[0] if len(inputs) == 1 else None


def _same_dtype(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    return inputs[0] if g.type_of(inputs[0]).dtype == attrs["dtype"] else None


def _reduces_nothing(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    """Drop a reduction of one element, which is that element: -0 is neutral for sums, -inf for maxima."""
    shape, dims = g.shape(inputs[0]), attrs["dims"]
    if any(shape[d] != 1 for d in dims):
        return None
    kept = shape if attrs["keepdim"] else tuple(n for d, n in enumerate(shape) if d not in dims)
    return g.op("reshape", inputs[0], shape=kept)


# --------------------------------------------------------------------------------------------------------- chains


def _last_shape(name: str) -> Rule:
    """Return the rule that of two in a row, which both give a shape, the last alone counts."""

    def rule(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
        inner = g.made_by(inputs[0], name)
        return g.op(name, inner.inputs[0], shape=attrs["shape"]) if inner else None

    return rule


def _permute_of_permute(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    inner = g.made_by(inputs[0], "permute")
    if inner is None:
        return None
    return g.op("permute", inner.inputs[0], dims=tuple(inner.attrs["dims"][d] for d in attrs["dims"]))


def _slice_of_slice(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
    inner = g.made_by(inputs[0], "slice")
    if inner is None or inner.attrs["dim"] != attrs["dim"] or inner.attrs["step"] != 1 or attrs["step"] != 1:
        return None
    first = inner.attrs["start"]
    moved = {"start": first + attrs["start"], "stop": first + attrs["stop"]}
    return g.op("slice", inner.inputs[0], dim=attrs["dim"], step=1, **moved)


# --------------------------------------------------------------------------------------------------- broadcasting


def _narrowed(name: str) -> Rule:
    """Drop an operand's `expand`, or make a `full` of rank 0, if the other operands give the shape anyway."""

    def rule(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
        shape = broadcast(name, *(g.shape(operand) for operand in inputs))
        for place, operand in enumerate(inputs):
            narrow = _narrow(g, operand)
            if narrow is None:
                continue
            changed = (*inputs[:place], narrow, *inputs[place + 1 :])
            if broadcast(name, *(g.shape(other) for other in changed)) == shape:
                return g.op(name, *changed, **attrs)
        return None

    return rule


def _expanded_later(name: str) -> Rule:
    """Expand the result instead of the operands, if only expanded operands give the shape."""

    def rule(g: Graph, inputs: tuple[Operand, ...], attrs: dict[str, Any]) -> Operand | None:
        narrow = [_narrow(g, operand) or operand for operand in inputs]
        shape = broadcast(name, *(g.shape(operand) for operand in inputs))
        if broadcast(name, *(g.shape(operand) for operand in narrow)) == shape:
            return None
        return g.op("expand", g.op(name, *narrow, **attrs), shape=shape)

    return rule


def _narrow(g: Graph, operand: Operand) -> Operand | None:
    if inner := g.made_by(operand, "expand"):
        return inner.inputs[0]
    bits, type_ = g.bits(operand), g.type_of(operand)
    return None if bits is None or not type_.shape else g.full(bits, TensorType(type_.dtype, ()))


_ONE, _PLUS_ZERO, _MINUS_ZERO = 0x3F800000, 0, 0x80000000

_VALUES: dict[str, tuple[Rule, ...]] = {
    **{name: (_folded(name),) for name in ELEMENTWISE},
    "sum": (_reduces_nothing,),
    "amax": (_reduces_nothing,),
    "add": (_folded("add"), _neutral((_MINUS_ZERO, 0), commutes=True)),
    "sub": (_folded("sub"), _neutral((_PLUS_ZERO, 0))),
    "mul": (_folded("mul"), _neutral((_ONE, 1), commutes=True)),
    "div": (_folded("div"), _neutral((_ONE, None))),
}
"""Rules about an operator's values. Where the operator rounds, they hold in repops-f32 alone."""

_WIRING: dict[str, tuple[Rule, ...]] = {
    "full": (_canonical_full,),
    "reshape": (_same_shape, _moved_full("reshape"), _last_shape("reshape")),
    "expand": (_same_shape, _moved_full("expand"), _only_ones_added, _last_shape("expand")),
    "permute": (_moved_full("permute"), _only_ones_permuted, _permute_of_permute),
    "slice": (_whole_slice, _moved_full("slice"), _slice_of_slice),
    "cat": (_single, _moved_full("cat")),
    "cast": (_same_dtype,),
    "neg": (_involution("neg"),),
    "logical_not": (_involution("logical_not"),),
    "maximum": (_idempotent,),
    "minimum": (_idempotent,),
    "logical_and": (_idempotent, _neutral_truth(1)),
    "logical_or": (_idempotent, _neutral_truth(0)),
    "where": (_chosen,),
}
"""Rules that hold in every mode: the operator is still applied, or does not round."""
for _name in sorted(ELEMENTWISE):
    _narrow_rules = (_narrowed(_name),) if lookup(_name).arity != 1 else ()
    _WIRING[_name] = (*_WIRING.get(_name, ()), *_narrow_rules, _expanded_later(_name))
