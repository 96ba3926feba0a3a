"""Data requests and responses, as values (docs/protocol.md, section 8; contracts/interfaces/IDataAvailability.sol)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ..commit import Record

DIGEST_LEVELS, BLOCK_LEVELS = 8, 3
"""Levels of a log tree (256 digests) and of a log block tree (8 blocks) that one response shows."""
OUTPUTS = 256
"""Number of a record's first output in `Place.tensor`; inputs are numbered from 0."""


class Piece(IntEnum):
    """The kinds of data that can be requested."""

    DIGESTS = 0
    BLOCKS = 1
    RECORD = 2
    LEAF = 3

    @property
    def of_logs(self) -> bool:
        """True if the piece is under the job's log root, False if it is under a claimed root."""
        return self in (Piece.DIGESTS, Piece.BLOCKS)


class RequestState(IntEnum):
    """The state of a request."""

    NONE = 0
    OPEN = 1
    ANSWERED = 2


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of a piece under a root, by numbers.

    ``tree`` is a step, from 1, or a checkpoint, from 0; ``node`` is a node, or a page of 256 nodes; ``tensor`` is an
    input `k` or an output `256 + k`; ``part`` is a page of 8 blocks, or a leaf.
    """

    piece: Piece
    tree: int
    node: int
    tensor: int = 0
    part: int = 0

    def wire(self) -> tuple[int, int, int, int, int]:
        """Return the place as the ABI coder takes it."""
        return int(self.piece), self.tree, self.node, self.tensor, self.part


@dataclass(frozen=True, slots=True)
class StepProof:
    """The root of a step's log tree, with its path in the run log tree."""

    root: bytes
    path: tuple[bytes, ...]

    def wire(self) -> tuple[object, ...]:
        return self.root, list(self.path)


@dataclass(frozen=True, slots=True)
class Response(ABC):
    """A response. ``function`` is the contract's function."""

    function: ClassVar[str]

    @abstractmethod
    def arguments(self) -> list[object]:
        """Return the arguments of the contract's function after subject and place."""


@dataclass(frozen=True, slots=True)
class Digests(Response):
    """The digests of a page of nodes, and the page's path in the step's log tree."""

    function: ClassVar[str] = "provideDigests"

    digests: tuple[bytes, ...]
    path: tuple[bytes, ...]
    step: StepProof

    def arguments(self) -> list[object]:
        return [list(self.digests), list(self.path), self.step.wire()]


@dataclass(frozen=True, slots=True)
class Blocks(Response):
    """A log's digest with its preimage, and the blocks of a page. Parts that do not exist are empty."""

    function: ClassVar[str] = "provideBlocks"

    log: bytes
    log_path: tuple[bytes, ...]
    step: StepProof
    elements: int = 0
    root: bytes = bytes(32)
    blocks: tuple[bytes, ...] = ()
    path: tuple[bytes, ...] = ()

    def arguments(self) -> list[object]:
        log = self.log, list(self.log_path), self.step.wire()
        return [(*log, self.elements, self.root, list(self.blocks), list(self.path))]


@dataclass(frozen=True, slots=True)
class RecordShown(Response):
    """A record with its path in the step tree, and the checkpoint's in the run tree."""

    function: ClassVar[str] = "provideRecord"

    record: Record
    record_path: tuple[bytes, ...]
    checkpoint: bytes
    checkpoint_path: tuple[bytes, ...]

    def arguments(self) -> list[object]:
        record = self.record
        wire = record.structure, list(record.inputs), list(record.outputs), record.log
        return [(wire, list(self.record_path), self.checkpoint, list(self.checkpoint_path))]


@dataclass(frozen=True, slots=True)
class LeafShown(Response):
    """A record with its paths, and a leaf of one of its tensors. Parts that do not exist are empty."""

    function: ClassVar[str] = "provideLeaf"

    record: RecordShown
    dtype: int = 0
    shape: tuple[int, ...] = ()
    root: bytes = bytes(32)
    leaf: bytes = b""
    path: tuple[bytes, ...] = ()

    def arguments(self) -> list[object]:
        tensor = (self.dtype, list(self.shape)), self.root, self.leaf, list(self.path)
        return [*self.record.arguments(), tensor]
