"""A trial and its moves, as values (contracts/interfaces/ICourt.sol; docs/adjudication.md, sections 1 and 5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, get_args

from repops.opset import Dtype

from ..commit.tensor import describe
from ..element import NO_ENTRY, Entry
from ..errors import InvalidEncoding
from ..program import TensorType
from ..walk.clock import Turn
from ..walk.descent import Descent
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
class Inputs:
    """The inputs of the operator as moves show them: their types, packed, and the roots over their data."""

    types: bytes
    roots: tuple[bytes, ...]

    @classmethod
    def of(cls, inputs: Sequence[Tensor]) -> Inputs:
        types = b"".join(describe(tensor.type.dtype, tensor.type.shape) for tensor in inputs)
        return cls(types, tuple(tensor.root for tensor in inputs))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the inputs. Raises InvalidEncoding unless each root has one valid type."""
        found, at = list[Tensor](), 0
        try:
            for root in self.roots:
                dtype, rank = struct.unpack_from(">BB", self.types, at)
                shape = struct.unpack_from(f">{rank}Q", self.types, at + 2)
                found.append(Tensor(TensorType(Dtype(dtype), shape), root))
                at += 2 + 8 * rank
        except (struct.error, ValueError) as error:
            raise InvalidEncoding(
                f"the types end early or hold an unknown code: {error}; give one for each root"
            ) from error
        if at != len(self.types):
            raise InvalidEncoding(
                f"the types have {len(self.types)} bytes, of which the inputs need {at}; give one for each root"
            )
        return tuple(found)


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


# --- moves: one class for each function of the contract, with its arguments in its order ------------------------


@dataclass(frozen=True)
class ShowOutputs:
    """Show the data root of each side's output; `NOT_SHOWN` for a side whose root is not shown now."""

    function: ClassVar[str] = "showOutputs"
    roots: tuple[bytes, bytes]


@dataclass(frozen=True)
class NodesReveal:
    """Publish the descendants of a side's node in its data tree; anybody may send it."""

    function: ClassVar[str] = "reveal"
    side: int
    children: tuple[bytes, ...]


@dataclass(frozen=True)
class NodesDescend:
    """Conclude at an inner node of the data trees: descend to the first descendant that differs."""

    function: ClassVar[str] = "descend"
    way: Descent


@dataclass(frozen=True)
class ShowLeaf:
    """Publish a side's disputed leaf, at most 1,024 bytes; anybody may send it."""

    function: ClassVar[str] = "showLeaf"
    side: int
    leaf: bytes


@dataclass(frozen=True)
class Compare:
    """Conclude at the leaf: find the first element that differs, and begin the search of its chain."""

    function: ClassVar[str] = "compare"
    leaf0: bytes
    leaf1: bytes
    inputs: Inputs
    log: LogBlock = NO_BLOCK


@dataclass(frozen=True)
class Post:
    """Post side 0's states at the places of this round before hi, joined; only side 0 may."""

    function: ClassVar[str] = "post"
    states: bytes


@dataclass(frozen=True)
class Answer:
    """Name the first place whose posted state differs, with side 1's own state there (empty at hi); only side 1 may."""

    function: ClassVar[str] = "answer"
    states: bytes
    place: int
    own: bytes


@dataclass(frozen=True)
class JudgeStep:
    """Conclude at one step: compute it from the agreed state and the opened operands; anybody may send it."""

    function: ClassVar[str] = "judge"
    inputs: Inputs
    agreed: bytes
    openings: tuple[Opening, ...]


@dataclass(frozen=True)
class Timeout:
    """End a trial in which a side is late."""

    function: ClassVar[str] = "timeout"


Move = ShowOutputs | NodesReveal | NodesDescend | ShowLeaf | Compare | Post | Answer | JudgeStep | Timeout
MOVES: tuple[type[Move], ...] = get_args(Move)
