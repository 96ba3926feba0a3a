"""A trial and its moves, as values (contracts/interfaces/ICourt.sol)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..commit import Record
from ..element import NO_ENTRY, Entry
from ..program import TensorType


class Stage(IntEnum):
    NONE = 0
    OUTPUTS = 1
    WALK = 2
    LEAF = 3
    POST = 4
    ANSWER = 5
    STEP = 6
    DONE = 7


NOBODY, BOTH = 0, 3
ZERO = bytes(32)


@dataclass(frozen=True)
class Dispute:
    """Both sides' records of an operator whose inputs and logs they agree on, what it is, and the mode."""

    records: tuple[Record, Record]
    structure: bytes
    """Its encoding."""
    mode: int


@dataclass(frozen=True)
class TrialState:
    """`agreed`, `states` and `offer` are the states themselves, empty where they are not said yet."""

    players: tuple[str, str]
    stage: Stage
    tick: int
    clock: tuple[int, int]
    output: int
    posted: int = 0
    height: int = 0
    index: int = 0
    nodes: tuple[bytes, bytes] = (ZERO, ZERO)
    """Each side's, until the element is known."""
    element: int = 0
    values: tuple[int, int] = (0, 0)
    entry: Entry = NO_ENTRY
    lo: int = 0
    hi: int = 0
    steps: int = 0
    state_bytes: int = 0
    agreed: bytes = b""
    states: tuple[bytes, bytes] = (b"", b"")
    offer: bytes = b""
    losers: int = NOBODY


@dataclass(frozen=True)
class Tensor:
    """An input: its type, and the root over its data."""

    type: TensorType
    root: bytes


@dataclass(frozen=True)
class Opening:
    """An operand element, by the leaf that it is in."""

    input: int
    element: int
    leaf: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class LogBlock:
    """What a rounding log says of a block of elements: the number of all, the block's entries, and its path."""

    elements: int
    entries: bytes
    path: tuple[bytes, ...]


NO_BLOCK = LogBlock(0, b"", ())
"""Where there is no log to show."""


NOT_SHOWN = bytes(32)


@dataclass(frozen=True)
class ShowOutputs:
    """The data root of each side's output; of a side that does not show it, or has shown it, `NOT_SHOWN`."""

    roots: tuple[bytes, bytes]


@dataclass(frozen=True)
class NodesReveal:
    side: int
    children: tuple[bytes, ...]


@dataclass(frozen=True)
class NodesDescend:
    child: int
    node0: bytes
    path0: tuple[bytes, ...]
    node1: bytes
    path1: tuple[bytes, ...]


@dataclass(frozen=True)
class ShowLeaf:
    side: int
    leaf: bytes


@dataclass(frozen=True)
class Compare:
    leaf0: bytes
    leaf1: bytes
    inputs: tuple[Tensor, ...]
    log: LogBlock = NO_BLOCK


@dataclass(frozen=True)
class Post:
    states: bytes


@dataclass(frozen=True)
class Answer:
    states: bytes
    place: int
    own: bytes


@dataclass(frozen=True)
class JudgeStep:
    inputs: tuple[Tensor, ...]
    agreed: bytes
    openings: tuple[Opening, ...]


@dataclass(frozen=True)
class Timeout: ...


Move = ShowOutputs | NodesReveal | NodesDescend | ShowLeaf | Compare | Post | Answer | JudgeStep | Timeout
