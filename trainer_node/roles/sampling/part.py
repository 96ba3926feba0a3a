"""The run of one interval, computed from the claim's own state before it, as its refuter plays it.

claimed run tree    C_1 ... C_(k-1)  C_k  ... C_n      served by the claimants
ours                C_1 ... C_(k-1)  C'   ... C_n      one leaf replaced (docs/protocol.md, section 6)
                         │            │
                         state ─────> our steps: run trees, step trees, records, tensors
"""

from __future__ import annotations

from collections.abc import Callable

from referee_py.commit import HASH_BYTES, Hashes, Record, Tag, Tree
from referee_py.execute import State

from ...audit.interval import Auditor
from ...errors import ConfigError, DiskFailed
from ...run.checkpoints import Checkpoint
from ...run.refutation import Refuted
from ...run.replay import Replay
from ...run.turns import Turns
from ...storage.store import Store


class NoCheckpoints:
    """A run of one interval keeps no states: it is computed again from the claim's."""

    def all(self) -> list[Checkpoint]:
        return []

    def slots(self, _: int) -> tuple[bytes, ...]:
        return ()

    def add(self, step: int, _: bytes | None, __: tuple[bytes, ...]) -> None:
        raise ConfigError(f"no state of a part is kept, but one after step {step} is")


class Part(Replay):
    """The solver's ``OwnRun`` of a refuter. ``interval`` is counted from 1; ``computed`` is our checkpoint at its end.

    INVARIANT: everything up to the interval's start and beside its checkpoint is the claim's, so a match about our root
    is about this interval.
    SAFETY: what it rests on, the claim's state at its start with the records and the tree above it, is in memory, as
    `takes` counts it. When the disk refuses to keep something, which ``unkept`` is told, it continues, as in `Replay`.
    """

    def __init__(
        self,
        auditor: Auditor,
        interval: int,
        computed: bytes,
        store: Store,
        *,
        unkept: Callable[[DiskFailed | None], None] = lambda _: None,
        turns: Turns | None = None,
    ) -> None:
        claimed, kept = auditor.published, NoCheckpoints()
        super().__init__(
            *(auditor.package, auditor.backend, store, kept),
            log_source=auditor.logs,
            unkept=unkept,
            turns=turns,
        )
        self._claimed, self._first = claimed, auditor.first(interval)
        self.interval, self.computed = interval, computed
        self.start, self.end = claimed.span(interval)
        self._start_tree = claimed.step_tree(claimed.tree.leaves[interval - 2]) if self.start else None
        self._start_records = claimed.slot_records(interval - 1) if self.start else {}
        place = HASH_BYTES * (interval - 1)
        leaves = claimed.tree.packed()
        theirs = bytes(leaves[place : place + HASH_BYTES])
        leaves[place : place + HASH_BYTES] = computed
        self.tree = Tree(Tag.RUN_TREE, Hashes(bytes(leaves)))
        last = claimed.count - 1
        self.claim = Refuted(
            self.tree.root,
            self.tree.leaves[last],
            tuple(self.tree.path(last)),
            claimed.logs,
            against=claimed.root,
            index=interval - 1,
            claimed=theirs,
            computed=computed,
            siblings=tuple(self.tree.path(interval - 1)),  # one leaf differs, and none of its siblings
        )
        """The statement about the interval."""
        self._keep(0, 0, self.terms.steps, self.tree)

    def state(self, step: int) -> State:
        return self._run.advance(self._first.copy(), step)

    def step_tree(self, step: int) -> Tree:
        """Return the tree under ``C_step``; that of the interval's start is the claim's own."""
        if step == self.start and self._start_tree is not None:
            return self._start_tree
        return super().step_tree(step)

    def record(self, step: int, node: int) -> Record:
        """Return the record of a node in a step; of those at the interval's start the claim's own."""
        if step != self.start or self._start_tree is None:
            return super().record(step, node)
        if node in self._start_records:
            return self._start_records[node]
        return self._claimed.source.record(self._start_tree.leaves[node])
