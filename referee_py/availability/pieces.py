"""Checks that a response is what a root commits to at a place (contracts/availability/Pieces.sol).

    logs     run log tree ─ step's log tree ─ 256 digests
                                           └─ digest ─ log block tree ─ 8 blocks
    claims   run tree ─ step tree ─ record ─ tensor ─ data tree ─ leaf

INVARIANT: a party that has the whole run has a response for every place that can be requested (`solver`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sized

from repops.opset import ITEM_SIZE, MAX_ELEMENTS, MAX_RANK, Dtype

from ..commit import LEAF_BYTES, NO_LOG, Tag, depth_of, digest, empty, fold_descendants
from ..program.terms import Terms, leaf_count
from ..rounding.blocks import BLOCK, block_count, readable
from ..walk.proof import proven
from ..walk.refusals import WrongChildCount, require
from . import refusals
from .state import (
    BLOCK_LEVELS,
    DIGEST_LEVELS,
    OUTPUTS,
    Blocks,
    Digests,
    LeafShown,
    Piece,
    Place,
    RecordShown,
    Response,
    StepProof,
)


def check_place(program: Terms, place: Place) -> None:
    """Raise NoSuchPlace for a place for which an honest claimant may have no response."""
    piece = place.piece
    require(piece is Piece.LEAF or place.tensor == 0, refusals.NoSuchPlace, place.tensor, 1)
    whole = piece in (Piece.DIGESTS, Piece.RECORD)
    require(not whole or place.part == 0, refusals.NoSuchPlace, place.part, 1)
    if piece.of_logs:
        require(1 <= place.tree <= program.steps, refusals.NoSuchPlace, place.tree, program.steps)
    else:
        count = leaf_count(0, program.steps, program.strides[0])
        require(place.tree < count, refusals.NoSuchPlace, place.tree, count)
    unit = 1 << DIGEST_LEVELS if piece is Piece.DIGESTS else 1
    require(place.node * unit < program.node_count, refusals.NoSuchPlace, place.node)


def check_kind(place: Place, answer: Response) -> None:
    """Raise WrongPiece for a response to a request of another kind."""
    kinds = {Digests: Piece.DIGESTS, Blocks: Piece.BLOCKS, RecordShown: Piece.RECORD, LeafShown: Piece.LEAF}
    want = kinds[type(answer)]
    require(place.piece is want, refusals.WrongPiece, place.piece.name, want.name)


def check(program: Terms, root: bytes, place: Place, answer: Response) -> int:
    """Return the number of bytes that the response shows. Raises a Refusal if it is not the requested piece."""
    match answer:
        case Digests():
            return _digests(program, root, place, answer)
        case Blocks():
            return _blocks(program, root, place, answer)
        case RecordShown():
            return _record(program, root, place, answer)
        case LeafShown():
            return _record(program, root, place, answer.record) + _leaf(place, answer)
    raise TypeError(answer)


def page_levels(depth: int, most: int) -> int:
    """Return the number of levels of a tree that a response shows at once, at most ``most``."""
    return min(depth, most)


def _digests(program: Terms, logs: bytes, place: Place, answer: Digests) -> int:
    depth = depth_of(program.node_count)
    levels = page_levels(depth, DIGEST_LEVELS)
    require(len(answer.digests) == 1 << levels, WrongChildCount, len(answer.digests), 1 << levels)
    node = fold_descendants(Tag.LOG_TREE, answer.digests)
    proven(Tag.LOG_TREE, node, place.node, answer.path, depth - levels, answer.step.root)
    _step(program, logs, place.tree, answer.step)
    return 32 * (len(answer.digests) + len(answer.path) + len(answer.step.path))


def _blocks(program: Terms, logs: bytes, place: Place, answer: Blocks) -> int:
    depth = depth_of(program.node_count)
    proven(Tag.LOG_TREE, answer.log, place.node, answer.log_path, depth, answer.step.root)
    _step(program, logs, place.tree, answer.step)
    size = 32 * (len(answer.log_path) + len(answer.step.path))
    if answer.log == NO_LOG:
        _nothing(answer.blocks, answer.path)
        return size
    have = digest(Tag.ROUNDING_LOG, answer.elements.to_bytes(8, "big"), answer.root)
    require(have == answer.log, refusals.WrongDigest, have, answer.log)
    depth = depth_of(block_count(answer.elements))
    levels = page_levels(depth, BLOCK_LEVELS)
    # NOTE: the place is a page of the node's log, which may have another number of elements than the node's output.
    if place.part >> (depth - levels):
        _nothing(answer.blocks, answer.path)
        return size
    count = 1 << levels
    require(len(answer.blocks) == count, refusals.WrongBlockCount, len(answer.blocks), count)
    leaves = []
    for number, block in enumerate(answer.blocks, place.part << levels):
        places = max(0, min(answer.elements - number * BLOCK, BLOCK))
        require(readable(block, places), refusals.Unreadable, number)
        leaves.append(digest(Tag.LOG_BLOCK, block) if block else empty(Tag.LOG_BLOCK_TREE, 0))
    node = fold_descendants(Tag.LOG_BLOCK_TREE, leaves)
    proven(Tag.LOG_BLOCK_TREE, node, place.part, answer.path, depth - levels, answer.root)
    return size + 32 * len(answer.path) + sum(32 + len(block) for block in answer.blocks)


def _step(program: Terms, logs: bytes, step: int, proof: StepProof) -> None:
    """NOTE: steps are counted from 1, leaves from 0."""
    proven(Tag.LOG_RUN_TREE, proof.root, step - 1, proof.path, depth_of(program.steps), logs)


def _nothing(*shown: Sized) -> None:
    """SAFETY: readers of events use whatever a response shows, so it may show nothing that was not checked."""
    require(not any(map(len, shown)), refusals.NothingThere)


def _record(program: Terms, root: bytes, place: Place, answer: RecordShown) -> int:
    depth, count = depth_of(program.node_count), leaf_count(0, program.steps, program.strides[0])
    proven(Tag.STEP_TREE, answer.record.hash(), place.node, answer.record_path, depth, answer.checkpoint)
    proven(Tag.RUN_TREE, answer.checkpoint, place.tree, answer.checkpoint_path, depth_of(count), root)
    record = answer.record
    paths = len(answer.record_path) + len(answer.checkpoint_path)
    return 32 * (len(record.inputs) + len(record.outputs) + paths)


def _leaf(place: Place, answer: LeafShown) -> int:
    record = answer.record.record
    shown, shape = answer.tensor, answer.tensor.shape
    output = place.tensor >= OUTPUTS
    tensors = record.outputs if output else record.inputs
    number = place.tensor - OUTPUTS if output else place.tensor
    if number >= len(tensors):
        _nothing(shape.dims, shown.leaf, shown.path)
        return 0
    require(len(shape.dims) <= MAX_RANK, refusals.RankTooHigh, len(shape.dims))
    kind = struct.pack(f">BB{len(shape.dims)}Q", shape.dtype, len(shape.dims), *shape.dims)
    have = digest(Tag.TENSOR, kind, shown.root)
    require(have == tensors[number], refusals.WrongDigest, have, tensors[number])
    elements = math.prod(shape.dims)
    require(elements < MAX_ELEMENTS, refusals.TooManyElements, elements)
    require(shape.dtype in set(Dtype), refusals.UnknownDtype, shape.dtype)
    size = elements * ITEM_SIZE[Dtype(shape.dtype)]
    count = -(-size // LEAF_BYTES)
    if place.part >= count:
        _nothing(shown.leaf, shown.path)
        return 0
    length = min(size - place.part * LEAF_BYTES, LEAF_BYTES)
    require(len(shown.leaf) == length, refusals.WrongLeafLength, len(shown.leaf), length)
    leaf = digest(Tag.LEAF, shown.leaf)
    proven(Tag.DATA_TREE, leaf, place.part, shown.path, depth_of(count), shown.root)
    return length + 32 * len(shown.path)
