"""A node without any value: operator, operands, output types, attributes (docs/protocol.md, section 4).

    structure = op u16be ‖ nin u8 ‖ nout u8
              ‖ nin  × ( kind u8 ‖ index u32be ‖ output u8 )
              ‖ nout × ( dtype u8 ‖ rank u8 ‖ dims u64be × rank )
              ‖ attributes

INVARIANT: encode and decode are inverse bijections; `Structure.decode` refuses all bytes that `encode` never returns.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from repops.opset import BY_ID, ITEM_SIZE, MAX_ELEMENTS, MAX_RANK, Dtype, Op, lookup

from ..commit import MAX_INPUTS, MAX_OUTPUTS, Tag, digest
from ..commit.tensor import Array, dtype_of
from ..errors import InvalidEncoding
from .attributes import decode_attributes, encode_attributes

MAX_STRUCTURE_BYTES = 8192
MAX_NODES = 1 << 24  # exclusive
MAX_SLOTS = 1 << 20  # exclusive
MAX_CONSTANTS = 1 << 20  # exclusive


class Kind(IntEnum):
    """Source of an operand's value (docs/protocol.md, section 3)."""

    NODE = 0
    SLOT = 1
    CONSTANT = 2
    STEP = 3


_INDEX_LIMIT = {Kind.NODE: MAX_NODES, Kind.SLOT: MAX_SLOTS, Kind.CONSTANT: MAX_CONSTANTS, Kind.STEP: 1}


@dataclass(frozen=True, slots=True)
class Operand:
    """One input of a node. `output` is 0 unless the kind is NODE; `index` is 0 if the kind is STEP."""

    kind: Kind
    index: int = 0
    output: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.index < _INDEX_LIMIT[self.kind]:
            raise InvalidEncoding(
                f"operand of kind {self.kind.name} has index {self.index}; the limit is {_INDEX_LIMIT[self.kind]}"
            )
        if not 0 <= self.output < (MAX_OUTPUTS if self.kind == Kind.NODE else 1):
            raise InvalidEncoding(f"operand of kind {self.kind.name} names output {self.output}")


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype and shape: all that is known of a tensor before it is computed. InvalidEncoding beyond the limits."""

    dtype: Dtype
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_RANK or any(not 0 <= dim < MAX_ELEMENTS for dim in self.shape):
            raise InvalidEncoding(
                f"shape {self.shape}: the rank may be {MAX_RANK} at most, a dimension below {MAX_ELEMENTS}"
            )

    @classmethod
    def of(cls, array: Array) -> TensorType:
        """Return the type of an array. Raises InvalidInput if it is of another dtype."""
        return cls(dtype_of(array), array.shape)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor's data."""
        return ITEM_SIZE[self.dtype] * self.count

    def __str__(self) -> str:
        return f"{self.dtype.name.lower()}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Structure:
    """One operator of a program. `attributes` are encoded bytes; `attrs` are the decoded attributes."""

    op: int
    inputs: tuple[Operand, ...]
    outputs: tuple[TensorType, ...]
    attributes: bytes = b""

    @classmethod
    def make(
        cls, name: str, inputs: Sequence[Operand], outputs: Sequence[TensorType], **attrs: Any
    ) -> Structure:
        """Make a structure from an operator's name and readable attributes."""
        row = lookup(name)
        return cls(row.id, tuple(inputs), tuple(outputs), encode_attributes(row, attrs))

    @property
    def row(self) -> Op:
        """The operator's row. Raises InvalidEncoding if the table has none."""
        row = BY_ID.get(self.op)
        if row is None:
            raise InvalidEncoding(
                f"operator {self.op} is not in the operator table; capture the program again"
            )
        return row

    @property
    def name(self) -> str:
        return self.row.name

    @cached_property
    def attrs(self) -> dict[str, Any]:
        return decode_attributes(self.row, self.attributes)

    def encode(self) -> bytes:
        """Return the canonical bytes. Raises InvalidEncoding beyond the limits of section 4."""
        if len(self.inputs) > MAX_INPUTS or len(self.outputs) > MAX_OUTPUTS:
            raise InvalidEncoding(
                f"{self.name}: {len(self.inputs)} inputs and {len(self.outputs)} outputs; "
                f"the limits are {MAX_INPUTS} and {MAX_OUTPUTS}"
            )
        parts = [struct.pack(">HBB", self.op, len(self.inputs), len(self.outputs))]
        parts += [struct.pack(">BIB", o.kind, o.index, o.output) for o in self.inputs]
        parts += [struct.pack(f">BB{len(t.shape)}Q", t.dtype, len(t.shape), *t.shape) for t in self.outputs]
        data = b"".join([*parts, self.attributes])
        if len(data) > MAX_STRUCTURE_BYTES:
            raise InvalidEncoding(
                f"{self.name}: a structure of {len(data)} bytes; the limit is {MAX_STRUCTURE_BYTES}"
            )
        return data

    @classmethod
    def decode(cls, data: bytes) -> Structure:
        """Decode the result of :meth:`encode`. Raises InvalidEncoding for any other bytes."""
        if len(data) > MAX_STRUCTURE_BYTES:
            raise InvalidEncoding(f"a structure of {len(data)} bytes; the limit is {MAX_STRUCTURE_BYTES}")
        try:
            op, nin, nout = struct.unpack_from(">HBB", data)
            if nout > MAX_OUTPUTS:
                raise InvalidEncoding(f"a structure with {nout} outputs; the limit is {MAX_OUTPUTS}")
            at, inputs, outputs = 4, [], []
            for _ in range(nin):
                kind, index, output = struct.unpack_from(">BIB", data, at)
                inputs.append(Operand(Kind(kind), index, output))
                at += 6
            for _ in range(nout):
                dtype, rank = struct.unpack_from(">BB", data, at)
                dims = struct.unpack_from(f">{rank}Q", data, at + 2)
                outputs.append(TensorType(Dtype(dtype), dims))
                at += 2 + 8 * rank
        except (struct.error, ValueError) as error:
            raise InvalidEncoding(f"a structure that ends early or holds an unknown code: {error}") from error
        structure = cls(op, tuple(inputs), tuple(outputs), bytes(data[at:]))
        # SAFETY: reading the attributes checks that they are the operator's, complete, and followed by nothing.
        _ = structure.attrs
        return structure

    def hash(self) -> bytes:
        """Return the STRUCTURE hash, a leaf of the structure tree."""
        return digest(Tag.STRUCTURE, self.encode())
