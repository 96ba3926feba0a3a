"""Rounding logs of another trainer's run, assembled from what was shown on the chain (docs/protocol.md, section 8).

    missing   what must still be requested: all digests of all steps, then all pages of every log
    step      the logs of a step, once nothing is missing; tree: the roots of all steps

SAFETY: the contract has checked that each piece is in its place, and nothing else. So nothing else in a tree is relied
on: digests and paths are taken as shown, and never computed from the content of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from referee_py.availability import Blocks, Digests, Piece, Place, Response
from referee_py.availability.pieces import page_levels
from referee_py.availability.state import BLOCK_LEVELS, DIGEST_LEVELS
from referee_py.commit import HASH_BYTES, NO_LOG, Tag, Tree, depth_of, digest, empty
from referee_py.params import ANSWER_GAS, BYTE_GAS
from referee_py.program import Program
from referee_py.program.modes import Form
from referee_py.program.terms import Terms
from referee_py.rounding.blocks import BLOCK, LogTree, block_count, entries_of
from referee_py.rounding.entries import MAX_LOG_ELEMENTS, WRITTEN, Log, values_of
from referee_py.rounding.primitives import UP
from referee_py.rounding.step_log import NodeLog, StepLog

Answers = Mapping[tuple[bytes, Place], Response]


@dataclass(frozen=True)
class OnchainLog(NodeLog):
    """A log whose digest was shown, with its content."""

    shown: bytes
    log: Log
    pages: tuple[Blocks, ...]

    def __post_init__(self) -> None:
        """Skip the limit of files. NOTE: a log's author chooses its number of elements, up to 2^64."""

    @property
    def digest(self) -> bytes:
        return self.shown

    def opened(self) -> LogTree:
        return OnchainLogTree(self.log, self.pages)

    def read(self) -> Log:
        return self.log

    def entries(self, elements: int) -> Log:
        return self.log if self.elements == elements else Log.empty(elements)


class OnchainLogTree(LogTree):
    """The blocks of a log that were shown, with the path up from each."""

    def __init__(self, log: Log, pages: Sequence[Blocks]) -> None:
        super().__init__(log)
        self._pages = pages
        self._trees: dict[int, Tree] = {}
        """By page, the tree over its blocks; made once a path is asked for."""

    def block(self, index: int) -> bytes:
        page, place = self._find(index)
        return page.blocks[place]

    def path(self, index: int) -> list[bytes]:
        page, place = self._find(index)
        number = index // len(page.blocks)
        if number not in self._trees:
            none = empty(Tag.LOG_BLOCK_TREE, 0)
            leaves = [digest(Tag.LOG_BLOCK, block) if block else none for block in page.blocks]
            self._trees[number] = Tree(Tag.LOG_BLOCK_TREE, leaves)
        return [*self._trees[number].path(place), *page.path]

    def _find(self, index: int) -> tuple[Blocks, int]:
        page, place = divmod(index, len(self._pages[0].blocks))
        return self._pages[page], place


class OnchainTree(Tree):
    """A tree of which only some leaves are known. ``path_of`` returns the path up from each."""

    def __init__(
        self, tag: Tag, root: bytes, leaves: Sequence[bytes], path_of: Callable[[int], Sequence[bytes]]
    ) -> None:
        super().__init__(tag, leaves)
        self._root, self._path_of = root, path_of

    @property
    def root(self) -> bytes:
        return self._root

    def path(self, index: int, height: int = 0, top: int | None = None) -> list[bytes]:
        return list(self._path_of(index))[height:top]


@dataclass(frozen=True)
class OnchainStepLog(StepLog):
    """The logs of a step, with the tree in which their digests were shown."""

    shown: OnchainTree = field(kw_only=True)

    def tree(self, node_count: int) -> Tree:  # noqa: ARG002
        return self.shown


class Shown:
    """Everything known of a run's logs from a job's answers. ``logs`` is their root."""

    def __init__(self, terms: Terms, program: Program, logs: bytes, answers: Answers) -> None:
        self._terms, self._program, self._logs, self._answers = terms, program, logs, answers
        depth = depth_of(terms.node_count)
        self._levels = page_levels(depth, DIGEST_LEVELS)

    def missing(self) -> Iterator[Place]:
        """Yield the places to request next, as far as known; none if all logs are complete.

        SAFETY: a run may have steps and pages without number, all of them missing. Take only as many as are requested.
        """
        return (place for place in self._needed() if (self._logs, place) not in self._answers)

    def least_gas(self) -> int:
        """Return the gas that is paid at least for the pages of digests that are missing, blocks not counted."""
        pages = self._terms.steps * self._pages_of_digests
        shown = sum(root == self._logs and place.piece is Piece.DIGESTS for root, place in self._answers)
        return (pages - shown) * (ANSWER_GAS + BYTE_GAS * (HASH_BYTES << self._levels))

    def step(self, step: int) -> OnchainStepLog:
        """Return the logs of a step. NOTE: only once nothing is missing. It takes two hashes for each digest that was
        shown, and reads every block, so whoever asks keeps it."""
        pages = [self._digests(step, page) for page in range(self._pages_of_digests)]
        trees = [Tree(Tag.LOG_TREE, page.digests) for page in pages]

        def path_of(node: int) -> list[bytes]:
            page, place = divmod(node, 1 << self._levels)
            return [*trees[page].path(place), *pages[page].path]

        leaves = [found for page in pages for found in page.digests][: self._terms.node_count]
        nodes = {node: self._log(step, node, found) for node, found in enumerate(leaves) if found != NO_LOG}
        return OnchainStepLog(nodes, shown=OnchainTree(Tag.LOG_TREE, pages[0].step.root, leaves, path_of))

    def file(self, step: OnchainStepLog) -> StepLog | None:
        """Return a step's logs as they are served as a file; None if they have not the form of an honest trainer's."""
        if any(log.elements >= MAX_LOG_ELEMENTS for log in step.nodes.values()):
            return None
        plain = StepLog({node: NodeLog.of(log.read(), Form.SPARSE) for node, log in step.nodes.items()})
        return plain if plain.root(self._terms.node_count) == step.shown.root else None

    def tree(self) -> OnchainTree:
        """Return the tree over the roots of the steps."""
        proofs = [self._digests(step, 0).step for step in range(1, self._terms.steps + 1)]
        leaves = [proof.root for proof in proofs]
        return OnchainTree(Tag.LOG_RUN_TREE, self._logs, leaves, lambda number: proofs[number].path)

    # ------------------------------------------------------------------ inside

    @property
    def _pages_of_digests(self) -> int:
        return -(-self._terms.node_count >> self._levels) or 1

    def _needed(self) -> Iterator[Place]:
        for step in range(1, self._terms.steps + 1):
            for page in range(self._pages_of_digests):
                place = Place(Piece.DIGESTS, step, page)
                yield place
                answer = self._answers.get((self._logs, place))
                for k, found in enumerate(answer.digests if isinstance(answer, Digests) else ()):
                    node = (page << self._levels) + k
                    if found != NO_LOG and node < self._terms.node_count:
                        yield from self._pages(step, node)

    def _pages(self, step: int, node: int) -> Iterator[Place]:
        """Yield all pages of a log, including the padding of its tree, whose blocks must be empty. If no f32 output of
        the node has the log's number of elements, only the path to its first block counts.

        INVARIANT: no move can need more: `trial.rules` asks for an element's block where the output is f32 and has the
        log's elements, for the first block of any other log of an f32 output, and else for none."""
        answer = self._answers.get((self._logs, Place(Piece.BLOCKS, step, node)))
        outputs = self._program.nodes[node].outputs
        counts = {kind.count for kind in outputs if kind.dtype.is_float}
        elements = answer.elements if isinstance(answer, Blocks) else max(counts, default=0)
        depth = depth_of(block_count(elements)) if elements in counts else 0
        pages = 1 << (depth - page_levels(depth, BLOCK_LEVELS))
        yield from (Place(Piece.BLOCKS, step, node, part=part) for part in range(pages))

    def _digests(self, step: int, page: int) -> Digests:
        answer = self._answers[self._logs, Place(Piece.DIGESTS, step, page)]
        assert isinstance(answer, Digests)
        return answer

    def _log(self, step: int, node: int, found: bytes) -> OnchainLog:
        pages = []
        for place in self._pages(step, node):
            answer = self._answers[self._logs, place]
            assert isinstance(answer, Blocks)
            pages.append(answer)
        elements = pages[0].elements
        blocks = [block for page in pages for block in page.blocks]
        return OnchainLog(Form.SPARSE, elements, b"", found, _read(elements, blocks), tuple(pages))


def _read(elements: int, blocks: Sequence[bytes]) -> Log:
    """Return the log that the blocks contain; the contract has read them the same way."""
    narrow: list[tuple[int, bool]] = []
    wide: list[tuple[int, int]] = []
    for number, block in enumerate(blocks):
        for place, (kind, bits) in (entries_of(block, BLOCK) or {}).items():
            position = number * BLOCK + place
            if kind == WRITTEN:
                wide.append((position, bits))
            else:
                narrow.append((position, kind == UP))
    return Log(
        elements,
        np.array([position for position, _ in narrow], np.int64),
        np.array([up for _, up in narrow], np.bool_),
        np.array([position for position, _ in wide], np.int64),
        values_of(np.array([bits for _, bits in wide], np.uint32)),
    )
