"""What an open node decides (docs/protocol.md, section 7, "Decision"): which sides are wrong, and why.

Each side is judged against the truth, not against the other: both can be wrong. The structure encoding is read
as the contract reads it: only what it needs, every read checked against the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repops.opset import Dtype

from ..commit import NO_LOG, Record, Tag, data_tree, depth_of, describe, digest, fold_path
from ..program.structure import Kind
from ..rounding.mode import is_rounded
from . import refusals
from .refusals import require
from .state import (
    ZERO,
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    MatchState,
    MatchTerms,
    ProgramHeader,
    Reason,
)

_HEAD = 4
_OPERAND = 6
_MAX_STRUCTURE = 8192


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an input comes from (section 3), as it is written: the kind may be none that exists."""

    kind: int
    index: int
    output: int


def counts(structure: bytes) -> tuple[int, int]:
    """Numbers of inputs and outputs. The operands are within the encoding once this has returned."""
    require(len(structure) <= _MAX_STRUCTURE, refusals.StructureTooLong, len(structure))
    require(len(structure) >= _HEAD, refusals.StructureTruncated, len(structure), _HEAD)
    need = _HEAD + structure[2] * _OPERAND
    require(len(structure) >= need, refusals.StructureTruncated, len(structure), need)
    return structure[2], structure[3]


def operand(structure: bytes, k: int) -> Operand:
    """Where input ``k`` comes from."""
    nin, _ = counts(structure)
    require(k < nin, refusals.NoSuchInput, k, nin)
    at = structure[_HEAD + k * _OPERAND :]
    return Operand(at[0], int.from_bytes(at[1:5], "big"), at[5])


def ill_formed(exhibit: Exhibit, mode: int) -> int:
    """The sides whose record is not well formed in a program of that mode, as a bit mask."""
    expected = digest(Tag.STRUCTURE, exhibit.structure), *counts(exhibit.structure)
    return sum(
        1 << side
        for side, record in enumerate((exhibit.record0, exhibit.record1))
        if (record.structure, len(record.inputs), len(record.outputs)) != expected
        or not (is_rounded(mode) or record.log == NO_LOG)
    )


def belongs(record: Record, side: int, state: MatchState) -> None:
    """The record must be that side's node."""
    have, want = record.hash(), state.node[side]
    require(have == want, refusals.WrongNode, side, have, want)


def check(state: MatchState, program: ProgramHeader, exhibit: Exhibit) -> int:
    """Both records and the structure against what is committed. Returns who is ill formed."""
    belongs(exhibit.record0, 0, state)
    belongs(exhibit.record1, 1, state)
    leaf, depth = digest(Tag.STRUCTURE, exhibit.structure), depth_of(program.node_count)
    proven(Tag.STRUCTURE_TREE, leaf, state.index, exhibit.structure_path, depth, program.structure_root)
    return ill_formed(exhibit, program.mode)


def proven(tag: Tag, leaf: bytes, index: int, path: Sequence[bytes], depth: int, *roots: bytes) -> None:
    """The leaf is in its place under one of the roots.

    SAFETY: the length of the path is the depth of the tree, so the leaf is a leaf. To the left of the position
    the two roots of a match agree, and each side knows its own; so what is there may be proven under either.
    """
    require(len(path) == depth, refusals.WrongPathLength, len(path), depth)
    require(index >> depth == 0, refusals.IndexOutOfTree, index, depth)
    folded = fold_path(tag, leaf, index, path)
    require(folded in roots, refusals.PathMismatch, folded, *roots)


# --- the four cases ---------------------------------------------------------------------------------------------


def structure(state: MatchState, program: ProgramHeader, exhibit: Exhibit) -> int:
    """Case 1: the sides whose record is not well formed."""
    losers = check(state, program, exhibit)
    require(bool(losers), refusals.WellFormed)
    return losers


def input_(state: MatchState, program: ProgramHeader, move: JudgeInput) -> tuple[int, Reason]:
    """Case 2: the sides whose input ``k`` is not what its source says, and which kind of source it was."""
    exhibit, k = move.exhibit, move.evidence.k
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    source = operand(exhibit.structure, k)
    claimed = exhibit.record0.inputs[k], exhibit.record1.inputs[k]
    require(claimed[0] != claimed[1], refusals.InputsEqual, k)
    truth, reason = _truth(state, program, move.evidence, source)
    return sum(1 << side for side in (0, 1) if claimed[side] != truth), reason


def log(state: MatchState, terms: MatchTerms, move: JudgeLog) -> int:
    """Case 3: the sides whose log is not the one under the root that the job has."""
    exhibit, proof, program = move.exhibit, move.proof, terms.program
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    claimed = exhibit.record0.log, exhibit.record1.log
    require(claimed[0] != claimed[1], refusals.LogsEqual)
    nodes, steps = depth_of(program.node_count), depth_of(program.steps)
    proven(Tag.LOG_TREE, proof.log, state.index, proof.node_path, nodes, proof.step_root)
    proven(Tag.LOG_RUN_TREE, proof.step_root, state.end - 1, proof.step_path, steps, terms.logs)
    return sum(1 << side for side in (0, 1) if claimed[side] != proof.log)


def operator(state: MatchState, program: ProgramHeader, exhibit: Exhibit) -> None:
    """Case 4: nothing but outputs differ, so the operator must be executed."""
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    pairs = zip(exhibit.record0.inputs, exhibit.record1.inputs, strict=True)
    for k, (a, b) in enumerate(pairs):
        require(a == b, refusals.InputsDiffer, k)
    require(exhibit.record0.log == exhibit.record1.log, refusals.LogsDiffer)


# --- the truth about an input -----------------------------------------------------------------------------------


def _truth(
    state: MatchState, program: ProgramHeader, evidence: Evidence, source: Operand
) -> tuple[bytes, Reason]:
    """What an input from that source is, and which case that is."""
    match source.kind:
        case Kind.NODE:
            # SAFETY: an earlier node is left of the position, so both sides agree on its record.
            require(source.index < state.index, refusals.ForwardReference, source.index, state.index)
            return _output(state.root, program, evidence, source.index, source.output), Reason.INPUT_NODE
        case Kind.SLOT:
            return _slot(state, program, evidence, source.index), Reason.INPUT_CHECKPOINT
        case Kind.CONSTANT:
            root, depth = program.constant_root, depth_of(program.constant_count)
            proven(Tag.CONSTANT_TREE, evidence.tensor, source.index, evidence.source_path, depth, root)
            return evidence.tensor, Reason.INPUT_CONSTANT
        case Kind.STEP:
            return step_hash(state.end), Reason.INPUT_STEP
    raise refusals.UnknownOperand(f"a structure names operand kind {source.kind}")


def _slot(state: MatchState, program: ProgramHeader, evidence: Evidence, slot: int) -> bytes:
    """The initial state, or the output that updated the slot in the step before."""
    depth = depth_of(program.slot_count)
    if state.start == 0:
        root = program.initial_root
        proven(Tag.INITIAL_TREE, evidence.tensor, slot, evidence.source_path, depth, root)
        return evidence.tensor
    node, output = evidence.slot_node, evidence.slot_output
    leaf = digest(Tag.SLOT, node.to_bytes(4, "big"), output.to_bytes(1, "big"))
    proven(Tag.SLOT_TREE, leaf, slot, evidence.slot_path, depth, program.slot_root)
    return _output([state.agreed], program, evidence, node, output)


def _output(
    roots: Sequence[bytes], program: ProgramHeader, evidence: Evidence, node: int, output: int
) -> bytes:
    """That output of the source record, proven to be that node under one of the roots; zero if it has none."""
    record, depth = evidence.source, depth_of(program.node_count)
    proven(Tag.STEP_TREE, record.hash(), node, evidence.source_path, depth, *roots)
    return record.outputs[output] if output < len(record.outputs) else ZERO


def step_hash(step: int) -> bytes:
    """The TENSOR hash of a step number: an i64 of rank 0."""
    return digest(Tag.TENSOR, describe(Dtype.I64, ()), data_tree(step.to_bytes(8, "little")).root)
