"""Read program and skeleton files from strangers: canonical CBOR, each value checked before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cbor2
from repops.opset import Dtype

from ..commit import HASH_BYTES
from ..errors import InvalidEncoding, UnknownVersion
from .program import FORMAT as PROGRAM_FORMAT
from .program import Program, TensorDescriptor
from .skeleton import FORMAT as SKELETON_FORMAT
from .skeleton import Skeleton, SlotSource, check_opset
from .structure import Structure, TensorType
from .validate import validate

_PROGRAM_KEYS = {"format", "opset", "nodes", "slots", "constants", "initial"}
_SKELETON_KEYS = {"skeleton", "opset", "nodes", "slots", "constants", "initial"}
MAX_FILE_BYTES = 256 << 20
"""About two million nodes. A reader refuses more before it parses anything."""


def read_program(data: bytes) -> Program:
    """Read and validate a program file from an untrusted source.

    Raises InvalidEncoding if the bytes are not canonical, UnknownVersion for another format or opset,
    InvalidProgram if the graph breaks a rule.
    """
    program = _program(data)
    # SAFETY: equal bytes on the way back leave no room for a second file of the same program: no indefinite or
    # overlong item, no tag, no other key order, nothing after the end.
    if program.to_bytes() != data:
        raise InvalidEncoding("the program file is not canonical CBOR; write it with Program.to_bytes")
    validate(program.skeleton)
    return program


def read_skeleton(data: bytes) -> Skeleton:
    """Read and validate a skeleton file from an untrusted source. Raises the errors of `read_program`."""
    top = _load(data, "skeleton", SKELETON_FORMAT, _SKELETON_KEYS)
    skeleton = Skeleton(
        nodes=_nodes(top["nodes"]),
        slots=tuple(SlotSource(*place) for place in _places(top["slots"])),
        constants=tuple(_tensor_type(item) for item in _items(top["constants"])),
        initial=tuple(_tensor_type(item) for item in _items(top["initial"])),
        opset=top["opset"],
    )
    if skeleton.to_bytes() != data:  # SAFETY: as in read_program
        raise InvalidEncoding("the skeleton file is not canonical CBOR; write it with Skeleton.to_bytes")
    validate(skeleton)
    return skeleton


def _load(data: bytes, what: str, version: int, keys: set[str]) -> dict[str, Any]:
    """The top map of a file. Its format number stands under `format`, or under the name of what it is.

    Raises InvalidEncoding, or UnknownVersion for another format or operator set.
    """
    if len(data) > MAX_FILE_BYTES:
        raise InvalidEncoding(f"a {what} file of {len(data)} bytes; the limit is {MAX_FILE_BYTES}")
    try:
        top = cbor2.loads(data, max_depth=4, allow_indefinite=False, allow_duplicate_keys=False)
    except Exception as error:  # NOTE: hostile bytes reach constructors of many types inside the decoder
        raise InvalidEncoding(f"the {what} file is not CBOR: {error}") from error
    if type(top) is not dict or set(top) != keys:
        raise InvalidEncoding(f"a {what} file is a map with exactly the keys {sorted(keys)}")
    found = top["format" if "format" in keys else what]
    if type(found) is not int or found != version:
        raise UnknownVersion(f"{what} file format {found!r}; this build reads {version}")
    check_opset(top["opset"])
    return top


def _items(value: object) -> list[Any]:
    if type(value) is not list:
        raise InvalidEncoding(f"a list is expected, not {type(value).__name__}")
    return value


def _octets(value: object) -> bytes:
    if type(value) is not bytes:
        raise InvalidEncoding(f"a byte string is expected, not {type(value).__name__}")
    return value


def _ints(value: object, limits: Sequence[int]) -> list[int]:
    """A list of ints, one for each limit (exclusive)."""
    given = _items(value)
    if len(given) != len(limits):
        raise InvalidEncoding(f"a list of {len(limits)} ints is expected, not of {len(given)}")
    for item, limit in zip(given, limits, strict=True):
        if type(item) is not int or not 0 <= item < limit:
            raise InvalidEncoding(f"an int below {limit} is expected, not {item!r}")
    return given


def _nodes(value: object) -> tuple[Structure, ...]:
    return tuple(Structure.decode(_octets(item)) for item in _items(value))


def _places(value: object) -> list[list[int]]:
    """Node and output of each slot source."""
    return [_ints(item, (1 << 32, 1 << 8)) for item in _items(value)]


def _tensor_type(value: object) -> TensorType:
    """From [dtype, [dims]]."""
    given = _items(value)
    if len(given) != 2:
        raise InvalidEncoding(f"a type is [dtype, [dims]], not a list of {len(given)}")
    dims = _items(given[1])
    (code,) = _ints([given[0]], [256])
    shape = tuple(_ints(dims, [1 << 64] * len(dims)))
    if code not in set(Dtype):
        raise InvalidEncoding(f"dtype code {code} is not one of {[int(d) for d in Dtype]}")
    return TensorType(Dtype(code), shape)


def _program(data: bytes) -> Program:
    top = _load(data, "program", PROGRAM_FORMAT, _PROGRAM_KEYS)
    return Program(
        nodes=_nodes(top["nodes"]),
        slots=tuple(SlotSource(*place) for place in _places(top["slots"])),
        constants=tuple(_descriptor(item) for item in _items(top["constants"])),
        initial=tuple(_descriptor(item) for item in _items(top["initial"])),
        opset=top["opset"],
    )


def _descriptor(value: object) -> TensorDescriptor:
    parts = _items(value)
    if len(parts) != 3:
        raise InvalidEncoding(f"a tensor descriptor is [dtype, [dims], hash], not a list of {len(parts)}")
    name = _octets(parts[2])
    if len(name) != HASH_BYTES:
        raise InvalidEncoding(f"a tensor hash has {HASH_BYTES} bytes, not {len(name)}")
    return TensorDescriptor(_tensor_type(parts[:2]), name)
