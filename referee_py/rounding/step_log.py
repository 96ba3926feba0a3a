"""All rounding logs of one step, as the trainer's records commit to them, in one file (docs/rounding-logs.md).

    file     one zstd frame that states its content size, window at most 8 MiB, around an entry for each node that has a
             log, nodes ascending:
    entry    varint node (from the second entry on: its distance from the node before, less 1) ‖ form u8 ‖
             varint elements ‖ varint length ‖ `length` bytes
    digest   of a node: the digest of its log (blocks.py), or 32 zero bytes
    root     of the step: Tree(LOG_TREE, a digest for each node of the program)

A file may use either form in every mode of a program; a log has the same digest in both.

SAFETY: a step log comes from a stranger. Elements and bytes of an entry can be checked against the commitment without
the program, but bytes that do not decode make the file invalid. A log of another number of elements than the program's
node has no entries for it (`entries`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import zstandard

from ..commit import NO_LOG, Tag, Tree
from ..errors import InvalidEncoding, InvalidInput
from ..program.modes import Form
from . import forms
from .blocks import LogTree, log_digest
from .entries import MAX_LOG_ELEMENTS, Log, check_elements

MAX_VARINT_BYTES = 6
MAX_HEADER_BYTES = 3 * MAX_VARINT_BYTES + 1
ELEMENTS_A_BYTE = 32
"""SAFETY: the blocks of a log's digest are bounded by its elements, which cost a stranger nothing. So the elements of
all logs in a file are at most this many times the bytes that it may unpack to."""
_FRAME_HEADER_BYTES = 18
_MAX_WINDOW = 1 << 23
_LEVEL = 3
_PIECE = 1 << 10  # NOTE: zstd makes at most 32 KiB of a byte, so a piece gives at most 32 MiB


@dataclass(frozen=True)
class NodeLog:
    """One node's log in its transport form: a form, the number of elements, and canonical bytes."""

    form: Form
    elements: int
    canonical: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_elements(self.elements)

    @classmethod
    def of(cls, log: Log, form: Form) -> NodeLog:
        """Return a log in this form. Raises InvalidInput if it is malformed."""
        return cls(form, log.elements, forms.pack(log, form))

    def read(self) -> Log:
        """Return the decoded log. Raises InvalidEncoding if its bytes do not decode."""
        return forms.unpack(self.canonical, self.elements, self.form)

    def entries(self, elements: int) -> Log:
        """Return the log's entries for a node of `elements` elements: none if the log has another number of elements.

        INVARIANT: this is part of the truth (docs/rounding-logs.md, section 3): every party ignores the same logs.
        """
        return self.read() if self.elements == elements else Log.empty(elements)

    def opened(self) -> Log | LogTree:
        """Return an object that gives blocks and paths: the log, or a tree if the log does not have all of them."""
        return self.read()

    @cached_property
    def digest(self) -> bytes:
        """Log hash in the node's record."""
        return log_digest(self.read())


@dataclass(frozen=True)
class StepLog:
    """The logs of a step by node. Raises InvalidInput for negative nodes."""

    nodes: Mapping[int, NodeLog]

    def __post_init__(self) -> None:
        if any(node < 0 for node in self.nodes):
            raise InvalidInput(f"a log of node {min(self.nodes)}; nodes are counted from 0")

    @classmethod
    def empty(cls) -> StepLog:
        """Return the log of a step in which nothing was near a midpoint."""
        return cls({})

    def entries(self, node: int, elements: int) -> Log:
        """Return the entries for a node of `elements` elements."""
        log = self.nodes.get(node)
        return log.entries(elements) if log is not None else Log.empty(elements)

    @property
    def size(self) -> int:
        """Bytes of all canonical forms."""
        return sum(len(log.canonical) for log in self.nodes.values())

    def digest(self, node: int) -> bytes:
        """Return the log hash in the record of this node, 32 bytes."""
        log = self.nodes.get(node)
        return log.digest if log is not None else NO_LOG

    def digests(self, node_count: int) -> list[bytes]:
        """Return one digest for each node of the program. Raises InvalidInput for a log of a node beyond the last."""
        if any(node >= node_count for node in self.nodes):
            raise InvalidInput(f"a log of node {max(self.nodes)} of a program with {node_count} nodes")
        return [self.digest(node) for node in range(node_count)]

    def tree(self, node_count: int) -> Tree:
        """Return the tree over the digests."""
        return Tree(Tag.LOG_TREE, self.digests(node_count))

    def root(self, node_count: int) -> bytes:
        """Return the root for this step, a leaf of the run log tree."""
        return self.tree(node_count).root

    def encode(self) -> bytes:
        """Return the file."""
        parts, before = [], -1
        for node in sorted(self.nodes):
            log = self.nodes[node]
            head = _varint(node - before - 1) + bytes([log.form])
            parts += [head, _varint(log.elements), _varint(len(log.canonical)), log.canonical]
            before = node
        return compress(b"".join(parts))

    @classmethod
    def decode(cls, data: bytes, node_count: int, max_bytes: int) -> StepLog:
        """Decode a file from a stranger, for a program of `node_count` nodes.

        Raises InvalidEncoding for bytes that are no such file, or unpack to more than `max_bytes`.
        """
        found: dict[int, NodeLog] = {}

        def keep(node: int, log: NodeLog, _: Log) -> None:
            found[node] = log

        reader = Reader(node_count, max_bytes, keep)
        reader.update(data)
        reader.finish()
        return cls(found)


def content_limit(elements: Iterable[int]) -> int:
    """Return the maximum bytes that a step's logs can unpack to, given the elements of each node that may have one.

    Entries are at most 10 bytes per element (a wide one), and a dense log adds a fifth of a byte.
    """
    return sum(MAX_HEADER_BYTES + 2 * MAX_VARINT_BYTES + 11 * count for count in elements)


Sink = Callable[[int, NodeLog, Log], None]
"""Takes a node, its log, and the decoded log, as a `Reader` finds them."""


class Reader:
    """Reads the file as its bytes arrive. Both methods raise InvalidEncoding as early as possible.

    `max_bytes` bounds the unpacked size. SAFETY: the size that the frame states is checked before it is unpacked. One
    node's log is held at a time, with the decoded log, up to 40 times its bytes (dense, with every digit).
    """

    def __init__(self, node_count: int, max_bytes: int, sink: Sink) -> None:
        self._entries = _Entries(node_count, ELEMENTS_A_BYTE * max_bytes, sink)
        self._max_bytes = max_bytes
        self._head = b""
        self._stated: int | None = None
        self._unpacked = 0
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()

    def update(self, data: bytes) -> None:
        if self._stated is None:
            self._head += data
            if len(self._head) < _FRAME_HEADER_BYTES:
                return
            data = self._start()
        self._unpack(data)

    def finish(self) -> None:
        """Finish at the end of the file."""
        if self._stated is None:
            self._unpack(self._start())
        if not self._frame.eof or self._unpacked != self._stated:
            raise InvalidEncoding(f"a step log is truncated: {self._unpacked} of {self._stated} bytes")
        self._entries.finish()

    def _start(self) -> bytes:
        """Check the frame's header, and return the bytes received so far."""
        try:
            self._stated = zstandard.frame_content_size(self._head)
        except zstandard.ZstdError as error:
            raise InvalidEncoding(f"a step log is one zstd frame: {error}") from error
        if not 0 <= self._stated <= self._max_bytes:
            raise InvalidEncoding(
                f"a step log states {self._stated} bytes of content (-1: none stated), the limit is {self._max_bytes}"
            )
        return self._head

    def _unpack(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            if self._frame.eof:
                raise InvalidEncoding("bytes after the end of a step log")
            try:
                content = self._frame.decompress(data[at : at + _PIECE])
            except zstandard.ZstdError as error:
                raise InvalidEncoding(f"a step log is not one whole zstd frame: {error}") from error
            self._unpacked += len(content)
            if self._stated is None or self._unpacked > self._stated or self._frame.unused_data:
                raise InvalidEncoding(f"a step log states {self._stated} bytes of content and has more")
            self._entries.update(content)


class _Entries:
    """The content: entries, one after the other, in pieces of any size."""

    def __init__(self, node_count: int, max_elements: int, sink: Sink) -> None:
        self._node_count = node_count
        self._elements = max_elements  # that may still come
        self._sink = sink
        self._node = -1
        self._head = b""
        self._open: tuple[Form, int] | None = None
        self._parts: list[bytes] = []
        self._missing = 0  # bytes of the open entry still to come

    def update(self, content: bytes) -> None:
        data = self._head + content
        at = 0
        while at < len(data):
            if self._open is None:
                size = self._begin(data[at : at + MAX_HEADER_BYTES])
                if size is None:
                    break
                at += size
            piece = data[at : at + self._missing]
            self._parts.append(piece)
            at += len(piece)
            self._missing -= len(piece)
            if not self._missing:
                self._end()
        self._head = data[at:]

    def finish(self) -> None:
        if self._head or self._open:
            raise InvalidEncoding(f"a step log ends inside the log of a node after {self._node}")

    def _begin(self, head: bytes) -> int | None:
        """Open the next entry, and return the size of its header, or None if the header is incomplete."""
        distance, at = _read_varint(head, 0)
        form = head[at : at + 1]
        elements, at = _read_varint(head, at + 1)
        length, at = _read_varint(head, at)
        if distance is None or elements is None or length is None:
            return None
        node = self._node + 1 + distance
        if node >= self._node_count or elements >= MAX_LOG_ELEMENTS:
            raise InvalidEncoding(
                f"a log of node {node} with {elements} elements; the program has {self._node_count} nodes, "
                "a node fewer than 2^40 elements"
            )
        if elements > self._elements:
            raise InvalidEncoding(
                f"a log of {elements} elements, where {self._elements} are left; the limit of a step is "
                f"{ELEMENTS_A_BYTE} for each byte that its logs may unpack to"
            )
        if form[0] not in set(Form):
            raise InvalidEncoding(f"a log in form {form[0]}; there are {[int(known) for known in Form]}")
        self._node, self._open, self._missing = node, (Form(form[0]), elements), length
        self._elements -= elements
        return at

    def _end(self) -> None:
        assert self._open is not None
        log = NodeLog(*self._open, b"".join(self._parts))
        self._open, self._parts = None, []
        try:
            said = log.read()
        except InvalidEncoding as error:
            raise InvalidEncoding(f"the log of node {self._node} does not decode: {error}") from error
        self._sink(self._node, log, said)


def compress(content: bytes) -> bytes:
    """Return one zstd frame that states its content size and carries a checksum."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _read_varint(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the number at this place and its end, or None if the data end before it does."""
    number = 0
    for place in range(MAX_VARINT_BYTES):
        if at + place >= len(data):
            return None, at
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if place and not byte:
                raise InvalidEncoding("a varint is longer than needed; the form is not canonical")
            return number, at + place + 1
    raise InvalidEncoding(f"a varint of more than {MAX_VARINT_BYTES} bytes")
