"""A match as values: its state, its match terms and the moves (docs/protocol.md, sections 4, 5 and 7).

```
                 descend                          descend to a leaf of more than one step
        ┌────────────────────────┐       ┌──────────────────────────────────────────────┐
        └──────────────────────> Walk ───┘ <──────────── both have refined ─────────── Refine
                                  │ descend to a node leaf
                                  v
                                 Open ── judgeStructure, judgeInput, judgeLog ──> Done
                                  └───── submit ──> Hearing ── the panel decides ───> Done
        timeout, from every phase in which a side owes a move ────────> Done
```
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ..commit import Record, Tag
from ..program.terms import Terms, leaf_count
from ..walk.clock import Turn
from ..walk.descent import Descent
from ..walk.dispute import ZERO
from ..walk.reason import Reason
from ..walk.sides import NOBODY

NO_RECORD = Record(ZERO, (), ())


class Phase(IntEnum):
    """The phase of a match: the kind of move that it waits for. NONE means that there is no match."""

    NONE = 0
    WALK = 1
    REFINE = 2
    OPEN = 3
    HEARING = 4
    """The panel (referee_py/panel) judges the operator and ends the match."""
    DONE = 5


TURNS = {Phase.WALK: Turn.CONCLUDE, Phase.OPEN: Turn.CONCLUDE, Phase.REFINE: Turn.POST}
"""The sides that owe a move in each phase; in the other phases nobody owes one."""


@dataclass(frozen=True, slots=True)
class MatchTerms:
    """The facts of a match that never change: the match terms (`calldata`), its id, and the job's log root."""

    program: Terms
    clock: int
    players: tuple[str, str]
    match_id: int
    logs: bytes = ZERO
    """Root of the run log tree that the job keeps; zero in a mode without logs."""
    roots: tuple[bytes, bytes] = (ZERO, ZERO)
    """The disputed run roots."""
    number: int = 0
    """Number of matches that the referee has opened, including this one."""


@dataclass(frozen=True, slots=True)
class MatchState:
    """State of a match (fields: docs/protocol.md, section 7). Pairs are indexed by side; sets of sides are bit masks.

    ``clock`` and ``tick`` are in seconds. NOTE: in Refine the root of a side that has refined is already the finer one.
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

    @property
    def turn(self) -> Turn:
        """The sides that owe a move."""
        return TURNS.get(self.phase, Turn.NOBODY)

    def in_step_tree(self, program: Terms) -> bool:
        """Return True if the current tree is a step tree, False if it is a run tree."""
        return self.level == len(program.strides)

    def tag(self, program: Terms) -> Tag:
        """Return the tag of the current tree."""
        return Tag.STEP_TREE if self.in_step_tree(program) else Tag.RUN_TREE

    def leaves(self, program: Terms) -> int:
        """Return the number of leaves of the current tree, without padding."""
        if self.in_step_tree(program):
            return program.node_count
        return leaf_count(self.start, self.end, program.strides[self.level])


# --- moves: one class for each function of the contract, with its arguments in its order ------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee. ``function`` is the contract's function, which also takes what `calldata` shows again."""

    function: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Reveal(Move):
    """Publish the descendants of ``node[side]``; anybody may send it."""

    function: ClassVar[str] = "reveal"
    side: int
    children: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Descend(Move):
    """Conclude at an inner node: descend to the first descendant that differs."""

    function: ClassVar[str] = "descend"
    way: Descent
    previous: bytes = ZERO
    previous_path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Refine(Move):
    """Post the root of the disputed interval's tree at the next stride; only that side's spokesman may."""

    function: ClassVar[str] = "refine"
    side: int
    root: bytes
    last_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OpenRecord(Move):
    """Publish the record that hashes to ``node[side]``; anybody may send it."""

    function: ClassVar[str] = "openRecord"
    side: int
    record: Record


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Both records of the open node, and the node's structure in the program with its path."""

    record0: Record
    record1: Record
    structure: bytes
    structure_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proof of the right value of input ``k``. The contract ignores fields that the operand's kind does not need.

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
    """Conclude case 2: an input differs, and the evidence proves the right one."""

    function: ClassVar[str] = "judgeInput"
    exhibit: Exhibit
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class LogProof:
    """The open node's log, proven in the log tree of its step, and that tree in the run log tree."""

    log: bytes
    step_root: bytes
    step_path: tuple[bytes, ...]
    node_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JudgeLog(Move):
    """Conclude case 3: the logs differ, and the proof shows the log that the job's trainer has committed to."""

    function: ClassVar[str] = "judgeLog"
    exhibit: Exhibit
    proof: LogProof


@dataclass(frozen=True, slots=True)
class Submit(Move):
    """Conclude case 4: only outputs differ, so the operator is submitted to the panel."""

    function: ClassVar[str] = "submit"
    exhibit: Exhibit


@dataclass(frozen=True, slots=True)
class Timeout(Move):
    """End a match in which a side is late."""

    function: ClassVar[str] = "timeout"


MOVES = Reveal, Descend, Refine, OpenRecord, JudgeStructure, JudgeInput, JudgeLog, Submit, Timeout
