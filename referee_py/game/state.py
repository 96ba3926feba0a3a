"""What a match is: its state, what stays fixed, and the moves (docs/protocol.md, sections 4, 5 and 7).

```
                 descend                          descend to a leaf of more than one step
        ┌────────────────────────┐       ┌──────────────────────────────────────────────┐
        └──────────────────────> Walk ───┘ <──────────── both have refined ─────────── Refine
                                  │ descend to a node leaf
                                  v
                                 Open ── judgeStructure, judgeInput ──> Done
                                  └───── callVerifiers ──> Verdict ── threshold, expire ──> Done
        timeout, from every phase in which a side owes a move ────────> Done
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import pairwise
from typing import ClassVar

from ..commit import HASH_BYTES, Tag, depth_of, digest
from ..errors import InvalidProgram

ZERO = bytes(HASH_BYTES)
MAX_STRIDES = 8
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
    VERDICT = 4
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
    OPERATOR = 8
    UNRESOLVED = 9


@dataclass(frozen=True, slots=True)
class ProgramHeader:
    """The on-chain fields of a program (section 4)."""

    opset_version: int
    mode: int
    node_count: int
    slot_count: int
    constant_count: int
    steps: int
    structure_root: bytes
    slot_root: bytes
    constant_root: bytes
    initial_root: bytes
    strides: tuple[int, ...]

    def check(self) -> None:
        """Raises InvalidProgram for what the contract refuses."""
        if self.mode != 1:
            raise InvalidProgram(
                f"mode {self.mode} has no adjudication rule; the only mode is 1 (repops-f32)"
            )
        limits = (
            ("nodeCount", self.node_count, 1, 1 << 24),
            ("slotCount", self.slot_count, 0, 1 << 20),
            ("constantCount", self.constant_count, 0, 1 << 20),
            ("steps", self.steps, 1, 1 << 64),
        )
        for name, value, low, high in limits:
            if not low <= value < high:
                raise InvalidProgram(f"{name} is {value}; it must be at least {low} and below {high}")
        self._check_strides()

    def _check_strides(self) -> None:
        strides = self.strides
        if not 1 <= len(strides) <= MAX_STRIDES:
            raise InvalidProgram(f"{len(strides)} strides; there must be 1 to {MAX_STRIDES}")
        if strides[-1] != 1:
            raise InvalidProgram(f"the last stride is {strides[-1]}; it must be 1")
        for coarse, fine in pairwise(strides):
            if not 0 < fine < coarse or coarse % fine:
                raise InvalidProgram(f"stride {fine} follows {coarse}; each must be a smaller divisor of it")

    def hash(self) -> bytes:
        """The PROGRAM hash."""
        numbers = (
            self.opset_version.to_bytes(4, "big"),
            self.mode.to_bytes(1, "big"),
            self.node_count.to_bytes(4, "big"),
            self.slot_count.to_bytes(4, "big"),
            self.constant_count.to_bytes(4, "big"),
            self.steps.to_bytes(8, "big"),
        )
        roots = (self.structure_root, self.slot_root, self.constant_root, self.initial_root)
        strides = (len(self.strides).to_bytes(1, "big"), *(s.to_bytes(8, "big") for s in self.strides))
        return digest(Tag.PROGRAM, *numbers, *roots, *strides)


def leaf_count(start: int, end: int, stride: int) -> int:
    """``ceil((end - start) / stride)``: leaves of the run tree of ``(start, end]`` (section 5)."""
    return -(-(end - start) // stride)


def leaf_end(start: int, end: int, stride: int, leaf: int) -> int:
    """The step whose checkpoint is that leaf (section 5)."""
    return min(start + (leaf + 1) * stride, end)


@dataclass(frozen=True, slots=True)
class Terms:
    """What does not change during a match: the job's terms and where the match lives."""

    program: ProgramHeader
    clock: int
    verdict_period: int
    verifiers: tuple[str, ...]
    threshold: int
    players: tuple[str, str]
    match_id: int = 1
    chain_id: int = 31337
    referee: str = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class MatchState:
    """The state of a match (section 7). Pairs are indexed by side; sets of sides are bit masks."""

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
    refined: tuple[bytes, bytes] = (ZERO, ZERO)
    verdict_end: int = 0
    votes: tuple[tuple[str, bytes], ...] = ()
    losers: int = NOBODY
    reason: Reason = Reason.NONE

    @classmethod
    def opened(cls, terms: Terms, roots: tuple[bytes, bytes], now: int) -> MatchState:
        """A match as it begins: at the root of the coarsest run tree."""
        program = terms.program
        return cls(
            phase=Phase.WALK,
            posted=NOBODY,
            level=0,
            height=depth_of(leaf_count(0, program.steps, program.strides[0])),
            index=0,
            start=0,
            end=program.steps,
            root=roots,
            node=roots,
            agreed=program.initial_root,
            clock=(terms.clock, terms.clock),
            tick=now,
        )

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


# --- moves: one class for each function of the contract, with its arguments in its order -----------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee. ``function`` is the contract's name for it; the first argument is the match."""

    function: ClassVar[str] = ""

    def arguments(self, match_id: int) -> list[object]:
        """The arguments in the contract's order, for ABI encoding."""
        return [match_id, *(_wire(getattr(self, f.name)) for f in fields(self))]


def _wire(value: object) -> object:
    if isinstance(value, Evidence):
        return tuple(_wire(getattr(value, f.name)) for f in fields(value))
    return list(value) if isinstance(value, tuple) else value


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

    function: ClassVar[str] = "open"
    side: int
    record: bytes


@dataclass(frozen=True, slots=True)
class JudgeStructure(Move):
    """Conclude case 1: a record is not well formed."""

    function: ClassVar[str] = "judgeStructure"
    record0: bytes
    record1: bytes
    structure: bytes
    structure_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where the right value of an input is proven; what a case does not need is empty.

    ``value`` with its path: a constant, or a slot before the first step. ``source`` (a record) with its path: an
    earlier node, or with the entry of the slot table a slot after the first step.
    """

    value: bytes = ZERO
    value_path: tuple[bytes, ...] = ()
    source: bytes = b""
    source_path: tuple[bytes, ...] = ()
    slot_node: int = 0
    slot_output: int = 0
    slot_path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeInput(Move):
    """Conclude case 2: input ``k`` differs, and the evidence says what it should be."""

    function: ClassVar[str] = "judgeInput"
    k: int
    record0: bytes
    record1: bytes
    structure: bytes
    structure_path: tuple[bytes, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class CallVerifiers(Move):
    """Conclude case 3: only outputs differ, so verifiers execute the operator."""

    function: ClassVar[str] = "callVerifiers"
    record0: bytes
    record1: bytes
    structure: bytes
    structure_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Attest(Move):
    """One verifier's signed verdict: the hash of the right record."""

    function: ClassVar[str] = "attest"
    record: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Timeout(Move):
    """End a match in which a side is late."""

    function: ClassVar[str] = "timeout"


@dataclass(frozen=True, slots=True)
class Expire(Move):
    """End a match whose verifiers did not reach the threshold in time."""

    function: ClassVar[str] = "expire"


def sides(mask: int) -> Sequence[int]:
    """The sides in a bit mask, in order."""
    return [side for side in (0, 1) if mask >> side & 1]
