"""The executor of honest runs: plain steps compiled, committed steps node by node.

Both give the same bits. A committed step needs every node's value in memory; a plain one needs the state only. What a
stranger's program could make a compiler do, it does not get done: then plain steps run node by node, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..commit.tensor import Array
from ..compiled import Compiled, Cpu, Machine
from ..errors import InvalidInput
from ..program import Program, SlotSource
from .hooks import Metrics
from .interpreter import Backend, Interpreter, StepTrace
from .lease import Lease
from .values import State

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
        self._lease: Lease | None = None  # of the state in the compiled step's memory

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
            self._give()
            return self._interpreter.step(state, commit)
        if len(state.values) != len(self._program.slots):
            raise InvalidInput(
                f"a state of {len(state.values)} slots; the program has {len(self._program.slots)}"
            )
        lease = self._lease
        if lease is not None and state.lease is lease and state.offered and not lease.given:
            lease.take()
            self._lease = None
        else:
            self._give()
            compiled.load([value.on(self._device) for value in state.values])
        compiled.run(state.step + 1)
        self._metrics.latest.update({name: compiled.value(source) for name, source in self._sources.items()})
        self._lease = Lease(self._machine, state.step + 1, compiled.slots)
        return State.leased(state.step + 1, self._lease), None

    def _give(self) -> None:
        """What is leased becomes the state's own.

        SAFETY: if this is interrupted, the next step comes here again before anything is written, and nothing that was
        done twice does harm.
        """
        if self._lease is not None and self.compiled is not None:
            self._lease.give()
            self.compiled.release()
            self._lease = None
