"""The parts of an operator's definition: dtypes, limits, errors, and a row of the table (docs/opset.md, section 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any

MAX_RANK = 8
MAX_ELEMENTS = (
    1 << 40
)  # exclusive; product of the dimensions other than 0, so that index arithmetic fits in 64 bits
MAX_STEPS = 1 << 30  # of an element's chain, which the honest side of a trial must compute in time
MAX_SITES = 1 << 24  # exclusive, so that site and block number fit in one word of a Philox counter


class Dtype(IntEnum):
    """Element types and their codes in commitments. Code 0 is illegal."""

    F32 = 1  # IEEE binary32
    I64 = 2  # two's complement
    BOOL = 3  # one byte, 0 or 1
    BF16 = 4  # bfloat16: the upper half of a binary32

    @property
    def is_float(self) -> bool:
        return self in (Dtype.F32, Dtype.BF16)


F32, I64, BOOL, BF16 = Dtype.F32, Dtype.I64, Dtype.BOOL, Dtype.BF16
ITEM_SIZE = {F32: 4, I64: 8, BOOL: 1, BF16: 2}

Shape = tuple[int, ...]
Spec = tuple[Dtype, Shape]
Attrs = Mapping[str, Any]
Rule = Callable[[Sequence[Spec], Any], list[Spec]]
"""From the inputs and the normalised attributes to the outputs."""


class Arithmetic(Enum):
    """Roundings of an operator on f32, and whether an order or a library is free."""

    SUM = "sum"  # sum, contractions, scatter_add: any order
    ELEMENTARY = "elementary"  # below any library within 4 ulps
    SINGLE = "single"  # one IEEE-754 operation: the same bits everywhere
    MOVED = "moved"  # chosen or moved elements, integers, truth values: nothing is rounded


class OpError(Exception):
    """An operator cannot be applied to these arguments. `values` holds the offending values."""

    def __init__(self, message: str, **values: Any):
        self.values = values
        found = ", ".join(f"{key}={value!r}" for key, value in values.items())
        super().__init__(f"{message} ({found})" if found else message)


class UnknownOpError(OpError): ...


class ArityError(OpError): ...


class AttrError(OpError): ...


class DtypeError(OpError): ...


class ShapeError(OpError): ...


class ChainError(OpError): ...


@dataclass(frozen=True)
class Op:
    """One row. `args` names the inputs, "a b"; "x*" is one input or more. `attrs` lists (name, kind) in the order in
    which attributes are serialised.

    Attribute kinds: "int" is 0 <= v < 2^64; "ints" is a tuple of them; "dtype" is a Dtype code.
    """

    id: int
    name: str
    args: str
    attrs: tuple[tuple[str, str], ...]
    rule: Rule
    arithmetic: Arithmetic = Arithmetic.MOVED
    """On f32; `arithmetic_of` says it of other types."""

    @cached_property
    def arity(self) -> int | None:
        """Number of inputs; None if variadic."""
        return None if self.args.endswith("*") else len(self.args.split())

    def argument(self, place: int) -> str:
        """Return the name of input `place`."""
        return f"{self.args[:-1]}[{place}]" if self.arity is None else self._names[place]

    @cached_property
    def _names(self) -> list[str]:
        return self.args.split()

    def arithmetic_of(self, first: Dtype | None, attrs: Attrs) -> Arithmetic:
        """Return what is rounded where the first input has that dtype: nothing where no f32 is computed."""
        if self.name == "cast":
            rounds = first == Dtype.I64 and attrs["dtype"] == Dtype.F32
        elif self.arithmetic is Arithmetic.SINGLE or self.name == "sum":
            rounds = first == Dtype.F32
        else:
            rounds = True
        return self.arithmetic if rounds else Arithmetic.MOVED

    def check_arity(self, count: int) -> None:
        if count != self.arity if self.arity is not None else not count:
            raise ArityError(f"{self.name}: takes the inputs ({self.args})", got=count)

    def infer(self, inputs: Sequence[Spec], attrs: Attrs) -> list[Spec]:
        """Return the (dtype, shape) of every output. Raise an OpError that says why there is none."""
        self.check_arity(len(inputs))
        for place, (dtype, shape) in enumerate(inputs):
            check_spec(f"{self.name}: {self.argument(place)}", dtype, shape)
        outputs = self.rule(inputs, self.normalize(attrs))
        for place, (dtype, shape) in enumerate(outputs):
            check_spec(f"{self.name}: output {place}", dtype, shape)
        return outputs

    def normalize(self, attrs: Attrs) -> dict[str, Any]:
        """Return the schema's attributes in its order, with ints as tuples and dtypes as Dtype. Raise AttrError."""
        if len(attrs) != len(self.attrs) or any(name not in attrs for name, _ in self.attrs):
            raise AttrError(
                f"{self.name}: wrong attributes", expected=[n for n, _ in self.attrs], got=list(attrs)
            )
        return {name: _PARSE[kind](self.name, name, attrs[name]) for name, kind in self.attrs}


def check_spec(where: str, dtype: int, shape: Sequence[int]) -> None:
    """Raise DtypeError or ShapeError beyond the limits of every tensor. `where` begins the message."""
    if dtype not in ITEM_SIZE:
        raise DtypeError(f"{where}: unknown dtype", dtype=dtype)
    if len(shape) > MAX_RANK:
        raise ShapeError(f"{where}: rank above {MAX_RANK}", shape=shape)
    # NOTE: so no partial product of the dimensions, in any order, exceeds what contracts and executors can hold.
    if any(dim < 0 for dim in shape) or math.prod(dim or 1 for dim in shape) >= MAX_ELEMENTS:
        raise ShapeError(
            f"{where}: dimensions out of range: the product of those that are not 0 is below 2^40",
            shape=shape,
        )


def _parse_int(op: str, name: str, value: Any) -> int:
    # NOTE: every kind refuses a bool and accepts a Dtype. numpy's integers are not ints.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise AttrError(f"{op}: {name} must be an int in [0, 2^64)", value=value, type=type(value).__name__)
    return int(value)


def _parse_ints(op: str, name: str, value: Any) -> Shape:
    if not isinstance(value, (tuple, list)):
        raise AttrError(f"{op}: {name} must be a list of ints", value=value, type=type(value).__name__)
    return tuple(_parse_int(op, name, item) for item in value)


def _parse_dtype(op: str, name: str, value: Any) -> Dtype:
    if not isinstance(value, int) or isinstance(value, bool) or value not in ITEM_SIZE:
        raise AttrError(f"{op}: {name} must be a dtype code", value=value, type=type(value).__name__)
    return Dtype(value)


_PARSE: dict[str, Callable[[str, str, Any], Any]] = {
    "int": _parse_int,
    "ints": _parse_ints,
    "dtype": _parse_dtype,
}
