"""Data requests and responses, as values (docs/protocol.md, section 8; contracts/interfaces/IDataAvailability.sol)."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class StepProof:
    """The root of a step's log tree, with its path in the run log tree."""

    root: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a tensor, with its dtype as a number."""

    dtype: int = 0
    dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """A response. ``function`` is the contract's function, which also takes the subject and the place."""

    function: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Digests(Response):
    """The digests of a page of nodes, and the page's path in the step's log tree."""

    function: ClassVar[str] = "provideDigests"

    digests: tuple[bytes, ...]
    path: tuple[bytes, ...]
    step: StepProof


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


@dataclass(frozen=True, slots=True)
class RecordShown(Response):
    """A record with its path in the step tree, and the checkpoint's in the run tree."""

    function: ClassVar[str] = "provideRecord"

    record: Record
    record_path: tuple[bytes, ...]
    checkpoint: bytes
    checkpoint_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TensorShown:
    """A tensor by its type and the root of its data, and one leaf of that. Parts that do not exist are empty."""

    shape: Shape = Shape()
    root: bytes = bytes(32)
    leaf: bytes = b""
    path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class LeafShown(Response):
    """A record with its paths, and a leaf of one of its tensors."""

    function: ClassVar[str] = "provideLeaf"

    record: RecordShown
    tensor: TensorShown = TensorShown()


RESPONSES = Digests, Blocks, RecordShown, LeafShown
