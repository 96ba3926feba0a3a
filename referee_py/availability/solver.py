"""The response of a party that has the run: there is one for every place that can be requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..commit import LEAF_BYTES, NO_LOG, Record, Tree, canonical, data_tree
from ..commit.tensor import Array, dtype_of
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
            return digests_of(place, *_logs(place, own))
        case Piece.BLOCKS:
            return _blocks(place, own)
        case Piece.RECORD:
            return _record(program, place, own)
        case Piece.LEAF:
            return _leaf(program, place, own)


def _logs(place: Place, own: HasRun) -> tuple[Tree, Tree]:
    """Return the trees over the logs of all steps and of the place's step."""
    run, step = own.run_log_tree(), own.log_tree(place.tree)
    if run is None or step is None:
        raise Unavailable(f"the rounding logs of step {place.tree} are not here")
    return run, step


def _proof(place: Place, run: Tree, step: Tree) -> StepProof:
    return StepProof(step.root, tuple(run.path(place.tree - 1)))


def digests_of(place: Place, run: Tree, step: Tree) -> Digests:
    """Return the response to a request of digests from the trees over the logs of all steps and of this one."""
    levels = page_levels(step.depth, DIGEST_LEVELS)
    digests = step.descendants(levels, place.node, levels)
    return Digests(tuple(digests), tuple(step.path(place.node, levels)), _proof(place, run, step))


def _blocks(place: Place, own: HasRun) -> Blocks:
    run, step = _logs(place, own)
    return blocks_of([place], run, step, own.log(place.tree, place.node))[0]


def blocks_of(places: Sequence[Place], run: Tree, step: Tree, log: Log | None) -> list[Blocks]:
    """Return the responses to requests of pages of one node's log. It is hashed once for all of them."""
    node, proof = places[0].node, _proof(places[0], run, step)
    digest, path = step.node(0, node), tuple(step.path(node))
    if digest == NO_LOG or log is None:
        return [Blocks(digest, path, proof)] * len(places)
    found = LogTree(log)
    levels = page_levels(found.depth, BLOCK_LEVELS)

    def page(part: int) -> Blocks:
        if part >> (found.depth - levels):
            return Blocks(digest, path, proof, found.elements, found.root)
        blocks, page_path = found.page(part, levels)
        return Blocks(digest, path, proof, found.elements, found.root, tuple(blocks), tuple(page_path))

    return [page(place.part) for place in places]


def _record(program: Terms, place: Place, own: HasRun) -> RecordShown:
    step = step_of(program, place)
    run, tree = own.run_tree(0, 0, program.steps), own.step_tree(step)
    return record_of(place, run, tree, own.record(step, place.node))


def record_of(place: Place, run: Tree, step: Tree, record: Record) -> RecordShown:
    """Return a record with its paths in the trees of its step and of the run."""
    paths = tuple(step.path(place.node)), tuple(run.path(place.tree))
    return RecordShown(record, paths[0], step.root, paths[1])


def _leaf(program: Terms, place: Place, own: HasRun) -> LeafShown:
    shown = _record(program, place, own)
    inputs, outputs = own.tensors(step_of(program, place), place.node)
    output = place.tensor >= OUTPUTS
    tensors, number = (outputs, place.tensor - OUTPUTS) if output else (inputs, place.tensor)
    if number >= len(tensors):
        return LeafShown(shown)
    return LeafShown(shown, leaves_of(tensors[number], [place.part])[0])


def leaves_of(tensor: Array, parts: Sequence[int]) -> list[TensorShown]:
    """Return these leaves of a tensor with their paths, without a leaf where there is none. It is hashed once."""
    array = canonical(tensor)
    data = array.tobytes()
    tree = data_tree(data)
    shape = Shape(int(dtype_of(array)), tuple(array.shape))

    def leaf(part: int) -> TensorShown:
        if part >= len(tree.leaves):
            return TensorShown(shape, tree.root)
        start = part * LEAF_BYTES
        return TensorShown(shape, tree.root, data[start : start + LEAF_BYTES], tuple(tree.path(part)))

    return [leaf(part) for part in parts]


def step_of(program: Terms, place: Place) -> int:
    """Return the step of a place under a claim: that of its checkpoint."""
    return leaf_end(0, program.steps, program.strides[0], place.tree)
