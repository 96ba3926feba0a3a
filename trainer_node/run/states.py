"""The states of a run that are kept, so that it can continue after a stop, and a dispute begins near its interval.

keep       a state on disk, with what leads from its checkpoint to the slots
nearest    the last one up to a step, on disk or held
held       where the disk has none, those from which disputes and answers have continued, in memory
lacking    the checkpoints whose states the disk has refused, to be made good (`Replay.make_good`)
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from referee_py.commit import Tag
from referee_py.errors import Unavailable
from referee_py.execute import Run, State, StepTrace

from ..errors import DiskFailed
from ..storage.artifacts import Kind, Name
from ..storage.store import Store
from .checkpoints import Checkpoint, Checkpoints

HELD_FOR_MOVES = 2
"""States held for disputes: the disputed interval's, and for its first step that of the interval before."""
HELD_FOR_ANSWERS = 1


class States:
    """``result`` is the store for what shows the final state. ``unkept`` gets what the disk has refused, and None
    for each state that it has taken."""

    def __init__(
        self,
        run: Run,
        store: Store,
        result: Store,
        checkpoints: Checkpoints,
        unkept: Callable[[DiskFailed | None], None],
    ) -> None:
        self._run, self._store, self._result = run, store, result
        self._checkpoints, self._unkept = checkpoints, unkept
        self._unrecorded: list[tuple[int, bytes | None, tuple[bytes, ...]]] = []
        """Checkpoints, with their slots, that the database has refused; later ones wait for them."""
        self._moves = deque[State](maxlen=HELD_FOR_MOVES)
        self._answers = deque[State](maxlen=HELD_FOR_ANSWERS)

    def keep(self, state: State, trace: StepTrace | None) -> bool:
        """Keep a state to continue from, with its root if the step is committed, and the data with which others that
        have the root continue without us: the step's tree, and the records of the nodes that write the slots. Return
        whether the disk has taken it all.

        INVARIANT: a checkpoint has slots only if all of that is on disk.
        """
        store, root = self._store_of(state.step), trace.root if trace is not None else None
        slots: tuple[bytes, ...] = ()
        try:
            tensors = tuple(store.put_tensor(array) for array in state.arrays)
            if trace is not None:
                store.put_tree(trace.tree)
                nodes = {source.node for source in self._run.program.slots}
                store.put_records(trace.records[node] for node in nodes)
            slots = tensors
        except DiskFailed as error:
            self._unkept(error)
        if slots or root is not None:
            self._unrecorded.append((state.step, root, slots))
        try:
            self._record()
        except DiskFailed as error:
            self._unkept(error)
        kept = len(slots) == len(self._run.program.slots) and not self._unrecorded
        if kept:
            self._unkept(None)
        return kept

    def _record(self) -> None:
        """INVARIANT: the checkpoints in the database have no gap, or a run could not continue after the last one."""
        while self._unrecorded:
            self._checkpoints.add(*self._unrecorded[0])
            del self._unrecorded[0]

    # ------------------------------------------------------------------ resuming

    def nearest(self, step: int) -> State:
        """Return the last state up to a step that is held, or kept and can be restored."""
        held = max(
            (state for state in (*self._moves, *self._answers) if state.step <= step),
            key=lambda state: state.step,
            default=self._run.initial(),
        )
        for checkpoint in sorted(self._checkpoints.all(), key=lambda known: known.step, reverse=True):
            if held.step < checkpoint.step <= step:
                with contextlib.suppress(Unavailable):
                    return self._restore(checkpoint)
        return held

    def starts(self, step: int) -> tuple[int, int]:
        """Return the steps after which what a dispute about a step may need is computed: the start of the interval
        before, and that of its own."""
        first = self._run.terms.strides[0]
        own = step // first * first
        return max(own - first, 0), own

    def hold(self, state: State, *, moves: bool) -> None:
        """Hold a state in memory that is not on disk. ``moves``: a dispute continues from it; else an answer does.

        SAFETY: what strangers request does not take the place of what a dispute has reached.
        """
        (self._moves if moves else self._answers).append(state)

    def resume(self) -> tuple[list[Checkpoint], State]:
        """Return the longest part of the run whose end can be restored. NOTE: lost steps are computed again."""
        done = list(self._checkpoints.all())
        while done:
            with contextlib.suppress(Unavailable):
                state = self._restore(done[-1])
                for checkpoint in done:
                    self._adopt(checkpoint)
                return done, state
            done.pop()
        return done, self._run.initial()

    # ------------------------------------------------------------------ what the disk has refused

    def lacking(self) -> list[tuple[int, Checkpoint]]:
        """Return each checkpoint whose state is not kept, with the step of the checkpoint before it. Raises DiskFailed.

        NOTE: it reads all checkpoints.
        """
        self._record()
        found, before = list[tuple[int, Checkpoint]](), 0
        for checkpoint in self._checkpoints.all():
            if checkpoint.root is None:
                continue
            if checkpoint.slots != len(self._run.program.slots):
                found.append((before, checkpoint))
            before = checkpoint.step
        return found

    def made_good(self) -> None:
        """Free what is held: all states are on disk."""
        self._moves.clear()
        self._answers.clear()

    @property
    def on_disk(self) -> bool:
        """True if the disk has kept all that a finished run needs to come back without computing a step."""
        try:
            done = self._checkpoints.all()
        except DiskFailed:
            return False
        if not done or done[-1].step != self._run.terms.steps:
            return False
        return done[-1].slots == len(self._run.program.slots) and not self._unrecorded

    # ------------------------------------------------------------------ inside

    def _adopt(self, checkpoint: Checkpoint) -> None:
        """Hold all that is kept of a checkpoint for this job. Raises DiskFailed.

        SAFETY: an earlier job of the same program may have computed the run, and what it held goes with it. Each
        dispute about ours would then begin at the first step.
        """
        if checkpoint.root is None or not checkpoint.slots:
            return
        program, store = self._run.program, self._store_of(checkpoint.step)
        tree = Name(Kind.TREE, checkpoint.root, Tag.STEP_TREE, len(program.nodes))
        if store.holds(tree):
            return
        records: set[bytes] = set()
        # NOTE: without its tree and records others cannot continue from it, and we can.
        with contextlib.suppress(Unavailable):
            leaves = store.get_tree(Tag.STEP_TREE, checkpoint.root, len(program.nodes)).leaves
            records = {leaves[source.node] for source in program.slots}
        tensors = (Name(Kind.TENSOR, slot) for slot in self._checkpoints.slots(checkpoint.step))
        # INVARIANT: the tree comes last, so a checkpoint whose tree is held is held whole.
        store.hold(*tensors, *(Name(Kind.RECORD, record) for record in records), tree)

    def _restore(self, checkpoint: Checkpoint) -> State:
        if checkpoint.slots != len(self._run.program.slots):
            raise Unavailable(f"the state after step {checkpoint.step} is not kept")
        slots = self._checkpoints.slots(checkpoint.step)
        for slot in slots:
            self._store_of(checkpoint.step).has(Name(Kind.TENSOR, slot))
        return self._run.restore(checkpoint.step, [self._store.get_tensor(slot) for slot in slots])

    def _store_of(self, step: int) -> Store:
        return self._result if step == self._run.terms.steps else self._store
