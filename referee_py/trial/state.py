"""A trial and its moves, as values (contracts/interfaces/ICourt.sol; docs/adjudication.md, sections 1 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..element import NO_ENTRY, Entry
from ..program import TensorType
from ..walk.clock import Turn
from ..walk.dispute import ZERO
from ..walk.sides import NOBODY


class Stage(IntEnum):
    """The stage of a trial: the kind of move that it waits for. NONE means that there is no trial."""

    NONE = 0
    OUTPUTS = 1
    WALK = 2
    LEAF = 3
    POST = 4
    ANSWER = 5
    STEP = 6
    DONE = 7


TURNS = {
    Stage.OUTPUTS: Turn.CONCLUDE,
    Stage.WALK: Turn.CONCLUDE,
    Stage.LEAF: Turn.CONCLUDE,
    Stage.POST: Turn.SIDE0,
    Stage.ANSWER: Turn.SIDE1,
    Stage.STEP: Turn.BOTH,
}
"""The sides that owe a move in each stage; in the other stages nobody owes one."""


@dataclass(frozen=True)
class TrialState:
    """State of a trial. `agreed`, `states` and `offer` are the states themselves, not hashes; empty until posted."""

    players: tuple[str, str]
    stage: Stage
    tick: int
    clock: tuple[int, int]
    output: int
    posted: int = 0
    height: int = 0
    index: int = 0
    nodes: tuple[bytes, bytes] = (ZERO, ZERO)
    """Each side's node at the position, until the element is known."""
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

    @property
    def turn(self) -> Turn:
        """The sides that owe a move."""
        return TURNS.get(self.stage, Turn.NOBODY)


@dataclass(frozen=True)
class Tensor:
    """An input of the operator: its type, and the root over its data."""

    type: TensorType
    root: bytes


@dataclass(frozen=True)
class Opening:
    """An operand element, shown by its leaf of the input's data and the leaf's path."""

    input: int
    element: int
    leaf: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class LogBlock:
    """A block of a rounding log: the number of the log's elements, the block's entries, and the block's path."""

    elements: int
    entries: bytes
    path: tuple[bytes, ...]


NO_BLOCK = LogBlock(0, b"", ())
"""Argument of `Compare` if there is no log to show."""


NOT_SHOWN = bytes(32)


@dataclass(frozen=True)
class ShowOutputs:
    """Show the data root of each side's output; `NOT_SHOWN` for a side whose root is not shown now."""

    roots: tuple[bytes, bytes]


@dataclass(frozen=True)
class NodesReveal:
    """Publish the descendants of a side's node in its data tree; anybody may send it."""

    side: int
    children: tuple[bytes, ...]


@dataclass(frozen=True)
class NodesDescend:
    """Conclude at an inner node of the data trees: descend to the first descendant that differs."""

    child: int
    node0: bytes
    path0: tuple[bytes, ...]
    node1: bytes
    path1: tuple[bytes, ...]


@dataclass(frozen=True)
class ShowLeaf:
    """Publish a side's disputed leaf, at most 1,024 bytes; anybody may send it."""

    side: int
    leaf: bytes


@dataclass(frozen=True)
class Compare:
    """Conclude at the leaf: find the first element that differs, and begin the search of its chain."""

    leaf0: bytes
    leaf1: bytes
    inputs: tuple[Tensor, ...]
    log: LogBlock = NO_BLOCK


@dataclass(frozen=True)
class Post:
    """Post side 0's states at the places of this round before hi, joined; only side 0 may."""

    states: bytes


@dataclass(frozen=True)
class Answer:
    """Name the first place whose posted state differs, with side 1's own state there (empty at hi); only side 1 may."""

    states: bytes
    place: int
    own: bytes


@dataclass(frozen=True)
class JudgeStep:
    """Conclude at one step: compute it from the agreed state and the opened operands; anybody may send it."""

    inputs: tuple[Tensor, ...]
    agreed: bytes
    openings: tuple[Opening, ...]


@dataclass(frozen=True)
class Timeout: ...


Move = ShowOutputs | NodesReveal | NodesDescend | ShowLeaf | Compare | Post | Answer | JudgeStep | Timeout
