"""What is requested, and what answers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ..commit import Record

DIGEST_LEVELS, BLOCK_LEVELS = 8, 3
"""Levels of a log tree that are shown at once."""
OUTPUTS = 256
"""The number of the first output, where tensors of a record are numbered."""


class Piece(IntEnum):
    """What can be requested."""

    DIGESTS = 0
    BLOCKS = 1
    RECORD = 2
    LEAF = 3

    @property
    def of_logs(self) -> bool:
        """Whether the root is that of the job's logs; else it is a claimed one."""
        return self in (Piece.DIGESTS, Piece.BLOCKS)


class RequestState(IntEnum):
    """Where a request stands."""

    NONE = 0
    OPEN = 1
    ANSWERED = 2


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where under a root a piece is, by numbers.

    ``tree`` is a step, from 1, or a checkpoint, from 0; ``node`` a node, or a page of 256 of them; ``tensor`` an input
    `k` or an output `256 + k`; ``part`` a page of 8 blocks, or a leaf.
    """

    piece: Piece
    tree: int
    node: int
    tensor: int = 0
    part: int = 0

    def wire(self) -> tuple[int, int, int, int, int]:
        """As the contract takes it."""
        return int(self.piece), self.tree, self.node, self.tensor, self.part


@dataclass(frozen=True, slots=True)
class StepProof:
    """The log tree of a step, under the root of the run's logs."""

    root: bytes
    path: tuple[bytes, ...]

    def wire(self) -> tuple[object, ...]:
        return self.root, list(self.path)


@dataclass(frozen=True, slots=True)
class Response(ABC):
    """``function`` is the contract's name for it."""

    function: ClassVar[str]

    @abstractmethod
    def arguments(self) -> list[object]:
        """Those of the contract's function after subject and place."""


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
    """A log's digest with what it is of, and the blocks of a page; nothing of what there is not."""

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
    """A record as above, and the leaf of a tensor that it names; nothing of what there is not."""

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
