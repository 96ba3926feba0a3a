"""What goes into calldata and comes out of events about hearings and trials: structs as values, and back.

The moves of matches and hearings do it themselves (`arguments`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repops.opset import Dtype

from referee_py.commit import Record
from referee_py.panel.state import Submission, dispute_wire
from referee_py.program import TensorType
from referee_py.trial import (
    Answer,
    Compare,
    Dispute,
    JudgeStep,
    LogBlock,
    Move,
    NodesDescend,
    NodesReveal,
    Opening,
    Post,
    ShowLeaf,
    ShowOutput,
    Tensor,
    Timeout,
)

# ---------------------------------------------------------------------- to the chain


def trial_call(move: Move, dispute: Dispute) -> tuple[str, list[object]]:
    """The Court's function of a move, and its arguments after the trial's id."""
    file = dispute_wire(dispute)
    match move:
        case ShowOutput():
            return "showOutput", [move.side, file, move.root]
        case NodesReveal():
            return "reveal", [move.side, list(move.children)]
        case NodesDescend():
            paths = list(move.path0), list(move.path1)
            return "descend", [file, move.child, move.node0, paths[0], move.node1, paths[1]]
        case ShowLeaf():
            return "showLeaf", [move.side, move.leaf]
        case Compare():
            log = move.log.elements, move.log.entries, list(move.log.path)
            return "compare", [file, move.leaf0, move.leaf1, _tensors(move.inputs), log]
        case Post():
            return "post", [move.states]
        case Answer():
            return "answer", [move.states, move.place, move.own]
        case JudgeStep():
            openings = [(o.input, o.element, o.leaf, list(o.path)) for o in move.openings]
            return "judge", [file, _tensors(move.inputs), move.agreed, openings]
        case Timeout():
            return "timeout", []
    raise TypeError(move)


def _tensors(inputs: tuple[Tensor, ...]) -> list[object]:
    return [((tensor.type.dtype, list(tensor.type.shape)), tensor.root) for tensor in inputs]


# ---------------------------------------------------------------------- from the chain


def trial_move(function: str, words: list[Any]) -> Move | None:
    """The move of a call, from what the decoder gives after the trial's id; None if the function is no move."""
    match function, words:
        case "showOutput", [side, _, root]:
            return ShowOutput(side, bytes(root))
        case "reveal", [side, children]:
            return NodesReveal(side, hashes(children))
        case "descend", [_, child, node0, path0, node1, path1]:
            return NodesDescend(child, bytes(node0), hashes(path0), bytes(node1), hashes(path1))
        case "showLeaf", [side, leaf]:
            return ShowLeaf(side, bytes(leaf))
        case "compare", [_, leaf0, leaf1, inputs, log]:
            elements, entries, path = values(log)
            block = LogBlock(elements, bytes(entries), hashes(path))
            return Compare(bytes(leaf0), bytes(leaf1), tuple(map(_tensor, inputs)), block)
        case "post", [states]:
            return Post(bytes(states))
        case "answer", [states, place, own]:
            return Answer(bytes(states), place, bytes(own))
        case "judge", [_, inputs, agreed, openings]:
            return JudgeStep(tuple(map(_tensor, inputs)), bytes(agreed), tuple(map(_opening, openings)))
        case "timeout", []:
            return Timeout()
    return None


def record_of(raw: Any) -> Record:
    """A Record struct."""
    structure, inputs, outputs, log = values(raw)
    return Record(bytes(structure), hashes(inputs), hashes(outputs), bytes(log))


def dispute_of(raw: Any) -> Dispute:
    """A Dispute struct."""
    (first, second), structure, mode = values(raw)
    return Dispute((record_of(first), record_of(second)), bytes(structure), mode)


def submission_of(raw: Any) -> Submission:
    """A Submission struct."""
    match_id, jobs, job_id, step, node, players, records, dispute = values(raw)
    first, second = hashes(records)
    return Submission(
        match_id, jobs, job_id, step, node, (players[0], players[1]), (first, second), bytes(dispute)
    )


def hashes(raw: Any) -> tuple[bytes, ...]:
    """A list of hashes."""
    return tuple(map(bytes, raw))


def values(raw: Any) -> list[Any]:
    """A struct's fields, as the decoder gives them: by name or in order."""
    return list(raw.values()) if isinstance(raw, Mapping) else list(raw)


def _tensor(raw: Any) -> Tensor:
    shape, root = values(raw)
    dtype, dims = values(shape)
    return Tensor(TensorType(Dtype(dtype), tuple(dims)), bytes(root))


def _opening(raw: Any) -> Opening:
    number, element, leaf, path = values(raw)
    return Opening(number, element, bytes(leaf), hashes(path))
