"""Random schedules of plain, committed, offered, held, copied and repeated steps: an executor against the interpreter.

Everything taken from a state on the way (the state, its arrays, numpy views of them, copies, its values in another
state, metrics) is checked repeatedly until the end: it has the interpreter's bits, or raises an error that it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import Backend, Capture, Executor, Interpreter, Run, State, Value
from referee_py.program import Program, SlotSource

STEPS = 6


class Made(Protocol):
    """A program and its data."""

    @property
    def program(self) -> Program: ...
    @property
    def constants(self) -> Sequence[Array]: ...
    @property
    def initial(self) -> Sequence[Array]: ...


class Truth:
    """The interpreter's results after each step, in memory that nothing else shares."""

    def __init__(self, made: Made, backend: Backend, watched: Sequence[SlotSource] = ()) -> None:
        self.made, self.backend = made, backend
        capture = Capture(*(source.node for source in watched))
        interpreter = Interpreter(made.program, made.constants, backend, capture)
        state = State.of(0, [array.copy() for array in made.initial])
        self.arrays = [[array.copy() for array in made.initial]]
        self.roots = [b""]
        self.watched: list[list[bytes]] = [[]]
        for _ in range(STEPS):
            state, trace = interpreter.step(state, True)
            assert trace is not None
            self.arrays.append([array.copy() for array in state.arrays])
            self.roots.append(trace.root)
            found = [capture.found[source.node].outputs[source.output] for source in watched]
            self.watched.append([tensor_hash(array) for array in found])
        self.hashes = [[tensor_hash(array) for array in arrays] for arrays in self.arrays]

    def is_state(self, step: int, arrays: Sequence[Array]) -> bool:
        """Return whether these are the slots after this step. NOTE: all NaNs are equal, which only a hash knows."""
        return all(
            (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
            and (array.tobytes() == wanted.tobytes() or tensor_hash(array) == known)
            for array, wanted, known in zip(arrays, self.arrays[step], self.hashes[step], strict=True)
        )


class Held(NamedTuple):
    """A state, and the state that gave it its values. It may be gone only if one of them was offered."""

    state: State
    origin: State

    @property
    def may_be_gone(self) -> bool:
        return self.state.offered or self.origin.offered


@dataclass
class Play:
    """One executor under one random schedule. `steps`, `looks` and `wrong` count steps, checks, and failed checks."""

    truth: Truth
    executor: Executor
    seed: int
    metrics: dict[str, int] = field(default_factory=dict)
    """Names of the executor's metrics, with the indices of the truth's watched outputs."""
    steps: int = 0
    looks: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        self._draw = np.random.default_rng((self.seed, 15))
        self._states: list[Held] = []
        self._views: list[tuple[Array, bytes]] = []

    def run(self, moves: int = 10) -> Play:
        """Run the schedule. NOTE: the first state's arrays are the caller's own, and must not be written to either."""
        held = self._fresh(0)
        for _ in range(moves):
            held = self._next(held)
            if self._chance(0.3):
                self._look_at_all()
        self._interval()
        self._look_at_all()
        return self

    def _chance(self, share: float) -> bool:
        return bool(self._draw.random() < share)

    def _fresh(self, step: int) -> Held:
        """Return a state restored from a copy of the truth."""
        arrays = [array.copy() for array in self.truth.arrays[step]]
        self._keep_arrays(arrays)
        state = State.of(step, arrays)
        return Held(state, state)

    def _next(self, held: Held) -> Held:
        state, origin = held
        if state.step == STEPS or self._chance(0.08):
            state, origin = self._elsewhere()
        if self._chance(0.25):
            self._keep_arrays(state.arrays)
        if self._chance(0.15):
            copied = state.copy()
            self._states.append(Held(copied, copied))
        if self._chance(0.15):
            self._states.append(Held(State(state.step, state.values), origin))
        if self._chance(0.1):
            slot = int(self._draw.integers(len(state.values)))
            state = state.replace(slot, Value(self.truth.arrays[state.step][slot].copy()))
        if self._chance(0.35):
            self._states.append(Held(state, origin))
        if self._chance(0.6):
            state.offer()
        after = self._step(state, self._chance(0.35))
        self._check(after)
        return Held(after, after)

    def _step(self, state: State, commit: bool) -> State:
        after, trace = self.executor.step(state, commit)
        self.steps += 1
        self._count((trace is not None) == commit)
        self._count(after.step == state.step + 1)
        if trace is not None:
            self._count(trace.root == self.truth.roots[after.step])
        for name, place in self.metrics.items():
            found = self.executor.latest[name]  # type: ignore[attr-defined]
            self._count(tensor_hash(found) == self.truth.watched[after.step][place])
            self._views.append((found, found.tobytes()))
        return after

    def _elsewhere(self) -> Held:
        """Return a kept state that must still be there, or a restored one."""
        kept = [held for held in self._states if not held.may_be_gone and held.state.step < STEPS]
        if kept and self._chance(0.7):
            return kept[int(self._draw.integers(len(kept)))]
        return self._fresh(int(self._draw.integers(STEPS)))

    def _interval(self) -> None:
        """Commit to an interval like a trainer: checkpoints at a stride, some states kept."""
        made, first = self.truth.made, int(self._draw.integers(0, STEPS - 1))
        run = Run(
            made.program,
            made.constants,
            made.initial,
            STEPS,
            (2, 1),
            self.truth.backend,
            executor=self.executor,
        )
        stride, wanted = (
            int(self._draw.integers(1, 4)),
            [k for k in range(first, STEPS + 1) if self._chance(0.4)],
        )
        state = run.advance(self._fresh(0).state, first)
        self._states.append(Held(state, state))
        found = run.commit_interval(
            state, STEPS, stride, snapshots=wanted, on_step=lambda after, _: self._check(after)
        )
        self.steps += STEPS
        at = [min(step, STEPS) for step in range(first + stride, STEPS + stride, stride)]
        self._count(found.checkpoints == tuple(self.truth.roots[step] for step in at))
        self._count(sorted(found.snapshots) == wanted)
        self._states += [Held(kept, kept) for kept in found.snapshots.values()]
        if first:
            again = run.commit_interval(self._fresh(0).state, first, 1)
            self._count(again.checkpoints == tuple(self.truth.roots[1 : first + 1]))
            self.steps += first

    # ------------------------------------------------------------------------------------------------ looking

    def _check(self, state: State) -> None:
        """Check all slots by hash or by array, and keep some of the arrays."""
        if self._chance(0.5):
            self._count(state.slot_hashes() == self.truth.hashes[state.step])
        else:
            self._count(self.truth.is_state(state.step, state.arrays))
        if self._chance(0.2):
            self._keep_arrays(state.arrays)

    def _keep_arrays(self, arrays: Sequence[Array]) -> None:
        """Keep each array, or only a view of it, so that nothing else keeps the array alive."""
        for array in arrays:
            view = array[...] if self._chance(0.5) else array.reshape(-1)[:: int(self._draw.integers(1, 3))]
            self._views.append((view, view.tobytes()))

    def _look_at_all(self) -> None:
        for view, before in self._views:
            self._count(view.tobytes() == before)
        for held in self._states:
            try:
                arrays = held.state.arrays
            except InvalidInput:
                self._count(held.may_be_gone)
            else:
                self._count(self.truth.is_state(held.state.step, arrays))

    def _count(self, right: bool) -> None:
        self.looks += 1
        self.wrong += not right
