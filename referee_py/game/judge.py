"""What an open node decides (docs/protocol.md, section 7, "Decision"): which sides are wrong, and why.

Each side is judged against the truth, not against the other: both can be wrong. The structure encoding is read
as the contract reads it: only what it needs, every read checked against the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repops.opset import Dtype

from ..commit import NO_LOG, Record, Tag, data_tree, depth_of, describe, digest, fold_path
from ..errors import InvalidEncoding, InvalidProof
from . import refusals
from .refusals import require
from .state import (
    ZERO,
    CallVerifiers,
    Evidence,
    JudgeInput,
    JudgeStructure,
    MatchState,
    ProgramHeader,
    Reason,
)

_HEAD = 4
_OPERAND = 6

Open = JudgeStructure | JudgeInput | CallVerifiers


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an input comes from (section 3)."""

    kind: int
    index: int
    output: int


@dataclass(frozen=True, slots=True)
class Position:
    """An open node with both records and the program's structure of it, all proven."""

    records: tuple[Record, Record]
    structure: bytes

    @property
    def counts(self) -> tuple[int, int]:
        return self.structure[2], self.structure[3]

    def operand(self, k: int) -> Operand:
        at = _HEAD + k * _OPERAND
        data = self.structure[at : at + _OPERAND]
        return Operand(data[0], int.from_bytes(data[1:5], "big"), data[5])

    def ill_formed(self) -> int:
        """The sides whose record is not well formed, as a bit mask."""
        expected = digest(Tag.STRUCTURE, self.structure)
        return sum(
            1 << side
            for side, record in enumerate(self.records)
            if record.structure != expected
            or (len(record.inputs), len(record.outputs)) != self.counts
            or record.log != NO_LOG
        )


def opened(encoded: bytes, expected: bytes) -> Record:
    """The record that hashes to ``expected``."""
    require(digest(Tag.RECORD, encoded) == expected, refusals.WrongHash)
    try:
        return Record.decode(encoded)
    except InvalidEncoding as error:
        raise refusals.WrongLength(str(error)) from error


def position(state: MatchState, program: ProgramHeader, move: Open) -> Position:
    """Both records and the structure of the open node, checked against what is committed."""
    records = (opened(move.record0, state.node[0]), opened(move.record1, state.node[1]))
    leaf = digest(Tag.STRUCTURE, move.structure)
    depth = depth_of(program.node_count)
    proven(Tag.STRUCTURE_TREE, leaf, state.index, move.structure_path, program.structure_root, depth)
    nin = move.structure[2] if len(move.structure) >= _HEAD else 0
    require(len(move.structure) >= _HEAD + nin * _OPERAND, refusals.WrongLength)
    return Position(records, move.structure)


def proven(tag: Tag, leaf: bytes, index: int, path: Sequence[bytes], root: bytes, depth: int) -> None:
    """SAFETY: the length of the path is the depth of the tree, so the leaf is a leaf."""
    require(len(path) == depth, refusals.WrongProof, f"a path of {len(path)} siblings; the depth is {depth}")
    try:
        folded = fold_path(tag, leaf, index, path)
    except InvalidProof as error:
        raise refusals.WrongProof(str(error)) from error
    require(folded == root, refusals.WrongProof)


# --- the three cases --------------------------------------------------------------------------------------------


def structure(state: MatchState, program: ProgramHeader, move: JudgeStructure) -> int:
    """Case 1: the sides whose record is not well formed."""
    losers = position(state, program, move).ill_formed()
    require(bool(losers), refusals.NothingToJudge)
    return losers


def input(state: MatchState, program: ProgramHeader, move: JudgeInput) -> tuple[int, Reason]:  # noqa: A001
    """Case 2: the sides whose input ``k`` is not what its source says, and which kind of source it was."""
    at = position(state, program, move)
    require(not at.ill_formed(), refusals.Malformed)
    require(move.k < at.counts[0], refusals.NothingToJudge)
    claimed = (at.records[0].inputs[move.k], at.records[1].inputs[move.k])
    require(claimed[0] != claimed[1], refusals.NothingToJudge)
    truth, reason = _truth(state, program, move.evidence, at.operand(move.k))
    return sum(1 << side for side in (0, 1) if claimed[side] != truth), reason


def operator(state: MatchState, program: ProgramHeader, move: CallVerifiers) -> None:
    """Case 3: nothing but outputs differ, so the operator must be executed."""
    at = position(state, program, move)
    require(not at.ill_formed(), refusals.Malformed)
    require(at.records[0].inputs == at.records[1].inputs, refusals.NothingToJudge)


# --- the truth about an input ---------------------------------------------------------------------------------


def _truth(
    state: MatchState, program: ProgramHeader, evidence: Evidence, operand: Operand
) -> tuple[bytes, Reason]:
    """What an input from that source is, and which case that is."""
    match operand.kind:
        case 0:
            # The source is to the left of the position, so both sides agree on its record.
            require(operand.index < state.index, refusals.WrongProof)
            return _output(state.root[0], program, evidence, operand.index, operand.output), Reason.INPUT_NODE
        case 1:
            return _slot(state, program, evidence, operand.index), Reason.INPUT_CHECKPOINT
        case 2:
            root, count = program.constant_root, program.constant_count
            proven(
                Tag.CONSTANT_TREE, evidence.value, operand.index, evidence.value_path, root, depth_of(count)
            )
            return evidence.value, Reason.INPUT_CONSTANT
        case 3:
            return step_hash(state.end), Reason.INPUT_STEP
    raise refusals.WrongLength(f"operand kind {operand.kind}")


def _slot(state: MatchState, program: ProgramHeader, evidence: Evidence, slot: int) -> bytes:
    """The initial state, or the output that updated the slot in the step before."""
    depth = depth_of(program.slot_count)
    if state.start == 0:
        proven(Tag.INITIAL_TREE, evidence.value, slot, evidence.value_path, program.initial_root, depth)
        return evidence.value
    node, output = evidence.slot_node, evidence.slot_output
    leaf = slot_hash(node, output)
    proven(Tag.SLOT_TREE, leaf, slot, evidence.slot_path, program.slot_root, depth)
    return _output(state.agreed, program, evidence, node, output)


def _output(root: bytes, program: ProgramHeader, evidence: Evidence, node: int, output: int) -> bytes:
    """Output ``output`` of the source record, proven to be node ``node`` under ``root``; zero if it has none."""
    leaf = digest(Tag.RECORD, evidence.source)
    proven(Tag.STEP_TREE, leaf, node, evidence.source_path, root, depth_of(program.node_count))
    record = opened(evidence.source, leaf)
    return record.outputs[output] if output < len(record.outputs) else ZERO


def slot_hash(node: int, output: int) -> bytes:
    """The SLOT hash: which output of which node a slot is after the step."""
    return digest(Tag.SLOT, node.to_bytes(4, "big"), output.to_bytes(1, "big"))


def step_hash(step: int) -> bytes:
    """The TENSOR hash of a step number: an i64 of rank 0."""
    return digest(Tag.TENSOR, describe(Dtype.I64, ()), data_tree(step.to_bytes(8, "little")).root)
