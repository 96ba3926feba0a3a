"""A program: one training step as a flat operator graph, with its constants and its initial state.

Its file is canonical CBOR with the keys `format`, `opset`, `nodes`, `slots`, `constants`, `initial`
(docs/protocol.md, section 4). The file holds hashes of tensors, not tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cbor2
from repops.opset import OPSET_VERSION, Dtype

from ..commit import HASH_BYTES, Tag, Tree, digest, tensor_hash
from ..commit.tensor import Array
from ..errors import HashMismatch, InvalidEncoding, UnknownVersion
from .structure import Kind, Operand, Structure, TensorType

FORMAT = 1
MAX_FILE_BYTES = 256 << 20
"""About two million nodes. A reader refuses more before it parses anything."""

_KEYS = {"format", "opset", "nodes", "slots", "constants", "initial"}


@dataclass(frozen=True, slots=True)
class TensorDescriptor:
    """A committed tensor: its type and its TENSOR hash."""

    type: TensorType
    hash: bytes

    @classmethod
    def of(cls, array: Array) -> TensorDescriptor:
        return cls(TensorType.of(array), tensor_hash(array))

    def check(self, array: Array, what: str) -> None:
        """Raises HashMismatch unless the array is this tensor; `what` names it in the message."""
        found = TensorType.of(array)
        if found != self.type:
            raise HashMismatch(f"{what} is {found}, the program says {self.type}; fetch it again")
        actual = tensor_hash(array)
        if actual != self.hash:
            raise HashMismatch(
                f"{what} has hash {actual.hex()}, the program says {self.hash.hex()}; fetch it again"
            )


@dataclass(frozen=True, slots=True)
class SlotSource:
    """Which output of which node is a slot's value after the step."""

    node: int
    output: int

    def hash(self) -> bytes:
        """The SLOT hash: ``H(05 ‖ node u32be ‖ output u8)``."""
        return digest(Tag.SLOT, self.node.to_bytes(4, "big"), bytes([self.output]))


@dataclass(frozen=True)
class Program:
    """Node order is topological; `initial[j]` describes slot `j` before step 1. Check with `validate`."""

    nodes: tuple[Structure, ...]
    slots: tuple[SlotSource, ...]
    constants: tuple[TensorDescriptor, ...]
    initial: tuple[TensorDescriptor, ...]
    opset: int = OPSET_VERSION

    @cached_property
    def structures(self) -> Tree:
        return Tree(Tag.STRUCTURE_TREE, [node.hash() for node in self.nodes])

    @cached_property
    def slot_table(self) -> Tree:
        return Tree(Tag.SLOT_TREE, [slot.hash() for slot in self.slots])

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
        return self.slot_table.root

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
        return self.slot_table.path(slot)

    def constant_path(self, constant: int) -> list[bytes]:
        return self.constant_tree.path(constant)

    def initial_path(self, slot: int) -> list[bytes]:
        return self.initial_tree.path(slot)

    def type_of(self, operand: Operand) -> TensorType:
        """Dtype and shape of what an operand of a validated program stands for."""
        match operand.kind:
            case Kind.NODE:
                return self.nodes[operand.index].outputs[operand.output]
            case Kind.SLOT:
                return self.initial[operand.index].type
            case Kind.CONSTANT:
                return self.constants[operand.index].type
        return TensorType(Dtype.I64, ())

    def check_tensors(self, constants: Sequence[Array], initial: Sequence[Array]) -> None:
        """Raises HashMismatch unless these are exactly the program's tensors."""
        for what, described, arrays in (
            ("constant", self.constants, constants),
            ("initial slot", self.initial, initial),
        ):
            if len(described) != len(arrays):
                raise HashMismatch(f"{len(arrays)} tensors for {len(described)} of kind {what}")
            for k, (descriptor, array) in enumerate(zip(described, arrays, strict=True)):
                descriptor.check(array, f"{what} {k}")

    def to_bytes(self) -> bytes:
        """The program file: the same bytes in every process."""
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
        """SHA-256 of the program file: the name that a job gives it."""
        return hashlib.sha256(self.to_bytes()).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """Read and validate a program file from an untrusted source.

        Raises InvalidEncoding if the bytes are not canonical, UnknownVersion for another format or opset,
        InvalidProgram if the graph breaks a rule.
        """
        program = cls._parse(data)
        # SAFETY: equal bytes on the way back leave no room for a second file of the same program: no indefinite or
        # overlong item, no tag, no other key order, nothing after the end.
        if program.to_bytes() != data:
            raise InvalidEncoding("the program file is not canonical CBOR; write it with Program.to_bytes")
        from .validate import validate

        validate(program)
        return program

    @classmethod
    def _parse(cls, data: bytes) -> Program:
        if len(data) > MAX_FILE_BYTES:
            raise InvalidEncoding(f"a program file of {len(data)} bytes; the limit is {MAX_FILE_BYTES}")
        try:
            top = cbor2.loads(data, max_depth=4, allow_indefinite=False, allow_duplicate_keys=False)
        except Exception as error:  # NOTE: hostile bytes reach constructors of many types inside the decoder
            raise InvalidEncoding(f"the program file is not CBOR: {error}") from error
        if type(top) is not dict or set(top) != _KEYS:
            raise InvalidEncoding(f"a program file is a map with exactly the keys {sorted(_KEYS)}")
        if type(top["format"]) is not int or top["format"] != FORMAT:
            raise UnknownVersion(f"program file format {top['format']!r}; this build reads {FORMAT}")
        check_opset(top["opset"])
        return cls(
            nodes=tuple(Structure.decode(_bytes(item)) for item in _list(top["nodes"])),
            slots=tuple(SlotSource(*_ints(item, (1 << 32, 1 << 8))) for item in _list(top["slots"])),
            constants=tuple(_descriptor(item) for item in _list(top["constants"])),
            initial=tuple(_descriptor(item) for item in _list(top["initial"])),
            opset=top["opset"],
        )


def check_opset(version: object) -> None:
    """Raises UnknownVersion unless this build implements exactly that operator set."""
    if type(version) is not int or version != OPSET_VERSION:
        raise UnknownVersion(
            f"operator set {version!r}; this build implements exactly {OPSET_VERSION}: "
            "install the release that implements it, or capture the program again with this one"
        )


# ------------------------------------------------------------------------------------------ reading plain values


def _plain(tensor: TensorDescriptor) -> list[Any]:
    return [int(tensor.type.dtype), list(tensor.type.shape), tensor.hash]


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise InvalidEncoding(f"a list is expected, not {type(value).__name__}")
    return value


def _bytes(value: object) -> bytes:
    if type(value) is not bytes:
        raise InvalidEncoding(f"a byte string is expected, not {type(value).__name__}")
    return value


def _ints(value: object, limits: Sequence[int]) -> list[int]:
    """A list of ints, one for each limit (exclusive)."""
    items = _list(value)
    if len(items) != len(limits):
        raise InvalidEncoding(f"a list of {len(limits)} ints is expected, not of {len(items)}")
    for item, limit in zip(items, limits, strict=True):
        if type(item) is not int or not 0 <= item < limit:
            raise InvalidEncoding(f"an int below {limit} is expected, not {item!r}")
    return items


def _descriptor(value: object) -> TensorDescriptor:
    items = _list(value)
    if len(items) != 3:
        raise InvalidEncoding(f"a tensor descriptor is [dtype, [dims], hash], not a list of {len(items)}")
    dims = _list(items[1])
    (code,) = _ints([items[0]], [256])
    shape = tuple(_ints(dims, [1 << 64] * len(dims)))
    if code not in set(Dtype):
        raise InvalidEncoding(f"dtype code {code} is none of {[int(d) for d in Dtype]}")
    name = _bytes(items[2])
    if len(name) != HASH_BYTES:
        raise InvalidEncoding(f"a tensor hash has {HASH_BYTES} bytes, not {len(name)}")
    return TensorDescriptor(TensorType(Dtype(code), shape), name)
