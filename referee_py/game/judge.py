"""The decision at an open node (docs/protocol.md, section 7, "Decision"): which sides are wrong, and why.

Each side is judged against the truth, not against the other side: both can be wrong. The structure encoding is read
as the contract reads it: only the bytes that are needed, each read checked against the end of the encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repops.opset import Dtype

from ..commit import NO_LOG, Record, Tag, data_tree, depth_of, describe, digest
from ..program.structure import Kind
from ..program.terms import Terms
from ..walk.dispute import ZERO
from ..walk.proof import proven
from ..walk.reason import Reason
from ..walk.refusals import NoSuchInput, StructureTooLong, StructureTruncated, WrongNode, require
from . import refusals
from .state import Evidence, Exhibit, JudgeInput, JudgeLog, MatchState, MatchTerms

_HEAD = 4
_OPERAND = 6
_MAX_STRUCTURE = 8192


@dataclass(frozen=True, slots=True)
class Operand:
    """Source of an input (docs/protocol.md, section 3), as encoded: the kind may be one that does not exist."""

    kind: int
    index: int
    output: int


def counts(structure: bytes) -> tuple[int, int]:
    """Return the numbers of inputs and outputs. Raises a Refusal unless the encoding holds all operands."""
    require(len(structure) <= _MAX_STRUCTURE, StructureTooLong, len(structure))
    require(len(structure) >= _HEAD, StructureTruncated, len(structure), _HEAD)
    need = _HEAD + structure[2] * _OPERAND
    require(len(structure) >= need, StructureTruncated, len(structure), need)
    return structure[2], structure[3]


def operand(structure: bytes, k: int) -> Operand:
    """Return the source of input ``k``. Raises a Refusal if there is no such input."""
    nin, _ = counts(structure)
    require(k < nin, NoSuchInput, k, nin)
    at = structure[_HEAD + k * _OPERAND :]
    return Operand(at[0], int.from_bytes(at[1:5], "big"), at[5])


def ill_formed(exhibit: Exhibit, program: Terms) -> int:
    """Return the sides whose record is not well formed in that program, as a bit mask."""
    expected = digest(Tag.STRUCTURE, exhibit.structure), *counts(exhibit.structure)
    return sum(
        1 << side
        for side, record in enumerate((exhibit.record0, exhibit.record1))
        if (record.structure, len(record.inputs), len(record.outputs)) != expected
        or not (program.arithmetic.follows_logs or record.log == NO_LOG)
    )


def belongs(record: Record, side: int, state: MatchState) -> None:
    """Raise WrongNode unless the record hashes to that side's node."""
    have, want = record.hash(), state.node[side]
    require(have == want, WrongNode, side, have, want)


def check(state: MatchState, program: Terms, exhibit: Exhibit) -> int:
    """Check both records and the structure against their hashes. Return the sides with an ill-formed record."""
    belongs(exhibit.record0, 0, state)
    belongs(exhibit.record1, 1, state)
    leaf, depth = digest(Tag.STRUCTURE, exhibit.structure), depth_of(program.node_count)
    proven(Tag.STRUCTURE_TREE, leaf, state.index, exhibit.structure_path, depth, program.structure_root)
    return ill_formed(exhibit, program)


# --- the four cases ---------------------------------------------------------------------------------------------


def structure(state: MatchState, program: Terms, exhibit: Exhibit) -> int:
    """Return the losers of case 1: the sides whose record is not well formed."""
    losers = check(state, program, exhibit)
    require(bool(losers), refusals.WellFormed)
    return losers


def input_(state: MatchState, program: Terms, move: JudgeInput) -> tuple[int, Reason]:
    """Return the losers of case 2, the sides whose input ``k`` is not its source's value, and the kind of source."""
    exhibit, k = move.exhibit, move.evidence.k
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    source = operand(exhibit.structure, k)
    claimed = exhibit.record0.inputs[k], exhibit.record1.inputs[k]
    require(claimed[0] != claimed[1], refusals.InputsEqual, k)
    truth, reason = _truth(state, program, move.evidence, source)
    return sum(1 << side for side in (0, 1) if claimed[side] != truth), reason


def log(state: MatchState, terms: MatchTerms, move: JudgeLog) -> int:
    """Return the losers of case 3: the sides whose log is not the one under the job's log root."""
    exhibit, proof, program = move.exhibit, move.proof, terms.program
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    claimed = exhibit.record0.log, exhibit.record1.log
    require(claimed[0] != claimed[1], refusals.LogsEqual)
    nodes, steps = depth_of(program.node_count), depth_of(program.steps)
    proven(Tag.LOG_TREE, proof.log, state.index, proof.node_path, nodes, proof.step_root)
    proven(Tag.LOG_RUN_TREE, proof.step_root, state.end - 1, proof.step_path, steps, terms.logs)
    return sum(1 << side for side in (0, 1) if claimed[side] != proof.log)


def operator(state: MatchState, program: Terms, exhibit: Exhibit) -> None:
    """Check case 4: only outputs differ, so the operator must be judged by the panel. Raises a Refusal otherwise."""
    malformed = check(state, program, exhibit)
    require(not malformed, refusals.Malformed, malformed)
    pairs = zip(exhibit.record0.inputs, exhibit.record1.inputs, strict=True)
    for k, (a, b) in enumerate(pairs):
        require(a == b, refusals.InputsDiffer, k)
    require(exhibit.record0.log == exhibit.record1.log, refusals.LogsDiffer)


# --- the truth about an input -----------------------------------------------------------------------------------


def _truth(state: MatchState, program: Terms, evidence: Evidence, source: Operand) -> tuple[bytes, Reason]:
    """Return the true hash of an input from that source, and the case as a reason."""
    match source.kind:
        case Kind.NODE:
            # SAFETY: an earlier node is to the left of the position, so both sides agree on its record.
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


def _slot(state: MatchState, program: Terms, evidence: Evidence, slot: int) -> bytes:
    """Return the slot's hash: of the initial state, or of the output that updated the slot in the step before."""
    depth = depth_of(program.slot_count)
    if state.start == 0:
        root = program.initial_root
        proven(Tag.INITIAL_TREE, evidence.tensor, slot, evidence.source_path, depth, root)
        return evidence.tensor
    node, output = evidence.slot_node, evidence.slot_output
    leaf = digest(Tag.SLOT, node.to_bytes(4, "big"), output.to_bytes(1, "big"))
    proven(Tag.SLOT_TREE, leaf, slot, evidence.slot_path, depth, program.slot_root)
    return _output([state.agreed], program, evidence, node, output)


def _output(roots: Sequence[bytes], program: Terms, evidence: Evidence, node: int, output: int) -> bytes:
    """Return that output of the source record, proven to be ``node`` under one of the roots; zero if it has none."""
    record, depth = evidence.source, depth_of(program.node_count)
    proven(Tag.STEP_TREE, record.hash(), node, evidence.source_path, depth, *roots)
    return record.outputs[output] if output < len(record.outputs) else ZERO


def step_hash(step: int) -> bytes:
    """Return the TENSOR hash of a step number: an i64 of rank 0."""
    return digest(Tag.TENSOR, describe(Dtype.I64, ()), data_tree(step.to_bytes(8, "little")).root)
