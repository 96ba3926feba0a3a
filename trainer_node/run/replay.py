"""A party's own run of a job: trains it once, then executes again the parts that a dispute needs.

    train      the whole run, with a checkpoint on disk at every step of the first stride; resumes where it stopped
    run_tree   an interval again, committed at a finer stride
    step_tree  one step again, every node committed
    publish    the disputed operator's inputs and outputs, for verifiers and the opponent
    operator   the same tensors, to play a trial about the operator
    right      the operator's right record, to decide on an appeal, computed on the processor
    again      the same by a second execution on the run's own device, where the processor is too slow for that
    approach   the state before a step, one step per turn, to answer requests between the moves of disputes (`answers`)
    watch      that step once, committed, every tensor shown to a hook
    make_good  the states that the disk has refused, one step per turn (`mending`)

In mode rounded-f64 the run uses rounding logs: its own, which it writes, or the trainer's, which it follows. All
committed data are offered to others (:mod:`trainer_node.run.offers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from referee_py.adjudication import adjudicate
from referee_py.commit import NO_LOG, Record, Tree, tensor_hash
from referee_py.commit.tensor import Array, canonical
from referee_py.errors import AssayError, HashMismatch, Unavailable
from referee_py.execute import (
    Backend,
    Capture,
    Executor,
    Interpreter,
    NodeHook,
    NodeValues,
    Prepared,
    Run,
    RunClaim,
    State,
    StepTrace,
)
from referee_py.program import SlotSource
from referee_py.rounding.step_log import NodeLog, StepLog
from referee_py.trial.solver import Operator

from ..errors import DiskFailed
from ..storage.store import Store
from .checkpoints import Checkpoints
from .log_sources import RunLogs
from .modes import backend_of
from .offers import Offers
from .states import States
from .turns import Turns

MAX_TRACES = 4
"""Number of disputed steps whose traces are kept: a dispute needs one step and the step before it."""


class Interrupted(AssayError):
    """The run was asked to stop; its finished steps are on disk."""


class Measured(Executor, Protocol):
    """An executor that has the metrics of its last step."""

    @property
    def latest(self) -> Mapping[str, Array]: ...


def _raise(error: DiskFailed | None) -> None:
    if error is not None:
        raise error


class Replay:
    """The solver's ``OwnRun``. ``backend`` uses the logs of ``log_source``, if there is one. ``latest`` has the
    ``metrics`` of the step that was computed last; it is empty in a run with an executor of its own. ``now`` is the
    state that `train` has reached, to be read in ``on_step``.

    ``result`` is the store for what shows the final state, ``store`` if it is None.
    ``unkept`` gets what the disk has refused, and None when it keeps things again; by default it raises. A run whose
    ``unkept`` returns continues without keeping its states and without offering its data. SAFETY: so it can be finished
    and defended on a full disk: what the opponent cannot fetch is shown on the chain, from memory.

    ``executor`` computes the steps, and has their metrics, in place of the one that suits the backend.

    ``turns`` say who computes when: what a dispute asks for is a move, and may be asked in any thread.
    """

    def __init__(
        self,
        package: Prepared,
        backend: Backend,
        store: Store,
        checkpoints: Checkpoints,
        *,
        log_source: RunLogs | None = None,
        metrics: Mapping[str, SlotSource] | None = None,
        result: Store | None = None,
        unkept: Callable[[DiskFailed | None], None] = _raise,
        executor: Measured | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.program, self.terms = package.program, package.terms
        self.turns = turns or Turns()
        self._package = package
        self._backend = backend
        self._run = Run.of(package, backend, executor=executor or self._executor(), metrics=metrics)
        self.latest = self._run.latest if executor is None else executor.latest
        self.now = self._run.initial()
        self._store = store
        result = store if result is None else result
        self._offers = Offers(store, result, unkept)
        self._states = States(self._run, store, result, checkpoints, unkept)
        self._log_source = log_source
        self._trees: dict[tuple[int, int, int], Tree] = {}
        self._traces: dict[int, StepTrace] = {}

    def _executor(self) -> Executor | None:
        """Return the executor of the run; None selects the executor that suits the backend."""
        return None

    def _values(self, state: State, node: int) -> NodeValues:
        """Return the tensors of a node in the step after ``state``."""
        capture = Capture(node)
        package = self._package
        interpreter = Interpreter(self.program, package.constants, self._backend, capture)
        interpreter.step(state, False)
        return capture.found[node]

    @property
    def on_disk(self) -> bool:
        """True if the disk has kept all that a finished run needs to come back without computing a step."""
        return self._states.on_disk and self._offers.complete

    # ------------------------------------------------------------------ training

    def train(
        self,
        on_step: Callable[[int], None] = lambda _: None,
        stop: Callable[[], bool] = bool,
        due: Callable[[], bool] = bool,
    ) -> RunClaim:
        """Return the claim. After each step, call ``on_step`` with its number; then ``due``, which returns whether to
        keep the state though the step is not a checkpoint; then ``stop``, which returns whether to stop.

        Raises Interrupted when asked to stop; the state is kept. INVARIANT: a checkpoint is recorded after its tensors
        are on disk, and after ``on_step`` has returned. So after a crash at any moment, the run resumes at the last
        recorded checkpoint and gives the identical root, and the caller knows every step up to there. The logs up to
        that checkpoint are on disk, too. Later logs are followed if they are on disk, and written if not.
        """

        def after(state: State, trace: StepTrace | None) -> None:
            self.now = state
            on_step(state.step)
            keep, stopping = due(), stop() and state.step < self.terms.steps
            if trace is not None or keep or stopping:
                self._keep_logs()
                self._states.keep(state, trace)
            if stopping:
                raise Interrupted(f"stopped after step {state.step} of {self.terms.steps}")

        done, state = self._states.resume()
        interval = self._run.commit_interval(
            state,
            self.terms.steps,
            self.terms.strides[0],
            start=0,
            done=[checkpoint.root for checkpoint in done if checkpoint.root is not None],
            on_step=after,
        )
        self._keep(0, 0, self.terms.steps, interval.tree)
        return replace(interval.claim(), logs=self._publish_logs())

    def make_good(self, stop: Callable[[], bool]) -> bool:
        """Compute and keep the states that the disk has refused, one step per turn; return whether all are kept now. It
        ends at the first that is refused again. Raises DiskFailed, and Interrupted if told to stop."""
        state: State | None = None
        for before, checkpoint in self._states.lacking():
            if state is None or state.step != before:
                with self.turns.answer():
                    state = self._states.nearest(checkpoint.step - 1)
            state = self._walk(state, checkpoint.step - 1, stop)
            with self.turns.answer():
                state, trace = self._run.commit_step(state)
                if trace.root != checkpoint.root:
                    raise HashMismatch(
                        f"step {checkpoint.step} is {trace.root.hex()} when it is computed again, and was "
                        f"{checkpoint.root.hex() if checkpoint.root else None}: check this machine"
                    )
                if not self._states.keep(state, trace):
                    return False
        with self.turns.answer():
            self._states.made_good()
            self._offers.again()
        return True

    def state(self, step: int) -> State:
        """Return the state after a step, computed from the nearest known state up to it.

        NOTE: where the disk has none of this interval, the states at its start and at that of the one before are held,
        so that no other part of the dispute computes more than an interval.
        """
        state = self._states.nearest(step)
        for start in self._states.starts(step):
            if state.step < start:
                state = self._run.advance(state, start)
                self._states.hold(state, moves=True)
        return self._run.advance(state, step)

    # ------------------------------------------------------------------ what the dispute asks for (OwnRun)

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        """Return the run tree of ``(start, end]`` at the stride of that level; the first call executes the interval."""
        key = (level, start, end)
        with self.turns.move():
            if key not in self._trees:
                stride = self.terms.strides[level]
                # NOTE: at the last stride every step is committed, so we serve each step's tree before anybody
                # descends.
                keep = self._keep_step if stride == 1 else None
                interval = self._run.commit_interval(self.state(start), end, stride, on_step=keep)
                self._keep(*key, interval.tree)
            self._offers.again()
            return self._trees[key]

    def step_tree(self, step: int) -> Tree:
        """Return the tree under ``C_step``."""
        return self._step(step).tree

    def record(self, step: int, node: int) -> Record:
        """Return the record of a node in a step."""
        return self._step(step).records[node]

    def log_tree(self, step: int) -> Tree | None:
        """Return the tree over the digests of a step's rounding logs; None in a mode without them."""
        with self.turns.move():
            log = self._log_source.get(step) if self._log_source else None
        return log.tree(self.terms.node_count) if log else None

    def run_log_tree(self) -> Tree | None:
        """Return the tree over the roots of all step logs; None in a mode without them."""
        return self._log_source.tree if self._log_source else None

    def publish(self, step: int, node: int) -> None:
        """Offer, once, the record and the tensors of a node, which a verifier and an opponent in a trial need. What the
        disk refuses is computed once, too, and offered at the next call.

        NOTE: the logs of all steps have been offered since the end of the run.
        """
        self._offers.operator(step, node, lambda: (self.record(step, node), self.operator(step, node)))

    def operator(self, step: int, node: int) -> Operator:
        """Return the inputs and outputs of a node in a step, as this run computes them, with its log.

        NOTE: what was published is read again. So many trials at once take an interval each, and not one a move.
        """
        kept = self._offers.offered(step, node)
        inputs, outputs = self._tensors(step, node) if kept is None else kept
        with self.turns.move():
            log = self._log(step, node)
        return Operator(inputs, outputs, log.opened() if log else None)

    def _tensors(self, step: int, node: int) -> tuple[list[Array], list[Array]]:
        """Return the inputs and outputs of a node in a step, computed once more."""
        with self.turns.move():
            found = self._values(self.state(step - 1), node)
        return [*map(canonical, found.inputs)], [*map(canonical, found.outputs)]

    def right(self, step: int, node: int) -> Record:
        """Return the right record of a node: execute the operator once more, on the CPU, from our own inputs.

        NOTE: an appeal costs a bond, so it should not rely on the result of a device that may be faulty.
        """
        own = self.record(step, node)
        structure, inputs = self.program.nodes[node], self.operator(step, node).inputs
        backend = backend_of("cpu", self.terms.mode)
        with self.turns.move():
            log = self._log(step, node)
        return adjudicate(structure, own, inputs, backend, self.terms.mode, log)

    def again(self, step: int, node: int) -> Record | None:
        """Return our record of a node if a second execution on the run's own device gives it, too; None if it does not.

        NOTE: a device that is always wrong gives the same twice. It shows those that fail now and then.
        """
        own, (_, outputs) = self.record(step, node), self._tensors(step, node)
        return own if tuple(map(tensor_hash, outputs)) == own.outputs else None

    def _log(self, step: int, node: int) -> NodeLog | None:
        """Return the rounding log that the run uses for a node in a step; None if there is none."""
        log = self._log_source.get(step) if self._log_source else None
        return log.nodes.get(node) if log else None

    # ------------------------------------------------------------------ what a request asks for

    def approach(self, step: int, stop: Callable[[], bool]) -> State:
        """Return the state before a step, computed one step per turn. Raises Interrupted if told to stop."""
        with self.turns.answer():
            state, (_, start) = self._states.nearest(step - 1), self._states.starts(step - 1)
        if state.step < start:
            state = self._walk(state, start, stop)
            with self.turns.answer():
                self._states.hold(state, moves=False)
        return self._walk(state, step - 1, stop)

    def _walk(self, kept: State, step: int, stop: Callable[[], bool]) -> State:
        """Return the state after a step, computed from ``kept``, one step per turn. Raises Interrupted."""
        state = kept
        while state.step < step:
            if stop():
                raise Interrupted(f"told to stop before step {state.step + 1}")
            with self.turns.answer():
                if state is not kept:
                    state.offer()
                state = self._run.advance(state, state.step + 1)
        return state

    def watch(self, before: State, hook: NodeHook) -> StepTrace:
        """Compute the step after a state once more, and return its records; ``hook`` sees the tensors of each node."""
        with self.turns.answer():
            return self._watched(before, hook)

    def _watched(self, before: State, hook: NodeHook) -> StepTrace:
        interpreter = Interpreter(self.program, self._package.constants, self._backend, hook)
        trace = interpreter.step(before, True)[1]
        assert trace is not None
        return trace

    def step_log(self, step: int) -> tuple[Tree, Tree, StepLog]:
        """Return the trees over the logs of all steps and of a step, and the logs of the step. Raises Unavailable."""
        with self.turns.answer():
            log = self._log_source.get(step) if self._log_source else None
            if log is None or self._log_source is None:
                raise Unavailable(f"the rounding logs of step {step} are not here")
            return self._log_source.tree, log.tree(self.terms.node_count), log

    # ------------------------------------------------------------------ what a case shows of the program

    def structure(self, node: int) -> bytes:
        return self.program.nodes[node].encode()

    def structure_path(self, node: int) -> list[bytes]:
        return self.program.structure_path(node)

    def slot_source(self, slot: int) -> tuple[int, int]:
        source = self.program.slots[slot]
        return source.node, source.output

    def slot_path(self, slot: int) -> list[bytes]:
        return self.program.slot_path(slot)

    def constant_hash(self, constant: int) -> bytes:
        return self.program.constants[constant].hash

    def constant_path(self, constant: int) -> list[bytes]:
        return self.program.constant_path(constant)

    def initial_hash(self, slot: int) -> bytes:
        return self.program.initial[slot].hash

    def initial_path(self, slot: int) -> list[bytes]:
        return self.program.initial_path(slot)

    # ------------------------------------------------------------------ inside

    def _step(self, step: int) -> StepTrace:
        with self.turns.move():
            if step not in self._traces:
                self._keep_step(*self._run.commit_step(self.state(step - 1)))
            return self._traces[step]

    def _keep_step(self, state: State, trace: StepTrace | None) -> None:
        """Offer a step's tree, and keep the last `MAX_TRACES` traces."""
        assert trace is not None
        while len(self._traces) >= MAX_TRACES:
            del self._traces[next(iter(self._traces))]
        self._offers.step_tree(trace.tree)
        self._traces[state.step] = trace

    def _publish_logs(self) -> bytes:
        """Offer the logs of all steps, and return the root over them; zero in a mode without logs."""
        if self._log_source is None:
            return NO_LOG
        state: State | None = None
        for step in self._log_source.missing():  # NOTE: logs that the disk has lost are written again
            if state is None or not 0 <= step - 1 - state.step < self.terms.strides[0]:
                state = self.state(step - 1)
            state = self._run.advance(state, step)
        self._keep_logs()
        return self._log_source.publish(self._store)

    def _keep_logs(self) -> None:
        if self._log_source is not None:
            self._log_source.keep()

    def _keep(self, level: int, start: int, end: int, tree: Tree) -> None:
        self._trees[level, start, end] = tree
        whole = (level, start, end) == (0, 0, self.terms.steps)
        self._offers.run_tree(level, start, end, tree, result=whole)
