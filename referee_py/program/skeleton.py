"""A program without its tensors: operators, slot sources, and the types of constants and of the initial state.

Structure and weights are separate: the graph of a model with billions of parameters is known, hashed and compared in
seconds, before anybody has read a weight. `Program.of` adds the hashes of the tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cbor2
from repops.opset import OPSET_VERSION, Dtype

from ..commit import Tag, Tree, digest
from ..errors import UnknownVersion
from .structure import Kind, Operand, Structure, TensorType

FORMAT = 1


def check_opset(version: object) -> None:
    """Raises UnknownVersion unless this build implements exactly that operator set."""
    if type(version) is not int or version != OPSET_VERSION:
        raise UnknownVersion(
            f"operator set {version!r}; this build implements exactly {OPSET_VERSION}: "
            "install the release that implements it, or capture the program again with this one"
        )


@dataclass(frozen=True, slots=True)
class SlotSource:
    """The node and its output that give a slot's value after the step."""

    node: int
    output: int

    def hash(self) -> bytes:
        """Return the SLOT hash, ``H(05 ‖ node u32be ‖ output u8)``."""
        return digest(Tag.SLOT, self.node.to_bytes(4, "big"), bytes([self.output]))


@dataclass(frozen=True)
class Skeleton:
    """Node order is topological; `initial[j]` is the type of slot `j`. Check with `validate`."""

    nodes: tuple[Structure, ...]
    slots: tuple[SlotSource, ...]
    constants: tuple[TensorType, ...]
    initial: tuple[TensorType, ...]
    opset: int = OPSET_VERSION

    @cached_property
    def structures(self) -> Tree:
        return Tree(Tag.STRUCTURE_TREE, [node.hash() for node in self.nodes])

    @cached_property
    def slot_table(self) -> Tree:
        return Tree(Tag.SLOT_TREE, [slot.hash() for slot in self.slots])

    def type_of(self, operand: Operand) -> TensorType:
        """Return dtype and shape of an operand of a validated graph."""
        match operand.kind:
            case Kind.NODE:
                return self.nodes[operand.index].outputs[operand.output]
            case Kind.SLOT:
                return self.initial[operand.index]
            case Kind.CONSTANT:
                return self.constants[operand.index]
        return TensorType(Dtype.I64, ())

    @property
    def structure_root(self) -> bytes:
        return self.structures.root

    @property
    def slot_root(self) -> bytes:
        return self.slot_table.root

    def to_bytes(self) -> bytes:
        """Return the skeleton file: the same bytes in every process."""
        return cbor2.dumps(
            {
                "skeleton": FORMAT,
                "opset": self.opset,
                "nodes": [node.encode() for node in self.nodes],
                "slots": [[slot.node, slot.output] for slot in self.slots],
                "constants": [[int(type_.dtype), list(type_.shape)] for type_ in self.constants],
                "initial": [[int(type_.dtype), list(type_.shape)] for type_ in self.initial],
            },
            canonical=True,
        )
