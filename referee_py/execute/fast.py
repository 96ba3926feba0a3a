"""The executor of honest runs: plain steps compiled, committed steps node by node.

Both give the same bits. A committed step needs every node's value in memory; a plain one needs the state only.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property

from ..commit.tensor import Array
from ..compiled import Compiled, Cpu, Machine
from ..errors import InvalidInput
from ..program import Program, SlotSource
from .hooks import Metrics
from .interpreter import Backend, Interpreter, StepTrace
from .values import State, Value


class FastExecutor:
    """An executor of a validated program on a machine. Constants must have been checked against it.

    `latest` has the metrics of the step that ran last. Not to be used by two threads at once.
    """

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        backend: Backend,
        metrics: Mapping[str, SlotSource] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self._program, self._constants = program, constants
        self._sources = dict(metrics or {})
        self._metrics = Metrics(self._sources)
        hook = self._metrics if self._sources else None
        self._machine = machine or Cpu()
        self._device = None if isinstance(self._machine, Cpu) else self._machine
        self._interpreter = Interpreter(program, constants, backend, hook, self._device)
        self._current: weakref.ref[State] | None = None  # the state that is in the compiled step's memory

    @property
    def latest(self) -> Mapping[str, Array]:
        return self._metrics.latest

    @cached_property
    def compiled(self) -> Compiled:
        """The plain step."""
        return Compiled(self._program, self._constants, self._sources.values(), self._machine)

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        if commit:
            return self._interpreter.step(state, True)
        if len(state.values) != len(self._program.slots):
            raise InvalidInput(
                f"a state of {len(state.values)} slots; the program has {len(self._program.slots)}"
            )
        compiled = self.compiled
        if state is not self._held() or not state.take():
            given = [value.on(self._device) for value in state.values]
            if self._held() is not None:
                compiled.release()  # somebody may still look at it
            compiled.load(given)
        compiled.run(state.step + 1)
        self._metrics.latest.update({name: compiled.value(source) for name, source in self._sources.items()})
        device = self._device
        slots = [Value.there(slot, device) if device else Value(slot) for slot in compiled.slots]
        after = State(state.step + 1, slots)
        self._current = weakref.ref(after)
        return after, None

    def _held(self) -> State | None:
        return self._current() if self._current else None
