"""Data that a run offers to its opponent, to verifiers and to those who ask, on a disk that may refuse.

    run_tree   the tree of an interval
    step_tree  the tree of a step
    operator   the record and the tensors of a node, once
    offered    the tensors of a node that were offered
    again      the run trees that the disk has refused

``unkept`` gets what the disk has refused, and None when it keeps things again. Unless it raises, the run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from referee_py.commit import Record, Tree
from referee_py.commit.tensor import Array
from referee_py.errors import HashMismatch, Unavailable
from referee_py.trial.solver import Operator

from ..errors import DiskFailed
from ..storage.store import Store

MAX_REFUSED = 4
"""Number of nodes that are held in memory, because the disk has refused them, for the next attempt."""


class Offers:
    """The offers of one run. ``result`` is the store for what shows the final state, ``store`` for all else."""

    def __init__(self, store: Store, result: Store, unkept: Callable[[DiskFailed | None], None]) -> None:
        self._store, self._result, self._unkept = store, result, unkept
        self._trees: dict[tuple[int, int, int], tuple[Tree, Store]] = {}
        """The run trees that the disk has refused, by level, start and end, and where each belongs."""
        self._offered: dict[tuple[int, int], Record] = {}
        self._refused: dict[tuple[int, int], tuple[Record, Operator]] = {}
        """Data of nodes that the disk has refused, by step and node."""

    @property
    def complete(self) -> bool:
        """True if the disk has kept all run trees."""
        return not self._trees

    def run_tree(self, level: int, start: int, end: int, tree: Tree, *, result: bool) -> None:
        """Offer the run tree of ``(start, end]`` at a level; ``result``: whether it is that of the whole run."""
        self._run_tree((level, start, end), tree, self._result if result else self._store)

    def again(self) -> None:
        """Offer the run trees that the disk has refused."""
        for key, (tree, store) in list(self._trees.items()):
            self._run_tree(key, tree, store)

    def step_tree(self, tree: Tree) -> None:
        """Offer the tree of a step."""
        with self._keeping():
            self._store.put_tree(tree)

    def operator(self, step: int, node: int, compute: Callable[[], tuple[Record, Operator]]) -> None:
        """Offer, once, the record and the tensors of a node. What the disk refuses is computed once, too, and offered
        at the next call."""
        key = step, node
        if key in self._offered:
            return
        if key not in self._refused:
            while len(self._refused) >= MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[key] = compute()
        record, operator = self._refused[key]
        with self._keeping():
            self._store.put_record(record)
            for array in (*operator.inputs, *operator.outputs):
                self._store.put_tensor(array)
            self._offered[key] = record
            del self._refused[key]

    def offered(self, step: int, node: int) -> tuple[Sequence[Array], Sequence[Array]] | None:
        """Return the inputs and the outputs of a node that were offered, or wait in memory for a disk that keeps them.
        None if there are none, or no more: then `operator` offers them again."""
        key = step, node
        if (refused := self._refused.get(key)) is not None:
            return refused[1].inputs, refused[1].outputs
        if (record := self._offered.get(key)) is None:
            return None
        read = self._store.get_tensor
        try:
            return [read(tensor) for tensor in record.inputs], [read(tensor) for tensor in record.outputs]
        except (Unavailable, HashMismatch, DiskFailed):
            self._offered.pop(key, None)
            return None

    # ------------------------------------------------------------------ inside

    def _run_tree(self, key: tuple[int, int, int], tree: Tree, store: Store) -> None:
        self._trees[key] = tree, store
        with self._keeping():
            store.put_tree(tree)
            del self._trees[key]

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        """Report to ``unkept`` whether the disk has kept what the block writes."""
        try:
            yield
        except DiskFailed as error:
            self._unkept(error)
        else:
            self._unkept(None)
