"""What goes into calldata and comes out of events about hearings and trials: structs as values, and back.

The moves of matches and hearings do it themselves (`arguments`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repops.opset import Dtype

from referee_py.commit import Record
from referee_py.panel.state import Submission
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
    ShowOutputs,
    Suit,
    Tensor,
    Timeout,
    TrialState,
    dispute_wire,
)
from referee_py.trial.shown import said

# ---------------------------------------------------------------------- to the chain


def trial_call(move: Move, suit: Suit, dispute: Dispute, state: TrialState) -> tuple[str, list[object]]:
    """The Court's function of a move that is made in this state, and its arguments."""
    whole = [suit.wire(), dispute_wire(dispute), said(state)]
    brief = [suit.wire(), said(state)]
    match move:
        case ShowOutputs():
            return "showOutputs", [*whole, list(move.roots)]
        case NodesReveal():
            return "reveal", [*brief, move.side, list(move.children)]
        case NodesDescend():
            way = move.child, move.node0, list(move.path0), move.node1, list(move.path1)
            return "descend", [*whole, way]
        case ShowLeaf():
            return "showLeaf", [*brief, move.side, move.leaf]
        case Compare():
            log = move.log.elements, move.log.entries, list(move.log.path)
            return "compare", [*whole, move.leaf0, move.leaf1, _tensors(move.inputs), log]
        case Post():
            return "post", [*brief, move.states]
        case Answer():
            return "answer", [*brief, move.states, move.place, move.own]
        case JudgeStep():
            openings = [(o.input, o.element, o.leaf, list(o.path)) for o in move.openings]
            return "judge", [*whole, _tensors(move.inputs), move.agreed, openings]
        case Timeout():
            return "timeout", [suit.wire()]
    raise TypeError(move)


def _tensors(inputs: tuple[Tensor, ...]) -> list[object]:
    return [((tensor.type.dtype, list(tensor.type.shape)), tensor.root) for tensor in inputs]


# ---------------------------------------------------------------------- from the chain


def trial_move(function: str, words: list[Any]) -> tuple[int, Move] | None:
    """The trial and the move of a call, from what the decoder gives; None if the function is no move."""
    move: Move
    match function, words:
        case "showOutputs", [suit, _, _, roots]:
            move = ShowOutputs((bytes(roots[0]), bytes(roots[1])))
        case "reveal", [suit, _, side, children]:
            move = NodesReveal(side, hashes(children))
        case "descend", [suit, _, _, way]:
            child, node0, path0, node1, path1 = values(way)
            move = NodesDescend(child, bytes(node0), hashes(path0), bytes(node1), hashes(path1))
        case "showLeaf", [suit, _, side, leaf]:
            move = ShowLeaf(side, bytes(leaf))
        case "compare", [suit, _, _, leaf0, leaf1, inputs, log]:
            elements, entries, path = values(log)
            block = LogBlock(elements, bytes(entries), hashes(path))
            move = Compare(bytes(leaf0), bytes(leaf1), tuple(map(_tensor, inputs)), block)
        case "post", [suit, _, states]:
            move = Post(bytes(states))
        case "answer", [suit, _, states, place, own]:
            move = Answer(bytes(states), place, bytes(own))
        case "judge", [suit, _, _, inputs, agreed, openings]:
            move = JudgeStep(tuple(map(_tensor, inputs)), bytes(agreed), tuple(map(_opening, openings)))
        case "timeout", [suit]:
            move = Timeout()
        case _:
            return None
    return suit_of(suit).trial(), move


def suit_of(raw: Any) -> Suit:
    """A Suit struct."""
    bench, number, players, dispute = values(raw)
    return Suit(bench, number, (players[0], players[1]), bytes(dispute))


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
