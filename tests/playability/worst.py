"""The longest moves about a node, really encoded, against the bounds of `playable`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from repops.opset import F32

from referee_py.availability.state import (
    BLOCK_LEVELS,
    DIGEST_LEVELS,
    Blocks,
    Digests,
    LeafShown,
    Piece,
    Place,
    RecordShown,
    Shape,
    StepProof,
    TensorShown,
)
from referee_py.commit import Record
from referee_py.commit.tensor import LEAF_BYTES
from referee_py.game.state import (
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    MatchTerms,
    OpenRecord,
    Phase,
    Submit,
)
from referee_py.game.state import Move as MatchMove
from referee_py.panel.state import Appeal, Stand, Submission
from referee_py.panel.state import Move as HearingMove
from referee_py.program import Structure, TensorType
from referee_py.program.modes import mode_or_unknown
from referee_py.program.playable import MAX_BYTES, move_bytes
from referee_py.program.terms import Terms
from referee_py.trial import (
    Answer,
    Compare,
    Inputs,
    JudgeStep,
    LogBlock,
    NodesDescend,
    Opening,
    Post,
    ShowOutputs,
    Stage,
    Tensor,
    TrialState,
)
from referee_py.trial import Move as TrialMove
from referee_py.walk.descent import Descent
from referee_py.walk.dispute import Dispute, TrialTerms
from tests.referee_py.game.chain import Contract
from trainer_node.chain.codec.availability import provide_call
from trainer_node.chain.codec.hearing import hearing_call
from trainer_node.chain.codec.match import match_call
from trainer_node.chain.codec.trial import trial_call

HASH = b"\xa5" * 32
PLAYERS = ("0x" + "A0" * 20, "0x" + "B1" * 20)
MOST = Record(HASH, (HASH,) * 255, (HASH,) * 8, HASH)
"""A record that a liar may claim, or that an input may come from."""
NODE_DEPTH, SLOT_DEPTH, RUN_DEPTH, DATA_DEPTH, LOG_DEPTH = 24, 20, 48, 33, 54
BLOCK_BYTES, STATE_BYTES, POST_BYTES = 6144, 204, 2048
PROGRAM = Terms(
    1, 1, (1 << 24) - 1, 0, 0, (1 << 48) - 1, HASH, HASH, HASH, HASH, tuple(2**k for k in range(7, -1, -1))
)


def worst_moves(
    node: Structure, inputs: tuple[TensorType, ...], mode: int
) -> Iterator[tuple[str, int, int, int]]:
    """Yield names of moves, bytes of their calldata, the bounds of `playable`, and the limit of a transaction."""
    key = len(node.encode()), len(node.outputs), tuple(len(kind.shape) for kind in inputs)
    logged = mode_or_unknown(mode).follows_logs and any(kind.dtype == F32 for kind in node.outputs)
    sizes = _sizes(*key, max((len(kind.shape) for kind in inputs), default=0))
    for move, bound in move_bytes(node, inputs).items():
        if move != "provideBlocks" or logged:
            yield move, sizes[move], bound, MAX_BYTES


@cache
def _sizes(encoded: int, outputs: int, ranks: tuple[int, ...], rank: int) -> dict[str, int]:
    """Return calldata bytes of each move, for an encoding of this length, this many outputs, inputs of these ranks."""
    referee, court, panel, requests = (
        _contract(name) for name in ("Referee", "Court", "Panel", "DataAvailability")
    )
    own = Record(HASH, (HASH,) * len(ranks), (HASH,) * outputs, HASH)
    structure = HASH * (encoded // 32) + HASH[: encoded % 32]
    found = dict[str, int]()
    for move in _match_moves(own, structure):
        name, given = match_call(move, _AT, _TERMS)
        found[name] = len(_alone(referee, referee.calldata(name, *given)))
    dispute = Dispute((own, own), structure, 0x80)
    for hearing_move in _hearing_moves(dispute, own):
        name, given = hearing_call(hearing_move, 1)
        found[name] = len(panel.calldata(name, *given))
    trial_terms = TrialTerms(PLAYERS[0], 1, PLAYERS, HASH)
    for trial_move in _trial_moves(ranks):
        name, given = trial_call(trial_move, trial_terms, dispute, _TRIED)
        found[name] = len(_alone(court, court.calldata(name, *given)))
    subject, place = (PLAYERS[0], 1, HASH), Place(Piece.LEAF, 1, 1)
    for answer in _answers(rank):
        name, given = provide_call(subject, place, answer)
        found[name] = len(_alone(requests, requests.calldata(name, *given)))
    return found


@cache
def _contract(name: str) -> Contract:
    return Contract(name)


def _alone(contract: Contract, data: bytes) -> bytes:
    """Return the call as the only one of a batch."""
    return contract.calldata("multicall", [data])


_AT = MatchState(Phase.OPEN, 0, 8, 0, 1, 1, 2, (HASH, HASH), (HASH, HASH), HASH, (1, 1), 0)
_TERMS = MatchTerms(PROGRAM, 1, PLAYERS, 1, HASH, (HASH, HASH), 1)
_TRIED = TrialState(PLAYERS, Stage.STEP, 0, (1, 1), 0)


def _path(depth: int) -> tuple[bytes, ...]:
    return (HASH,) * depth


def _match_moves(own: Record, structure: bytes) -> list[MatchMove]:
    exhibit = Exhibit(own, own, structure, _path(NODE_DEPTH))
    liars = Exhibit(own, MOST, structure, _path(NODE_DEPTH))
    evidence = Evidence(0, MOST, _path(NODE_DEPTH), 1, 1, _path(SLOT_DEPTH), HASH)
    proof = LogProof(HASH, HASH, _path(RUN_DEPTH), _path(NODE_DEPTH))
    return [
        OpenRecord(0, MOST),
        JudgeStructure(liars),
        JudgeInput(exhibit, evidence),
        JudgeLog(exhibit, proof),
        Submit(exhibit),
    ]


def _hearing_moves(dispute: Dispute, own: Record) -> list[HearingMove]:
    submission = Submission(1, PLAYERS[0], 1, 1, 1, PLAYERS, (HASH, HASH), HASH)
    return [Appeal(submission, dispute), Stand(submission, dispute, own)]


def _trial_moves(ranks: tuple[int, ...]) -> list[TrialMove]:
    tensors = [Tensor(TensorType(F32, ((1 << 40) - 1, *(1,) * (rank - 1))[:rank]), HASH) for rank in ranks]
    inputs = Inputs.of(tensors)
    openings = tuple(Opening(0, 1, bytes(LEAF_BYTES), _path(DATA_DEPTH)) for _ in range(4))
    log = LogBlock(1, bytes(BLOCK_BYTES), _path(LOG_DEPTH))
    return [
        ShowOutputs((HASH, HASH)),
        NodesDescend(Descent(0, HASH, _path(DATA_DEPTH), HASH, _path(DATA_DEPTH))),
        Compare(bytes(LEAF_BYTES), bytes(LEAF_BYTES), inputs, log),
        Post(bytes(POST_BYTES)),
        Answer(bytes(POST_BYTES), 0, bytes(STATE_BYTES)),
        JudgeStep(inputs, bytes(STATE_BYTES), openings),
    ]


def _answers(rank: int) -> list[Digests | Blocks | LeafShown]:
    step = StepProof(HASH, _path(RUN_DEPTH))
    record = RecordShown(MOST, _path(NODE_DEPTH), HASH, _path(RUN_DEPTH))
    shape = Shape(1, (1,) * rank)
    pages = (bytes(BLOCK_BYTES),) * (1 << BLOCK_LEVELS)
    return [
        Digests((HASH,) * (1 << DIGEST_LEVELS), _path(NODE_DEPTH), step),
        Blocks(HASH, _path(NODE_DEPTH), step, 1, HASH, pages, _path(LOG_DEPTH)),
        LeafShown(record, TensorShown(shape, HASH, bytes(LEAF_BYTES), _path(DATA_DEPTH))),
    ]
