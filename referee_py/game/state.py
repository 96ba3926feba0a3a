"""What a match is: its state, what stays fixed, and the moves (docs/protocol.md, sections 4, 5 and 7).

```
                 descend                          descend to a leaf of more than one step
        ┌────────────────────────┐       ┌──────────────────────────────────────────────┐
        └──────────────────────> Walk ───┘ <──────────── both have refined ─────────── Refine
                                  │ descend to a node leaf
                                  v
                                 Open ── judgeStructure, judgeInput, judgeLog ──> Done
                                  └───── submit ──> Hearing ── the panel says how ──> Done
        timeout, from every phase in which a side owes a move ────────> Done
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar

from ..commit import HASH_BYTES, Record, Tag
from ..program.terms import Terms

ProgramHeader = Terms
"""The on-chain fields of a program, as the client posts them."""

ZERO = bytes(HASH_BYTES)
NO_RECORD = Record(ZERO, (), ())
MAX_GENERATIONS = 4
"""How many levels one publish-or-conclude round goes down when the other side withholds its tree."""

BOTH = 0b11
NOBODY = 0b00


class Phase(IntEnum):
    """What the match waits for. The zero phase is no match at all."""

    NONE = 0
    WALK = 1
    REFINE = 2
    OPEN = 3
    HEARING = 4
    """The operator is before the panel (referee_py/panel), which says how the match ends."""
    DONE = 5


class Reason(IntEnum):
    """What ended the match."""

    NONE = 0
    TIMEOUT = 1
    PADDING = 2
    STRUCTURE = 3
    INPUT_CHECKPOINT = 4
    INPUT_NODE = 5
    INPUT_CONSTANT = 6
    INPUT_STEP = 7
    LOG = 8
    OPERATOR = 9


def leaf_count(start: int, end: int, stride: int) -> int:
    """``ceil((end - start) / stride)``: leaves of the run tree of ``(start, end]`` (section 5)."""
    return -(-(end - start) // stride)


def leaf_end(start: int, end: int, stride: int, leaf: int) -> int:
    """The step whose checkpoint is that leaf (section 5)."""
    return min(start + (leaf + 1) * stride, end)


@dataclass(frozen=True, slots=True)
class MatchTerms:
    """What does not change during a match: its match_terms (`calldata`), its id, and what the job says of logs."""

    program: ProgramHeader
    clock: int
    players: tuple[str, str]
    match_id: int
    logs: bytes = ZERO
    """The root of the run's rounding logs, as the job has it; zero in a mode without them."""
    roots: tuple[bytes, bytes] = (ZERO, ZERO)
    """The run roots that it is about."""
    number: int = 0
    """How many matches the referee had opened with it."""


@dataclass(frozen=True, slots=True)
class MatchState:
    """The state of a match (section 7). Pairs are indexed by side; sets of sides are bit masks.

    NOTE: in Refine the root of a side that has refined is already the finer one.
    """

    phase: Phase
    posted: int
    level: int
    height: int
    index: int
    start: int
    end: int
    root: tuple[bytes, bytes]
    node: tuple[bytes, bytes]
    agreed: bytes
    clock: tuple[int, int]
    tick: int
    losers: int = NOBODY
    reason: Reason = Reason.NONE

    def in_step_tree(self, program: ProgramHeader) -> bool:
        """Whether the current tree is a step tree, else it is a run tree."""
        return self.level == len(program.strides)

    def tag(self, program: ProgramHeader) -> Tag:
        """The kind of the current tree."""
        return Tag.STEP_TREE if self.in_step_tree(program) else Tag.RUN_TREE

    def leaves(self, program: ProgramHeader) -> int:
        """How many real leaves the current tree has."""
        if self.in_step_tree(program):
            return program.node_count
        return leaf_count(self.start, self.end, program.strides[self.level])

    def won_by(self, side: int) -> bool:
        """Whether the match ended and that side did not lose."""
        return self.phase is Phase.DONE and self.losers == 1 << (1 - side)


# --- moves: one class for each function of the contract, with its arguments in its order ------------------------


@dataclass(frozen=True, slots=True)
class Wire:
    """Something that goes into calldata: its fields in order, as the ABI coder takes them."""

    def wire(self) -> list[object]:
        return [_wire(getattr(self, f.name)) for f in fields(self)]


def _wire(value: object) -> object:
    match value:
        case Wire():
            return tuple(value.wire())
        case Record():
            return value.structure, list(value.inputs), list(value.outputs), value.log
        case tuple():
            return list(value)
    return value


@dataclass(frozen=True, slots=True)
class Move(Wire):
    """A call of the referee. ``function`` is the contract's name for it; `calldata` says what else the call needs."""

    function: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Reveal(Move):
    """Publish the descendants of ``node[side]``; anyone may."""

    function: ClassVar[str] = "reveal"
    side: int
    children: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Descend(Move):
    """Conclude at an inner node: go to the first descendant that differs."""

    function: ClassVar[str] = "descend"
    child: int
    node0: bytes
    path0: tuple[bytes, ...]
    node1: bytes
    path1: tuple[bytes, ...]
    previous: bytes = ZERO
    previous_path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Refine(Move):
    """Post the root of the disputed interval's tree at the next stride; that side's spokesman only."""

    function: ClassVar[str] = "refine"
    side: int
    root: bytes
    last_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OpenRecord(Move):
    """Publish the record that is ``node[side]``; anyone may."""

    function: ClassVar[str] = "openRecord"
    side: int
    record: Record


@dataclass(frozen=True, slots=True)
class Exhibit(Wire):
    """Both records of the open node, and what the program says the node is."""

    record0: Record
    record1: Record
    structure: bytes
    structure_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Evidence(Wire):
    """Where input ``k`` truly comes from; what its kind does not need is ignored.

    operand           tensor              source, source_path            slot_node, slot_output, slot_path
    slot, first step  the initial tensor  path under the initial root
    slot, later                           record under ``agreed``        row of the slot table
    node                                  record under either root
    constant          the constant        path under the constant root
    step number
    """

    k: int
    source: Record = NO_RECORD
    source_path: tuple[bytes, ...] = ()
    slot_node: int = 0
    slot_output: int = 0
    slot_path: tuple[bytes, ...] = ()
    tensor: bytes = ZERO


@dataclass(frozen=True, slots=True)
class JudgeStructure(Move):
    """Conclude case 1: a record is not well formed."""

    function: ClassVar[str] = "judgeStructure"
    exhibit: Exhibit


@dataclass(frozen=True, slots=True)
class JudgeInput(Move):
    """Conclude case 2: an input differs, and the evidence says what it should be."""

    function: ClassVar[str] = "judgeInput"
    exhibit: Exhibit
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class LogProof(Wire):
    """The true log of the open node: in the tree of its step, which is in the tree of the run's logs."""

    log: bytes
    step_root: bytes
    step_path: tuple[bytes, ...]
    node_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JudgeLog(Move):
    """Conclude case 3: the logs differ, and the proof says what the job's trainer has committed to."""

    function: ClassVar[str] = "judgeLog"
    exhibit: Exhibit
    proof: LogProof


@dataclass(frozen=True, slots=True)
class Submit(Move):
    """Conclude case 4: only outputs differ, so the operator goes before the panel."""

    function: ClassVar[str] = "submit"
    exhibit: Exhibit


@dataclass(frozen=True, slots=True)
class Timeout(Move):
    """End a match in which a side is late."""

    function: ClassVar[str] = "timeout"


def sides(mask: int) -> Sequence[int]:
    """The sides in a bit mask, in order."""
    return [side for side in (0, 1) if mask >> side & 1]
