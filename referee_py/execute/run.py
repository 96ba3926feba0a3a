"""A whole run: advance, commit to intervals at a stride, resume, claim (docs/protocol.md, section 5).

    interval (a, b] at stride s:   leaf k = C_min(a + (k+1) s, b)

Only checkpointed steps are hashed. A run may stop after any step, and resume from any state that was passed to
`on_step`, together with the checkpoints found so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..commit import NO_LOG, Tag, Tree
from ..commit.tensor import Array
from ..errors import InvalidInput
from ..program import Program, SlotSource, TensorType
from ..program.terms import Terms
from .backends import Backend, machine_for, mode_byte
from .fast import FastExecutor
from .hooks import Capture, Chain, Metrics, NodeValues
from .interpreter import Executor, Interpreter, NodeHook, StepTrace
from .values import State, Value

OnStep = Callable[[State, StepTrace | None], None]
"""Called after each step. NOTE: the next state may take its state's memory; keep a `copy()`, not the state."""


@dataclass(frozen=True)
class RunClaim:
    """A trainer's claim: the run root, and `C_n` with the path that proves it is the last leaf.

    `logs` is the root of the run's rounding logs; zero in a mode without them.
    """

    root: bytes
    last: bytes
    path: tuple[bytes, ...]
    logs: bytes = NO_LOG


@dataclass(frozen=True)
class Interval:
    """A committed interval `(start, end]`: its checkpoints at `stride`, and the requested states."""

    start: int
    end: int
    stride: int
    checkpoints: tuple[bytes, ...]
    snapshots: dict[int, State] = field(default_factory=dict, repr=False)

    @cached_property
    def tree(self) -> Tree:
        return Tree(Tag.RUN_TREE, self.checkpoints)

    @property
    def root(self) -> bytes:
        return self.tree.root

    def claim(self) -> RunClaim:
        last = len(self.checkpoints) - 1
        return RunClaim(self.root, self.checkpoints[last], tuple(self.tree.path(last)))


def checkpoint_steps(start: int, end: int, stride: int) -> list[int]:
    """Return the steps whose checkpoints are the leaves of this interval's run tree. Raises InvalidInput for none."""
    _check_interval(start, end, stride)
    return [min(step, end) for step in range(start + stride, end + stride, stride)]


def _check_interval(start: int, end: int, stride: int) -> None:
    if not 0 <= start < end or stride < 1:
        raise InvalidInput(f"no interval ({start}, {end}] at stride {stride}; it must hold a step")


def executor_for(
    program: Program, constants: Sequence[Array], backend: Backend, hook: NodeHook | None = None
) -> Executor:
    """Return the fastest honest executor: compiled, but node by node with a hook or for the readable reference."""
    machine = machine_for(backend) if hook is None else None
    if machine is None:
        return Interpreter(program, constants, backend, hook)
    return FastExecutor(program, constants, backend, machine=machine)


def _measuring(
    program: Program,
    constants: Sequence[Array],
    backend: Backend,
    hook: NodeHook | None,
    metrics: Mapping[str, SlotSource],
) -> tuple[Executor, Mapping[str, Array]]:
    """Return the executor of `executor_for`, and the metrics of the last step that it has run."""
    machine = machine_for(backend) if hook is None else None
    if machine is not None:
        fast = FastExecutor(program, constants, backend, metrics, machine)
        return fast, fast.latest
    watched = Metrics(metrics)
    hooks = watched if hook is None else Chain(hook, watched)
    return Interpreter(program, constants, backend, hooks), watched.latest


class Prepared(Protocol):
    """A program with its terms, and all its tensors in memory."""

    @property
    def terms(self) -> Terms: ...
    @property
    def program(self) -> Program: ...
    @property
    def constants(self) -> Sequence[Array]: ...
    @property
    def initial(self) -> Sequence[Array]: ...


class Run:
    """One party's execution of a job. All tensors are checked against the program before anything runs.

    `executor` replaces the way a step is computed; the default is the fastest honest one. A `hook` sees every node, so
    every step then runs node by node. `latest` has the `metrics` of the last step; it stays empty with an `executor` of
    the caller's.
    """

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        initial: Sequence[Array],
        steps: int,
        strides: Sequence[int],
        backend: Backend,
        *,
        hook: NodeHook | None = None,
        executor: Executor | None = None,
        metrics: Mapping[str, SlotSource] | None = None,
    ) -> None:
        program.check_tensors(constants, initial)
        self.program = program
        self.terms = Terms.of(program, steps, strides, mode_byte(backend))
        self.latest: Mapping[str, Array] = {}
        if executor is None and metrics:
            executor, self.latest = _measuring(program, constants, backend, hook, metrics)
        self.executor = executor or executor_for(program, constants, backend, hook)
        self._constants = constants
        self._backend = backend
        described = zip(initial, program.initial, strict=True)
        self._initial = State(0, tuple(Value(array, descriptor.hash) for array, descriptor in described))

    @classmethod
    def of(
        cls,
        job: Prepared,
        backend: Backend,
        *,
        hook: NodeHook | None = None,
        executor: Executor | None = None,
        metrics: Mapping[str, SlotSource] | None = None,
    ) -> Run:
        """Return the run of all steps that the terms of a job name."""
        tensors, terms = (job.program, job.constants, job.initial), job.terms
        options: dict[str, Any] = {"hook": hook, "executor": executor, "metrics": metrics}
        return cls(*tensors, terms.steps, terms.strides, backend, **options)

    def initial(self) -> State:
        return self._initial

    def prepare(self) -> None:
        """Compile plain steps, if they are compiled, which the first one does otherwise."""
        if isinstance(self.executor, FastExecutor):
            _ = self.executor.compiled

    def restore(self, step: int, arrays: Sequence[Array]) -> State:
        """Return a state from stored slots. Raises InvalidInput if the step, number, dtypes or shapes do not fit."""
        state = State.of(step, arrays)
        types = [TensorType.of(array) for array in arrays]
        if types != [tensor.type for tensor in self.program.initial] or not 0 <= step <= self.terms.steps:
            raise InvalidInput(
                f"a snapshot of step {step} that does not fit the program; restore an older one"
            )
        return state

    def advance(self, state: State, step: int, on_step: OnStep | None = None) -> State:
        """Return the state after `step`, without a commitment."""
        self._check_reach(state, step)
        given = state
        while state.step < step:
            if state is not given:
                state.offer()
            state = self._step(state, False, on_step)[0]
        return state

    def commit_step(self, state: State) -> tuple[State, StepTrace]:
        """Return the state after the next step, and its trace."""
        self._check_reach(state, state.step + 1)
        after, trace = self.executor.step(state, True)
        assert trace is not None
        return after, trace

    def commit_interval(
        self,
        state: State,
        end: int,
        stride: int,
        *,
        start: int | None = None,
        done: Sequence[bytes] = (),
        snapshots: Sequence[int] = (),
        on_step: OnStep | None = None,
    ) -> Interval:
        """Commit to `(start, end]` at `stride`, keeping the states after the steps in `snapshots`.

        `start` is `state.step`, unless the interval is resumed: then `done` are its checkpoints up to `state`.
        Any exception from `on_step` stops the run after that step.
        """
        self._check_reach(state, end)
        start = state.step if start is None else start
        _check_interval(start, end, stride)
        # NOTE: no list of the steps, of which there may be a million for strangers to choose.
        before = -(-(end - start) // stride) if state.step == end else (state.step - start) // stride
        if len(done) != before or state.step < start:
            raise InvalidInput(
                f"{len(done)} checkpoints are known for ({start}, {end}] at stride {stride}, but the state is "
                f"after step {state.step}; resume from the state that belongs to them"
            )
        checkpoints, wanted = list(done), set(snapshots)
        kept = {state.step: state} if state.step in wanted else {}
        given = state
        while state.step < end:
            if state is not given and state.step not in kept:
                state.offer()
            after = state.step + 1
            state, trace = self._step(state, after == end or (after - start) % stride == 0, on_step)
            if trace is not None:
                checkpoints.append(trace.root)
            if state.step in wanted:
                kept[state.step] = state
        return Interval(start, end, stride, tuple(checkpoints), kept)

    def commit_run(self, on_step: OnStep | None = None) -> Interval:
        """Commit to the whole run at the first stride, the interval of the claim."""
        return self.commit_interval(self._initial, self.terms.steps, self.terms.strides[0], on_step=on_step)

    def node_values(self, state: State, *nodes: int) -> dict[int, NodeValues]:
        """Return the tensors of some nodes in step `state.step + 1`, honestly executed, as a verifier receives them."""
        capture = Capture(*nodes)
        Interpreter(self.program, self._constants, self._backend, capture).step(state, False)
        return capture.found

    def _step(self, state: State, commit: bool, on_step: OnStep | None) -> tuple[State, StepTrace | None]:
        after, trace = self.executor.step(state, commit)
        if on_step:
            on_step(after, trace)
        return after, trace

    def _check_reach(self, state: State, step: int) -> None:
        if not state.step <= step <= self.terms.steps:
            raise InvalidInput(
                f"step {step} cannot be reached from step {state.step} in a run of {self.terms.steps} steps"
            )
