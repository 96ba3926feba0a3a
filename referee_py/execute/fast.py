"""The executor of honest runs: plain steps compiled, committed steps node by node.

Both give the same bits. A committed step needs every node's value in memory; a plain step needs only the state. A
stranger's program that would cost the compiler too much is not compiled: its plain steps run node by node, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ..commit.tensor import Array
from ..compiled import Compiled, Cpu, Machine
from ..errors import InvalidInput
from ..program import Program, SlotSource
from .backends import Backend, machine_for
from .hooks import Metrics
from .interpreter import Interpreter, StepTrace
from .lease import Lease
from .values import State

MAX_VALUES = 1 << 15
"""Maximum number of nodes, slots and constants to compile: three times the largest captured. The worst take 15 s, or
twice that if their casts of slots need too much memory."""
SPARE_BYTES = 1 << 26
"""Bytes that a compiled step may need more than one node by node, for values kept from step to step."""


class FastExecutor:
    """An executor of a validated program on a machine, by default the backend's. The caller has checked the constants
    against the program.

    `latest` has the metrics of the last step. Two threads must not use one executor at the same time.
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
        self._machine = machine or machine_for(backend) or Cpu()
        self._device = None if isinstance(self._machine, Cpu) else self._machine
        self._interpreter = Interpreter(program, constants, backend, hook, self._device)
        self._lease: Lease | None = None  # lease of the state in the compiled step's memory

    @property
    def latest(self) -> Mapping[str, Array]:
        return self._metrics.latest

    @cached_property
    def compiled(self) -> Compiled | None:
        """The compiled step; None if plain steps should run node by node."""
        program = self._program
        if len(program.nodes) + len(program.slots) + len(program.constants) > MAX_VALUES:
            return None
        # SAFETY: a party checks its memory for the node-by-node peak and the state before, so this must not take more.
        state = sum(tensor.type.nbytes for tensor in program.initial)
        allowed = state + self._interpreter.plan.peak_bytes + SPARE_BYTES
        watched = self._sources.values()
        compiled = Compiled(program, self._constants, watched, self._machine)
        if compiled.nbytes > allowed and compiled.keeps_casts:
            compiled = Compiled(program, self._constants, watched, self._machine, keep_casts=False)
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
        """Give leased memory to the state for good.

        SAFETY: if this is interrupted, the next step calls it again before anything is written, and doing any part of
        it twice does no harm.
        """
        if self._lease is not None and self.compiled is not None:
            self._lease.give()
            self.compiled.release()
            self._lease = None
