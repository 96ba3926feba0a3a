"""The definition of playable: an honest party can always conclude about the node.

For every node of a program, for every dispute and every request about it, by anybody,

- every move that an honest side may have to make fits into a transaction of MAX_BYTES bytes and MAX_GAS gas,
- every piece that can be requested has an answer, which fits too,
- every chain of steps that a trial may be about is computed in time: the operator table limits its length.

`validate` refuses any other node, before anybody stakes anything on it. The sizes are upper bounds, from a node's
structure and the types of its inputs alone. tests/playability compares them with calls that are really encoded, and
with gas that is really used. A program's limits do not depend on the chain that judges it, so they hold under every
schedule of gas (`referee_py/gas_schedule.py`).

    word        32 bytes; an array or bytes has one more for its length, and one more for its place
    record      structure ‖ inputs ‖ outputs ‖ log
    dispute     both records ‖ the structure's encoding ‖ mode
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..commit.record import MAX_INPUTS, MAX_OUTPUTS
from ..commit.tensor import LEAF_BYTES
from ..errors import Unplayable
from ..gas_schedule import Counts, dearest
from .structure import MAX_NODES, MAX_SLOTS, Structure, TensorType

MAX_BYTES = 100_000
"""Maximum bytes of a transaction's calldata. Public nodes relay at most 131,072 bytes of a transaction; the rest is
for its signature, and for senders of several moves at once."""
MAX_GAS = 12_000_000
"""Maximum gas of a transaction. EIP-7825 caps it at 16,777,216; the rest is for nodes' estimates, 25% too high."""
_WORD = 32
_STATE_BYTES = 204
"""The longest state of a chain: two exact sums, a count and the smallest term (docs/adjudication.md, section 2)."""
_OPERANDS = 4
"""Maximum number of operand elements that a step reads."""
_DATA_DEPTH = 33
"""Depth of a tensor's tree: a tensor has less than 2^40 elements of 8 bytes, in leaves of 1,024 bytes."""
_NODE_DEPTH = (MAX_NODES - 1).bit_length()
_SLOT_DEPTH = (MAX_SLOTS - 1).bit_length()
_RUN_DEPTH = 48
"""Depth of a run tree: there are fewer than 2^48 steps, and strides may leave all of them in one tree."""
_LOG_BLOCK_BYTES, _LOG_DEPTH = 6144, 54
"""Bytes of a block of 1,024 elements of a rounding log, and depth of its tree (docs/rounding-logs.md, section 2)."""
_DIGESTS, _BLOCKS = 256, 8
"""Pieces that an answer to a request of logs shows at once: digests of nodes, and blocks of a log."""
_POST_BYTES = 2048

_TRIAL_TERMS, _TRIAL_POSITION, _MATCH_TERMS, _POSITION = 5 * _WORD, 8 * _WORD, 27 * _WORD, 5 * _WORD
_MOVE_GAS = 700_000
"""Gas of a move of any size, under Osaka: storage, events, a trial that begins, one step of the dearest chain."""
_MOVE_WORDS = Counts(new=8, overwritten=16)
"""Words that a transaction of one move or several writes at most: several moves write the same ones again."""
_BYTE_GAS = 50
"""Gas of a byte of calldata, with hashing it and copying it from contract to contract, under Osaka."""
_RULE_GAS, _INPUT_GAS = 500_000, 8_000
"""Gas of a rule's checks of a case, and of each of its inputs."""
_BATCHED_BYTES = 4 * _WORD
"""Maximum bytes that a move adds to a batch, besides its own calldata."""
_CALL = 4 + 16 * _WORD
"""Bytes of the selector, of places of dynamic arguments and of small numbers, and of a batch of one move."""


@dataclass(frozen=True, slots=True)
class Load:
    """Upper bounds of the calldata bytes and the gas of a move."""

    move: str
    bytes: int
    gas: int


def check_playable(where: str, node: Structure, inputs: Sequence[TensorType]) -> None:
    """Raise Unplayable, naming the move, unless every move about the node fits. `where` begins the message."""
    for load in loads(node, inputs):
        for what, have, limit in (("bytes", load.bytes, MAX_BYTES), ("gas", load.gas, MAX_GAS)):
            if have > limit:
                raise Unplayable(
                    f"{where}: {node.name} of {len(inputs)} inputs: {load.move} may take {have:,} {what}, a "
                    f"transaction may take {limit:,}, so the party that is right might be unable to send it; "
                    "use fewer inputs (of a long cat: several short ones) or tensors of lower rank"
                )


def loads(node: Structure, inputs: Sequence[TensorType]) -> list[Load]:
    """Return the upper bounds of each move about a node."""
    shape = len(node.encode()), tuple(len(kind.shape) for kind in inputs), len(node.outputs)
    return list(_loads(*shape))


@functools.lru_cache(4096)
def _loads(encoded: int, ranks: tuple[int, ...], outputs: int) -> tuple[Load, ...]:
    """NOTE: the nodes of a program are of few kinds, and so are the sizes of moves about them."""
    sizes = _move_bytes(encoded, ranks, outputs).items()
    return tuple(Load(move, size, transaction_gas([(move, size)], len(ranks))) for move, size in sizes)


def transaction_gas(moves: Sequence[tuple[str, int]], inputs: int) -> int:
    """Return the maximum gas, under any schedule, of a transaction of these moves, (function, bytes) each, about a node
    of `inputs` inputs."""
    measured = sum(_move_gas(move, size, inputs) for move, size in moves)
    calldata = sum(size + _BATCHED_BYTES for _, size in moves)
    return dearest(measured, replace(_MOVE_WORDS, calldata=calldata))


def _move_gas(move: str, size: int, inputs: int) -> int:
    rule = _RULE_GAS + _INPUT_GAS * inputs if move in ("compare", "judge") else 0
    return _MOVE_GAS + _BYTE_GAS * size + rule


def fitting(moves: Sequence[tuple[str, int]], inputs: int) -> int:
    """Return how many of these moves, (function, bytes) each, fit into a transaction, from the first on; one at least.

    They are about a node of `inputs` inputs. The rest is planned again when these are on the chain.
    """
    size = 0
    for count, (_, length) in enumerate(moves):
        size += length + _BATCHED_BYTES
        if count and (size > MAX_BYTES or transaction_gas(moves[: count + 1], inputs) > MAX_GAS):
            return count
    return len(moves)


def hashes(count: int) -> int:
    """Return the calldata bytes of an array of this many hashes."""
    return _WORD * (1 + count)


def blob(size: int) -> int:
    """Return the calldata bytes of `bytes` of this size."""
    return _WORD * (1 + -(-size // _WORD))


def record_bytes(inputs: int, outputs: int) -> int:
    """Return the calldata bytes of a record."""
    return 4 * _WORD + hashes(inputs) + hashes(outputs)


def move_bytes(node: Structure, inputs: Sequence[TensorType]) -> dict[str, int]:
    """Return upper bounds of the calldata of every move that an honest side may have to make about a node.

    NOTE: a liar's record may have any number of inputs and outputs; so may the record that an input comes from.
    """
    return {load.move: load.bytes for load in loads(node, inputs)}


def _move_bytes(length: int, ranks: tuple[int, ...], outputs: int) -> dict[str, int]:
    """Return `move_bytes` of a node by the length of its encoding, the ranks of its inputs and its outputs."""
    encoded = blob(length)
    own, any_ = record_bytes(len(ranks), outputs), record_bytes(MAX_INPUTS, MAX_OUTPUTS)
    exhibit = 4 * _WORD + encoded + hashes(_NODE_DEPTH)
    dispute = 5 * _WORD + 2 * own + encoded
    path = hashes(_NODE_DEPTH)
    match = _CALL + _MATCH_TERMS + _POSITION
    trial = _CALL + _TRIAL_TERMS + _TRIAL_POSITION
    tensors = 2 * _WORD + blob(sum(2 + 8 * rank for rank in ranks)) + hashes(len(ranks))
    openings = _OPERANDS * (5 * _WORD + blob(LEAF_BYTES) + hashes(_DATA_DEPTH))
    shown = 4 * _WORD + any_ + path + hashes(_RUN_DEPTH)
    return {
        "openRecord": match + any_,
        "judgeStructure": match + exhibit + own + any_,
        "judgeInput": match + exhibit + 2 * own + 7 * _WORD + any_ + path + hashes(_SLOT_DEPTH),
        "judgeLog": match + exhibit + 2 * own + 4 * _WORD + path + hashes(_RUN_DEPTH),
        "submit": match + exhibit + 2 * own,
        "appeal": _CALL + 9 * _WORD + dispute,
        "stand": _CALL + 9 * _WORD + dispute + own,
        "showOutputs": trial + dispute,
        "descend": trial + dispute + 5 * _WORD + 2 * hashes(_DATA_DEPTH),
        "compare": trial
        + dispute
        + 2 * blob(LEAF_BYTES)
        + tensors
        + 3 * _WORD
        + blob(_LOG_BLOCK_BYTES)
        + hashes(_LOG_DEPTH),
        "post": trial + blob(_POST_BYTES),
        "answer": trial + blob(_POST_BYTES) + blob(_STATE_BYTES),
        "judge": trial + dispute + tensors + blob(_STATE_BYTES) + _WORD + openings,
        "provideDigests": _CALL + 9 * _WORD + hashes(_DIGESTS) + path + 2 * _WORD + hashes(_RUN_DEPTH),
        "provideBlocks": _CALL
        + 9 * _WORD
        + 8 * _WORD
        + path
        + hashes(_RUN_DEPTH)
        + hashes(_LOG_DEPTH)
        + _BLOCKS * (_WORD + blob(_LOG_BLOCK_BYTES)),
        "provideLeaf": _CALL + 9 * _WORD + shown + 14 * _WORD + blob(LEAF_BYTES) + hashes(_DATA_DEPTH),
    }
