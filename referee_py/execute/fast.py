"""The executor of honest runs: plain steps compiled, committed steps node by node.

Both give the same bits. A committed step needs every node's value in memory; a plain one needs the state only. What a
stranger's program could make a compiler do, it does not get done: then plain steps run node by node, too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..commit.tensor import Array
from ..compiled import Buffer, Compiled, Cpu, Machine
from ..errors import InvalidInput
from ..program import Program, SlotSource
from .hooks import Metrics
from .interpreter import Backend, Interpreter, StepTrace
from .values import State, Value

MAX_VALUES = 1 << 15
"""Nodes, slots and constants of what is compiled: three times the largest captured so far; the worst take 15 s."""
SPARE_BYTES = 1 << 26
"""By which a compiled step may need more than one node by node, for what is kept from step to step."""


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
        self._current: Callable[[], State | None] = lambda: None  # the state in the compiled step's memory
        self._lent: list[weakref.ref[Any]] = []  # and what of that memory has been given away

    @property
    def latest(self) -> Mapping[str, Array]:
        return self._metrics.latest

    @cached_property
    def compiled(self) -> Compiled | None:
        """The plain step; None if it had better run node by node."""
        program = self._program
        if len(program.nodes) + len(program.slots) + len(program.constants) > MAX_VALUES:
            return None
        compiled = Compiled(program, self._constants, self._sources.values(), self._machine)
        # SAFETY: a party checks its memory for a program's peak node by node, which comes on top of the state before.
        state = sum(tensor.type.nbytes for tensor in program.initial)
        allowed = state + self._interpreter.plan.peak_bytes + SPARE_BYTES
        return compiled if compiled.nbytes <= allowed else None

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        compiled = None if commit else self.compiled
        if compiled is None:
            return self._interpreter.step(state, commit)
        if len(state.values) != len(self._program.slots):
            raise InvalidInput(
                f"a state of {len(state.values)} slots; the program has {len(self._program.slots)}"
            )
        before = compiled.slots
        # SAFETY: what was lent of the memory may be looked at until the last object that has it is gone.
        if state is self._current() and state.take():
            if self._is_lent():
                compiled.release()
                compiled.load(before)
        else:
            given = [value.on(self._device) for value in state.values]
            if self._is_lent():
                compiled.release()
            compiled.load(given)
        compiled.run(state.step + 1)
        self._metrics.latest.update({name: compiled.value(source) for name, source in self._sources.items()})
        return self._lend(state.step + 1, compiled.slots), None

    def _lend(self, step: int, owned: Sequence[Buffer]) -> State:
        """The state in the compiled step's memory."""
        device, slots = self._device, [self._machine.lend(slot) for slot in owned]
        self._lent = [weakref.ref(slot) for slot in slots]
        state = State(step, [Value.there(slot, device) if device else Value(slot) for slot in slots])
        self._current = weakref.ref(state)
        return state

    def _is_lent(self) -> bool:
        return any(slot() is not None for slot in self._lent)
