"""Rounding logs assembled from answers: those of an honest trainer, and others that a root may commit to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from repops.opset import BOOL, F32, I64, Dtype

from referee_py.availability import Blocks, Piece, Place, Response
from referee_py.availability.pieces import check
from referee_py.availability.refusals import Unreadable
from referee_py.availability.solver import response_of
from referee_py.availability.state import BLOCK_LEVELS
from referee_py.commit import NO_LOG, Record, Tag, Tree, digest, empty, fold_path
from referee_py.errors import Unavailable
from referee_py.program import Program, Structure, TensorType
from referee_py.program.modes import Form, Rounding
from referee_py.program.terms import Terms
from referee_py.rounding.blocks import BLOCK, LogTree, digest_of_block
from referee_py.rounding.entries import Log
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.e2e.brink import COUNT, MIRROR, STEPS, Y, Z, bundle
from trainer_node.run.onchain_logs import Shown

JOB = bundle(Rounding(32))
SAID = Log(COUNT, np.array([1, 4]), np.array([True, False]), np.array([7]), np.array([2.5]))


class Tampered(Tree):
    """A tree with something beyond its last leaf."""

    def __init__(self, tag: Tag, leaves: Sequence[bytes]) -> None:
        super().__init__(tag, [*leaves, digest(Tag.LEAF, b"beyond")])


@dataclass
class Withholder:
    """A trainer's logs of the tiny job: `logs` by node, the same in each step. `HasRun` for the solver."""

    logs: dict[int, Log]
    tree_of: Callable[[Tag, Sequence[bytes]], Tree] = Tree
    terms: Terms = JOB.terms

    def log_tree(self, step: int) -> Tree:  # noqa: ARG002
        nodes = range(self.terms.node_count)
        return self.tree_of(
            Tag.LOG_TREE, [LogTree(self.logs[n]).digest if n in self.logs else NO_LOG for n in nodes]
        )

    def run_log_tree(self) -> Tree:
        steps = range(1, self.terms.steps + 1)
        return Tree(Tag.LOG_RUN_TREE, [self.log_tree(step).root for step in steps])

    def log(self, step: int, node: int) -> Log | None:  # noqa: ARG002
        return self.logs.get(node)

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        raise Unavailable(f"logs alone, not run tree {level} of steps {start} to {end}")

    def step_tree(self, step: int) -> Tree:
        raise Unavailable(f"logs alone, not the tree of step {step}")

    def record(self, step: int, node: int) -> Record:
        raise Unavailable(f"logs alone, not record {node} of step {step}")

    def tensors(self, step: int, node: int) -> tuple[list[object], list[object]]:
        raise Unavailable(f"logs alone, not tensors of node {node} in step {step}")


def obtained(trainer: Withholder, program: Program = JOB.program) -> tuple[Shown, int]:
    """Return what a party obtains that requests all that is missing, and the number of rounds."""
    terms = trainer.terms
    root, answers = trainer.run_log_tree().root, dict[tuple[bytes, Place], Response]()
    for rounds in range(10):
        shown = Shown(terms, program, root, answers)
        missing = list(shown.missing())
        if not missing:
            return shown, rounds
        for place in missing:
            answer = response_of(terms, place, trainer)
            check(terms, root, place, answer)
            answers[root, place] = answer
    raise AssertionError("it never ends")


def test_what_an_honest_trainer_has_written_is_a_file_again() -> None:
    logs = {Y: SAID, Z: Log.empty(3 * COUNT), MIRROR: replace(SAID, elements=COUNT)}
    shown, rounds = obtained(Withholder(logs))
    assert rounds == 2
    files = [shown.file(shown.step(step)) for step in range(1, STEPS + 1)]
    want = StepLog({node: NodeLog.of(log, Form.SPARSE) for node, log in logs.items()})
    assert [log.encode() for log in files if log is not None] == [want.encode()] * STEPS
    step = shown.step(3)
    found = step.entries(Y, COUNT)
    assert found.narrow.tolist() == SAID.narrow.tolist()
    assert found.up.tolist() == SAID.up.tolist()
    assert (found.wide.tolist(), found.values.tolist()) == ([7], [2.5])
    assert step.digest(0) == NO_LOG
    assert step.digest(Y) == LogTree(SAID).digest


def expect_proofs(trainer: Withholder, shown: Shown) -> None:
    """Check that every digest and block can be shown again, up to the committed root."""
    root = trainer.run_log_tree().root
    run = shown.tree()
    for step in range(1, trainer.terms.steps + 1):
        log = shown.step(step)
        tree = log.tree(trainer.terms.node_count)
        assert fold_path(Tag.LOG_RUN_TREE, tree.root, step - 1, run.path(step - 1)) == root
        for node in range(trainer.terms.node_count):
            leaf = log.digest(node)
            assert fold_path(Tag.LOG_TREE, leaf, node, tree.path(node)) == tree.root
            if leaf == NO_LOG:
                continue
            opened = log.nodes[node].opened()
            assert isinstance(opened, LogTree)
            assert digest_of_block(opened.elements, 0, opened.block(0), opened.path(0)) == leaf


def test_a_log_of_another_number_of_elements_says_nothing_and_can_be_shown() -> None:
    """NOTE: too many to request all of them, with entries where nobody looks."""
    huge = Log(1 << 39, np.array([1, 1 << 38]), np.array([True, True]), np.array([7]), np.array([2.5]))
    trainer = Withholder({Y: huge})
    shown, rounds = obtained(trainer)
    assert rounds == 2
    assert shown.step(1).entries(Y, COUNT).count == 0
    assert shown.file(shown.step(1)) is None, "no file has it"
    expect_proofs(trainer, shown)


def test_a_log_may_be_of_as_many_elements_as_a_number_can_say() -> None:
    """NOTE: more than a file or any tensor may have."""
    none = np.zeros(0, np.int64)
    for elements in (1 << 40, 1 << 50, (1 << 63) - 1):
        trainer = Withholder({Y: Log(elements, np.array([3]), np.array([True]), none, np.zeros(0))})
        shown, _ = obtained(trainer)
        assert shown.step(1).entries(Y, COUNT).count == 0
        assert shown.file(shown.step(1)) is None
        expect_proofs(trainer, shown)


PAGE = BLOCK << BLOCK_LEVELS
MANY = 5 * PAGE  # elements, of eight pages with their padding


@pytest.mark.parametrize(
    ("outputs", "elements", "pages"),
    [
        ([(F32, MANY)], MANY, 8),
        ([(F32, MANY)], MANY - 1, 1),
        ([(I64, MANY)], MANY, 1),
        ([(BOOL, MANY)], MANY, 1),
        ([(F32, MANY), (I64, MANY)], MANY, 8),
        ([(F32, PAGE), (I64, MANY)], MANY, 1),
        ([(I64, PAGE), (F32, MANY)], MANY, 8),
        ([(F32, MANY), (F32, PAGE)], PAGE, 1),
    ],
)
def test_all_pages_of_what_may_be_rounded_are_requested_and_no_others(
    outputs: list[tuple[Dtype, int]], elements: int, pages: int
) -> None:
    """Logs count for f32 outputs only, whichever output that is."""
    kinds = [TensorType(dtype, (count,)) for dtype, count in outputs]
    program = Program((Structure.make("neg", [], kinds),), (), (), ())
    log = Log(elements, np.array([elements - 1]), np.array([True]), np.zeros(0, np.int64), np.zeros(0))
    terms = replace(JOB.terms, node_count=1, steps=1, strides=(1,))
    trainer = Withholder({0: log}, terms=terms)
    shown, _ = obtained(trainer, program)
    tree = shown.step(1).nodes[0].opened()
    assert isinstance(tree, LogTree)
    assert len({place.part for place in shown._pages(1, 0)}) == pages
    for kind in kinds:
        if kind.dtype is F32 and kind.count == elements:
            for block in range(kind.count // BLOCK):
                assert digest_of_block(elements, block, tree.block(block), tree.path(block)) == tree.digest


def test_what_is_beyond_the_last_node_is_not_looked_at() -> None:
    trainer = Withholder({Y: SAID}, Tampered, replace(JOB.terms, node_count=13))
    shown, _ = obtained(trainer)
    assert shown.step(1).entries(Y, COUNT).count == 3
    assert shown.file(shown.step(1)) is None
    expect_proofs(trainer, shown)


def test_blocks_beyond_the_last_element_have_no_answer() -> None:
    """They are requested, too: a trainer that has hidden something there cannot show it."""
    elements = 40 * BLOCK
    log = Log(elements, np.array([5]), np.array([True]), np.zeros(0, np.int64), np.zeros(0))
    tree = LogTree(log)
    path = [*tree.path(39)]
    hidden = digest(Tag.LOG_BLOCK, b"\0\0")
    blocks = [b""] * 7 + [b"\0\0"]
    leaves = [empty(Tag.LOG_BLOCK_TREE, 0)] * 7 + [hidden]
    node = Tree(Tag.LOG_BLOCK_TREE, leaves).root
    above = tree.page(7, 3)[1]
    root = fold_path(Tag.LOG_BLOCK_TREE, node, 7, above)
    found = digest(Tag.ROUNDING_LOG, elements.to_bytes(8, "big"), root)
    steps = Tree(Tag.LOG_TREE, [found])
    run = Tree(Tag.LOG_RUN_TREE, [steps.root])
    terms = replace(JOB.terms, node_count=1, steps=1, strides=(1,))
    step = response_of(JOB.terms, Place(Piece.BLOCKS, 1, Y), Withholder({Y: SAID}))
    assert isinstance(step, Blocks)
    shown = Blocks(
        found, (), replace(step.step, root=steps.root, path=()), elements, root, tuple(blocks), tuple(above)
    )
    with pytest.raises(Unreadable):
        check(terms, run.root, Place(Piece.BLOCKS, 1, 0, part=7), shown)
    assert len(path) == 6
