"""A program: one training step as a flat operator graph, with its constants and its initial state.

Its file is canonical CBOR with the keys `format`, `opset`, `nodes`, `slots`, `constants`, `initial`
(docs/protocol.md, section 4). The file holds hashes of tensors, not tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cbor2
from repops.opset import OPSET_VERSION

from ..commit import Tag, Tree, tensor_hash
from ..commit.tensor import Array
from ..errors import HashMismatch
from .skeleton import Skeleton, SlotSource
from .structure import Operand, Structure, TensorType

FORMAT = 1


@dataclass(frozen=True, slots=True)
class TensorDescriptor:
    """A committed tensor: its type and its TENSOR hash."""

    type: TensorType
    hash: bytes

    @classmethod
    def of(cls, array: Array) -> TensorDescriptor:
        return cls(TensorType.of(array), tensor_hash(array))

    def check(self, array: Array, what: str) -> None:
        """Raise HashMismatch unless the array is this tensor; `what` names it in the message."""
        found = TensorType.of(array)
        if found != self.type:
            raise HashMismatch(f"{what} is {found}, the program says {self.type}; fetch it again")
        actual = tensor_hash(array)
        if actual != self.hash:
            raise HashMismatch(
                f"{what} has hash {actual.hex()}, the program says {self.hash.hex()}; fetch it again"
            )


@dataclass(frozen=True)
class Program:
    """Node order is topological; `initial[j]` describes slot `j` before step 1. Check with `validate`."""

    nodes: tuple[Structure, ...]
    slots: tuple[SlotSource, ...]
    constants: tuple[TensorDescriptor, ...]
    initial: tuple[TensorDescriptor, ...]
    opset: int = OPSET_VERSION

    @classmethod
    def of(cls, skeleton: Skeleton, constants: Iterable[bytes], initial: Iterable[bytes]) -> Program:
        """Return a skeleton with the TENSOR hashes of its constants and initial slots."""
        return cls(
            skeleton.nodes,
            skeleton.slots,
            tuple(TensorDescriptor(t, h) for t, h in zip(skeleton.constants, constants, strict=True)),
            tuple(TensorDescriptor(t, h) for t, h in zip(skeleton.initial, initial, strict=True)),
            skeleton.opset,
        )

    @cached_property
    def skeleton(self) -> Skeleton:
        """This graph without hashes of tensors."""
        return Skeleton(
            self.nodes,
            self.slots,
            tuple(tensor.type for tensor in self.constants),
            tuple(tensor.type for tensor in self.initial),
            self.opset,
        )

    @property
    def structures(self) -> Tree:
        return self.skeleton.structures

    @cached_property
    def constant_tree(self) -> Tree:
        return Tree(Tag.CONSTANT_TREE, [constant.hash for constant in self.constants])

    @cached_property
    def initial_tree(self) -> Tree:
        return Tree(Tag.INITIAL_TREE, [tensor.hash for tensor in self.initial])

    @property
    def structure_root(self) -> bytes:
        return self.structures.root

    @property
    def slot_root(self) -> bytes:
        return self.skeleton.slot_root

    @property
    def constant_root(self) -> bytes:
        return self.constant_tree.root

    @property
    def initial_root(self) -> bytes:
        """`C_0`."""
        return self.initial_tree.root

    def structure_path(self, node: int) -> list[bytes]:
        return self.structures.path(node)

    def slot_path(self, slot: int) -> list[bytes]:
        return self.skeleton.slot_table.path(slot)

    def constant_path(self, constant: int) -> list[bytes]:
        return self.constant_tree.path(constant)

    def initial_path(self, slot: int) -> list[bytes]:
        return self.initial_tree.path(slot)

    def type_of(self, operand: Operand) -> TensorType:
        """Return dtype and shape of an operand of a validated program."""
        return self.skeleton.type_of(operand)

    def check_tensors(self, constants: Sequence[Array], initial: Sequence[Array]) -> None:
        """Raise HashMismatch unless these are exactly the program's tensors."""
        for what, described, arrays in (
            ("constant", self.constants, constants),
            ("initial slot", self.initial, initial),
        ):
            if len(described) != len(arrays):
                raise HashMismatch(f"{len(arrays)} tensors for {len(described)} of kind {what}")
            for k, (descriptor, array) in enumerate(zip(described, arrays, strict=True)):
                descriptor.check(array, f"{what} {k}")

    def to_bytes(self) -> bytes:
        """Return the program file: the same bytes in every process."""
        return cbor2.dumps(
            {
                "format": FORMAT,
                "opset": self.opset,
                "nodes": [node.encode() for node in self.nodes],
                "slots": [[slot.node, slot.output] for slot in self.slots],
                "constants": [_plain(tensor) for tensor in self.constants],
                "initial": [_plain(tensor) for tensor in self.initial],
            },
            canonical=True,
        )

    def file_hash(self) -> bytes:
        """Return the SHA-256 of the program file, which is its name in a job."""
        return hashlib.sha256(self.to_bytes()).digest()


def _plain(tensor: TensorDescriptor) -> list[Any]:
    return [int(tensor.type.dtype), list(tensor.type.shape), tensor.hash]
