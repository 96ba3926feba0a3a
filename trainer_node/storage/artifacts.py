"""The five kinds of artifact: their names, their bytes, and the check of those bytes while they arrive.

    kind      name                        bytes                                      limit
    blob      SHA-256                     anything                                   the receiver's
    tensor    TENSOR hash                 dtype u8 ‖ rank u8 ‖ dims u64be ‖ data     header says, and the receiver's
    tree      tag, root, number of leaves leaf hashes, joined                        32 bytes per leaf
    record    RECORD hash                 RECORD preimage without its tag            8482
    log       root, number of nodes       the rounding logs of a step, in one file   the receiver's, packed and unpacked

docs/protocol.md, section 10. SAFETY: a tree's name includes its number of leaves. Its inner nodes are the leaves of a
shallower tree with the same root, so root and tag alone would let a server pass one for the other.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from repops import tensors
from repops.opset import MAX_ELEMENTS, MAX_RANK, Dtype

from referee_py.commit import (
    HASH_BYTES,
    LEAF_BYTES,
    MAX_INPUTS,
    MAX_OUTPUTS,
    NO_LOG,
    Record,
    Tag,
    data_node,
    depth_of,
    describe,
    digest,
    empty,
)
from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding.blocks import log_digest
from referee_py.rounding.entries import Log
from referee_py.rounding.step_log import NodeLog, Reader

from ..errors import Corrupt

MAX_RECORD_BYTES = HASH_BYTES + 2 + (MAX_INPUTS + MAX_OUTPUTS + 1) * HASH_BYTES
MAX_TREE_LEAVES = 1 << 24
"""Limit on the nodes of a program (protocol section 4); run trees of a level are far smaller."""

NUMPY_DTYPE: dict[Dtype, np.dtype[Any]] = {
    code: dtype.newbyteorder("<") for code, dtype in tensors.NUMPY_DTYPE.items()
}
"""NumPy dtypes in little-endian byte order, as served."""

Array = npt.NDArray[Any]

_HEX_HASH = re.compile(r"[0-9a-f]{64}")
_TREE_TAGS = frozenset(tag for tag in Tag if tag >= Tag.DATA_TREE)


class Kind(StrEnum):
    BLOB = "blob"
    TENSOR = "tensor"
    TREE = "tree"
    RECORD = "record"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Name:
    """The name that requests an artifact. ``tag`` is for trees only; ``count`` is a tree's leaves or a log's nodes."""

    kind: Kind
    hash: bytes
    tag: Tag | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.hash, bytes) or len(self.hash) != HASH_BYTES:
            raise InvalidInput(f"artifact name {self.hash!r} is not a hash of {HASH_BYTES} bytes")
        counted = self.kind in (Kind.TREE, Kind.LOG)
        if (self.kind is Kind.TREE) != (self.tag is not None) or (not counted and self.count is not None):
            raise InvalidInput(
                f"a {self.kind} name with tag {self.tag} and count {self.count}; only trees have both, logs a count"
            )
        if self.tag is not None and self.tag not in _TREE_TAGS:
            raise InvalidInput(f"tag 0x{self.tag:02x} is not the tag of a tree")
        if self.count is not None and not 0 <= self.count <= MAX_TREE_LEAVES:
            raise InvalidInput(f"a {self.kind} of {self.count} leaves; the limit is {MAX_TREE_LEAVES}")
        if self.kind is Kind.LOG and self.count is None:
            raise InvalidInput("a step log is named by its number of nodes too; add ?count=")

    @property
    def url_path(self) -> str:
        """The path below a server's base URI. INVARIANT: letters, digits and slashes; the count is a query."""
        tag = f"{self.tag:02x}/" if self.tag is not None else ""
        query = f"?count={self.count}" if self.count is not None else ""
        return f"/v1/{self.kind}/{tag}{self.hash.hex()}{query}"

    def __str__(self) -> str:
        return self.url_path.removeprefix("/v1/")


def parse_hash(text: str) -> bytes:
    """Return 32 bytes from 64 lower-case hex digits, with or without 0x. Raises InvalidInput for anything else."""
    digits = text.removeprefix("0x")
    if not _HEX_HASH.fullmatch(digits):
        raise InvalidInput(f"{text[:80]!r} is not a hash; give 64 lower-case hex digits")
    return bytes.fromhex(digits)


def parse_tag(text: str) -> Tag:
    """Return the tree tag for its two hex digits, as in docs/protocol.md. Raises InvalidInput otherwise."""
    for tag in _TREE_TAGS:
        if text == f"{tag:02x}":
            return tag
    raise InvalidInput(
        f"{text[:80]!r} is not the tag of a tree; give one of {sorted(f'{t:02x}' for t in _TREE_TAGS)}"
    )


def encode_tensor_header(array: Array) -> bytes:
    """Return ``dtype u8 ‖ rank u8 ‖ dims u64be each``."""
    for code, dtype in NUMPY_DTYPE.items():
        if array.dtype == dtype:
            return describe(code, array.shape)
    raise InvalidInput(f"dtype {array.dtype} cannot be stored; use float32, bfloat16, int64 or bool")


def decode_tensor_header(head: bytes) -> tuple[Dtype, tuple[int, ...], int] | None:
    """Return ``(dtype, shape, header bytes)``, or None if ``head`` is too short. Raises Corrupt for anything else."""
    if len(head) < 2:
        return None
    code, rank = head[0], head[1]
    if code not in set(Dtype) or rank > MAX_RANK:
        raise Corrupt(
            f"a tensor header of dtype {code} and rank {rank}; dtypes are 1..4 and ranks up to {MAX_RANK}"
        )
    size = 2 + 8 * rank
    if len(head) < size:
        return None
    shape = struct.unpack_from(f">{rank}Q", head, 2)
    # NOTE: zeros count as ones here, so that intermediate products cannot overflow in numpy either.
    if math.prod(max(dim, 1) for dim in shape) >= MAX_ELEMENTS:
        raise Corrupt(f"a tensor header of shape {shape}; it must have fewer than {MAX_ELEMENTS} elements")
    return Dtype(code), shape, size


def decode_tensor(data: bytes | bytearray) -> Array:
    """Return the tensor in checked bytes (`check_for`), as a new, aligned array."""
    parsed = decode_tensor_header(bytes(data[: 2 + 8 * MAX_RANK]))
    assert parsed is not None  # the check has accepted the bytes
    dtype, shape, size = parsed
    array = np.empty(shape, NUMPY_DTYPE[dtype])
    array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8, offset=size)
    return array


class Fold:
    """Computes the root of a tree whose leaves arrive one by one; keeps one node per level."""

    def __init__(self, tag: Tag) -> None:
        self.tag = tag
        self.count = 0
        self._left: list[
            bytes | None
        ] = []  # at height h: a finished left sibling that waits for its right sibling

    def push(self, node: bytes, height: int = 0) -> None:
        """Append a leaf (32 bytes), or a node over ``2^height`` leaves, none of which is missing but in the last one.

        A node must be at a multiple of its leaves.
        """
        self.count += 1 << height
        self._left += [None] * (height - len(self._left))
        for level in range(height, len(self._left)):
            left = self._left[level]
            if left is None:
                self._left[level] = node
                return
            node, self._left[level] = digest(self.tag, left, node), None
        self._left.append(node)

    def root(self) -> bytes:
        """Return the root over the leaves pushed so far; :class:`referee_py.commit.Tree` gives the same."""
        right: bytes | None = None  # the unfinished subtree so far, padded; None if there is none
        for height in range(depth_of(self.count)):
            left = self._left[height]
            if left is not None:
                right = digest(self.tag, left, right or empty(self.tag, height))
            elif right is not None:
                right = digest(self.tag, right, empty(self.tag, height))
        return right or (self._left and self._left[-1]) or empty(self.tag, 0)


class Check(Protocol):
    """Checks the bytes of one artifact as they arrive. Both methods raise Corrupt; ``update`` as early as it can."""

    def update(self, chunk: bytes) -> None: ...

    def finish(self) -> None: ...


def check_for(name: Name, max_bytes: int) -> Check:
    """Return a check that accepts only the bytes of ``name``; a log may unpack to at most ``max_bytes``."""
    match name.kind:
        case Kind.BLOB:
            return _BlobCheck(name)
        case Kind.TENSOR:
            return _TensorCheck(name)
        case Kind.TREE:
            return _TreeCheck(name)
        case Kind.RECORD:
            return _RecordCheck(name)
        case Kind.LOG:
            return _LogCheck(name, max_bytes)


def _expect(name: Name, found: bytes) -> None:
    if found != name.hash:
        raise Corrupt(f"the bytes of {name} hash to {found.hex()}; ask another server")


class _BlobCheck:
    def __init__(self, name: Name) -> None:
        self._name = name
        self._hash = hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        self._hash.update(chunk)

    def finish(self) -> None:
        _expect(self._name, self._hash.digest())


class _RecordCheck:
    def __init__(self, name: Name) -> None:
        self._name = name
        self._data = bytearray()

    def update(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) > MAX_RECORD_BYTES:
            raise Corrupt(f"{self._name} is longer than the longest record, {MAX_RECORD_BYTES} bytes")

    def finish(self) -> None:
        try:
            record = Record.decode(bytes(self._data))
        except InvalidEncoding as error:
            raise Corrupt(f"{self._name} is not a record: {error}") from error
        _expect(self._name, record.hash())


class _TreeCheck:
    def __init__(self, name: Name) -> None:
        assert name.tag is not None
        self._name = name
        self._fold = Fold(name.tag)
        self._rest = b""

    def update(self, chunk: bytes) -> None:
        data = self._rest + chunk
        whole = len(data) - len(data) % HASH_BYTES
        limit = MAX_TREE_LEAVES if self._name.count is None else self._name.count
        if self._fold.count + whole // HASH_BYTES > limit:
            raise Corrupt(f"{self._name} has more than {limit} leaves")
        for start in range(0, whole, HASH_BYTES):
            self._fold.push(data[start : start + HASH_BYTES])
        self._rest = data[whole:]

    def finish(self) -> None:
        if self._rest:
            raise Corrupt(f"{self._name} ends inside a hash")
        if self._name.count is not None and self._fold.count != self._name.count:
            raise Corrupt(f"{self._name} has {self._fold.count} leaves, not {self._name.count}")
        _expect(self._name, self._fold.root())


class _TensorCheck:
    """Hashes pieces of a tensor's data natively, each a subtree. Memory: a piece, and what came since."""

    _HEIGHT = 10
    _PIECE = LEAF_BYTES << _HEIGHT

    def __init__(self, name: Name) -> None:
        self._name = name
        self._fold = Fold(Tag.DATA_TREE)
        self._rest = bytearray()
        self._header: tuple[Dtype, tuple[int, ...]] | None = None
        self._missing = 0  # data bytes that are not hashed yet

    def update(self, chunk: bytes) -> None:
        self._rest += chunk
        if self._header is None:
            parsed = decode_tensor_header(bytes(self._rest[: 2 + 8 * MAX_RANK]))
            if parsed is None:
                return
            dtype, shape, size = parsed
            self._header = dtype, shape
            self._missing = math.prod(shape) * NUMPY_DTYPE[dtype].itemsize
            del self._rest[:size]
        if len(self._rest) > self._missing:
            raise Corrupt(f"{self._name} has more data than its shape {self._header[1]} holds")
        while len(self._rest) >= self._PIECE:
            self._fold.push(data_node(self._taken(self._PIECE), self._HEIGHT), self._HEIGHT)

    def _taken(self, size: int) -> memoryview:
        """Return a number of the bytes that came, as the data of a tensor. Raises Corrupt if they cannot be that."""
        assert self._header is not None
        dtype, data = self._header[0], bytes(memoryview(self._rest)[:size])
        del self._rest[:size]
        self._missing -= size
        if dtype is Dtype.BOOL and (np.frombuffer(data, np.uint8) > 1).any():
            raise Corrupt(f"{self._name} is of bools and has a byte that is neither 0 nor 1")
        values = np.frombuffer(data, NUMPY_DTYPE[dtype])
        committed = tensors.canonical(values)
        if committed is not values and committed.tobytes() != data:
            raise Corrupt(f"{self._name} has a NaN that is not in its committed form")
        return memoryview(data)

    def finish(self) -> None:
        if self._header is None or len(self._rest) != self._missing:
            raise Corrupt(f"{self._name} is truncated")
        last = self._taken(self._missing)
        if not self._fold.count:
            root = data_node(last, depth_of(-(-len(last) // LEAF_BYTES)))
        else:
            # NOTE: a tree of more leaves than a piece is as deep with its last piece padded.
            if last:
                self._fold.push(data_node(last, self._HEIGHT), self._HEIGHT)
            root = self._fold.root()
        _expect(self._name, digest(Tag.TENSOR, describe(*self._header), root))


class _LogCheck:
    """Folds the digests of the nodes' logs into the root, without keeping a log."""

    def __init__(self, name: Name, max_bytes: int) -> None:
        assert name.count is not None
        self._name = name
        self._count = name.count
        self._reader = Reader(name.count, max_bytes, self._found)
        self._step = Fold(Tag.LOG_TREE)

    def update(self, chunk: bytes) -> None:
        try:
            self._reader.update(chunk)
        except InvalidEncoding as error:
            raise Corrupt(f"{self._name}: {error}") from error

    def finish(self) -> None:
        try:
            self._reader.finish()
        except InvalidEncoding as error:
            raise Corrupt(f"{self._name}: {error}") from error
        self._no_logs_until(self._count)
        _expect(self._name, self._step.root())

    def _found(self, node: int, _: NodeLog, log: Log) -> None:
        self._no_logs_until(node)
        self._step.push(log_digest(log))

    def _no_logs_until(self, node: int) -> None:
        while self._step.count < node:
            self._step.push(NO_LOG)
