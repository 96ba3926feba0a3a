"""Converts structs of hearings and trials: from values to calldata, and back from calldata and events.

The moves of matches and hearings convert themselves (`arguments`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from repops.opset import Dtype

from referee_py.commit import Record
from referee_py.commit.tensor import describe
from referee_py.errors import InvalidEncoding
from referee_py.panel.state import Submission
from referee_py.program import TensorType
from referee_py.trial import (
    Answer,
    Compare,
    JudgeStep,
    LogBlock,
    Move,
    NodesDescend,
    NodesReveal,
    Opening,
    Post,
    ShowLeaf,
    ShowOutputs,
    Tensor,
    Timeout,
    TrialState,
)
from referee_py.trial.calldata import position
from referee_py.walk.dispute import Dispute, TrialTerms, dispute_wire

# ---------------------------------------------------------------------- to the chain


def trial_call(
    move: Move, trial_terms: TrialTerms, dispute: Dispute, state: TrialState
) -> tuple[str, list[object]]:
    """Return the Court's function for a move in this state, and its arguments."""
    whole = [trial_terms.wire(), dispute_wire(dispute), position(state)]
    short = [trial_terms.wire(), position(state)]
    match move:
        case ShowOutputs():
            return "showOutputs", [*whole, list(move.roots)]
        case NodesReveal():
            return "reveal", [*short, move.side, list(move.children)]
        case NodesDescend():
            way = move.child, move.node0, list(move.path0), move.node1, list(move.path1)
            return "descend", [*whole, way]
        case ShowLeaf():
            return "showLeaf", [*short, move.side, move.leaf]
        case Compare():
            log = move.log.elements, move.log.entries, list(move.log.path)
            return "compare", [*whole, move.leaf0, move.leaf1, _inputs(move.inputs), log]
        case Post():
            return "post", [*short, move.states]
        case Answer():
            return "answer", [*short, move.states, move.place, move.own]
        case JudgeStep():
            openings = [(o.input, o.element, o.leaf, list(o.path)) for o in move.openings]
            return "judge", [*whole, _inputs(move.inputs), move.agreed, openings]
        case Timeout():
            return "timeout", [trial_terms.wire()]
    raise TypeError(move)


def _inputs(inputs: tuple[Tensor, ...]) -> tuple[bytes, list[bytes]]:
    """Return the packed types of inputs, and their roots (IExaminer.Inputs)."""
    return b"".join(describe(tensor.type.dtype, tensor.type.shape) for tensor in inputs), [
        tensor.root for tensor in inputs
    ]


# ---------------------------------------------------------------------- from the chain


def trial_move(function: str, words: list[Any]) -> tuple[int, Move] | None:
    """Return the trial's id and the move of a decoded call; None if the function is no move."""
    move: Move
    match function, words:
        case "showOutputs", [trial_terms, _, _, roots]:
            move = ShowOutputs((bytes(roots[0]), bytes(roots[1])))
        case "reveal", [trial_terms, _, side, children]:
            move = NodesReveal(side, hashes(children))
        case "descend", [trial_terms, _, _, way]:
            child, node0, path0, node1, path1 = values(way)
            move = NodesDescend(child, bytes(node0), hashes(path0), bytes(node1), hashes(path1))
        case "showLeaf", [trial_terms, _, side, leaf]:
            move = ShowLeaf(side, bytes(leaf))
        case "compare", [trial_terms, _, _, leaf0, leaf1, inputs, log]:
            elements, entries, path = values(log)
            block = LogBlock(elements, bytes(entries), hashes(path))
            move = Compare(bytes(leaf0), bytes(leaf1), _tensors(inputs), block)
        case "post", [trial_terms, _, states]:
            move = Post(bytes(states))
        case "answer", [trial_terms, _, states, place, own]:
            move = Answer(bytes(states), place, bytes(own))
        case "judge", [trial_terms, _, _, inputs, agreed, openings]:
            move = JudgeStep(_tensors(inputs), bytes(agreed), tuple(map(_opening, openings)))
        case "timeout", [trial_terms]:
            move = Timeout()
        case _:
            return None
    return trial_terms_of(trial_terms).trial(), move


def trial_terms_of(raw: Any) -> TrialTerms:
    """Return a TrialTerms struct as a value."""
    bench, number, players, dispute = values(raw)
    return TrialTerms(bench, number, (players[0], players[1]), bytes(dispute))


def record_of(raw: Any) -> Record:
    """Return a Record struct as a value."""
    structure, inputs, outputs, log = values(raw)
    return Record(bytes(structure), hashes(inputs), hashes(outputs), bytes(log))


def dispute_of(raw: Any) -> Dispute:
    """Return a Dispute struct as a value."""
    (first, second), structure, mode = values(raw)
    return Dispute((record_of(first), record_of(second)), bytes(structure), mode)


def submission_of(raw: Any) -> Submission:
    """Return a Submission struct as a value."""
    match_id, jobs, job_id, step, node, players, records, dispute = values(raw)
    first, second = hashes(records)
    return Submission(
        match_id, jobs, job_id, step, node, (players[0], players[1]), (first, second), bytes(dispute)
    )


def hashes(raw: Any) -> tuple[bytes, ...]:
    """Return a list of hashes."""
    return tuple(map(bytes, raw))


def values(raw: Any) -> list[Any]:
    """Return the fields of a struct, which the decoder gives by name or in order."""
    return list(raw.values()) if isinstance(raw, Mapping) else list(raw)


def _tensors(raw: Any) -> tuple[Tensor, ...]:
    """Return the tensors of an Inputs struct. Raises InvalidEncoding unless each root has one valid type."""
    types, roots = values(raw)
    data, found, at = bytes(types), list[Tensor](), 0
    try:
        for root in hashes(roots):
            dtype, rank = struct.unpack_from(">BB", data, at)
            shape = struct.unpack_from(f">{rank}Q", data, at + 2)
            found.append(Tensor(TensorType(Dtype(dtype), shape), root))
            at += 2 + 8 * rank
    except (struct.error, ValueError) as error:
        raise InvalidEncoding(
            f"the types end early or hold an unknown code: {error}; give one for each root"
        ) from error
    if at != len(data):
        raise InvalidEncoding(
            f"the types have {len(data)} bytes, of which the inputs need {at}; give one for each root"
        )
    return tuple(found)


def _opening(raw: Any) -> Opening:
    number, element, leaf, path = values(raw)
    return Opening(number, element, bytes(leaf), hashes(path))
