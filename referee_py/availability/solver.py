"""The response of a party that has the run: there is one for every place that can be requested."""

from __future__ import annotations

from typing import Any, Protocol

from ..commit import LEAF_BYTES, NO_LOG, Record, Tree, canonical, data_tree
from ..commit.tensor import dtype_of
from ..errors import Unavailable
from ..program.terms import Terms, leaf_end
from ..rounding.blocks import LogTree
from ..rounding.entries import Log
from .pieces import page_levels
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
    Shape,
    StepProof,
    TensorShown,
)


class HasRun(Protocol):
    """A run with its logs. Methods raise Unavailable for data that is not stored."""

    def run_tree(self, level: int, start: int, end: int) -> Tree: ...

    def step_tree(self, step: int) -> Tree: ...

    def record(self, step: int, node: int) -> Record: ...

    def tensors(self, step: int, node: int) -> tuple[list[Any], list[Any]]:
        """Return the inputs and the outputs of a node."""
        ...

    def run_log_tree(self) -> Tree | None: ...

    def log_tree(self, step: int) -> Tree | None: ...

    def log(self, step: int, node: int) -> Log | None:
        """Return the log that the node's digest commits to; None if the node has no log."""
        ...


def response_of(program: Terms, place: Place, own: HasRun) -> Response:
    """Return the response to a request of ``place``. Raises Unavailable if the run's data is no longer stored."""
    match place.piece:
        case Piece.DIGESTS:
            return _digests(place, own)
        case Piece.BLOCKS:
            return _blocks(place, own)
        case Piece.RECORD:
            return _record(program, place, own)
        case Piece.LEAF:
            return _leaf(program, place, own)


def _logs(place: Place, own: HasRun) -> tuple[Tree, StepProof]:
    run, step = own.run_log_tree(), own.log_tree(place.tree)
    if run is None or step is None:
        raise Unavailable(f"the rounding logs of step {place.tree} are not here")
    return step, StepProof(step.root, tuple(run.path(place.tree - 1)))


def _digests(place: Place, own: HasRun) -> Digests:
    tree, step = _logs(place, own)
    levels = page_levels(tree.depth, DIGEST_LEVELS)
    digests = tree.descendants(levels, place.node, levels)
    return Digests(tuple(digests), tuple(tree.path(place.node, levels)), step)


def _blocks(place: Place, own: HasRun) -> Blocks:
    tree, step = _logs(place, own)
    digest, path = tree.node(0, place.node), tuple(tree.path(place.node))
    log = own.log(place.tree, place.node)
    if digest == NO_LOG or log is None:
        return Blocks(digest, path, step)
    found = LogTree(log)
    levels = page_levels(found.depth, BLOCK_LEVELS)
    if place.part >> (found.depth - levels):
        return Blocks(digest, path, step, found.elements, found.root)
    blocks, page_path = found.page(place.part, levels)
    return Blocks(digest, path, step, found.elements, found.root, tuple(blocks), tuple(page_path))


def _record(program: Terms, place: Place, own: HasRun) -> RecordShown:
    run = own.run_tree(0, 0, program.steps)
    tree = own.step_tree(_step(program, place))
    return RecordShown(
        record=own.record(_step(program, place), place.node),
        record_path=tuple(tree.path(place.node)),
        checkpoint=tree.root,
        checkpoint_path=tuple(run.path(place.tree)),
    )


def _leaf(program: Terms, place: Place, own: HasRun) -> LeafShown:
    shown = _record(program, place, own)
    inputs, outputs = own.tensors(_step(program, place), place.node)
    output = place.tensor >= OUTPUTS
    tensors, number = (outputs, place.tensor - OUTPUTS) if output else (inputs, place.tensor)
    if number >= len(tensors):
        return LeafShown(shown)
    array = canonical(tensors[number])
    data = array.tobytes()
    tree = data_tree(data)
    shape = Shape(int(dtype_of(array)), tuple(array.shape))
    if place.part >= len(tree.leaves):
        return LeafShown(shown, TensorShown(shape, tree.root))
    start = place.part * LEAF_BYTES
    leaf = data[start : start + LEAF_BYTES]
    return LeafShown(shown, TensorShown(shape, tree.root, leaf, tuple(tree.path(place.part))))


def _step(program: Terms, place: Place) -> int:
    """Return the step of the place's checkpoint."""
    return leaf_end(0, program.steps, program.strides[0], place.tree)
