"""A step of a program, compiled: kernels in a fixed order, every value at a fixed place.

    compiled = Compiled(program, constants)
    compiled.load(arrays)         # the slots before step 1
    compiled.run(1)
    compiled.slots                # the slots after it, in the same memory

The bits are those of the operators one by one (the interpreter, docs/opset.md). A compiled step cannot give the
commitments to single nodes, because most values never are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from repops.opset import BOOL, I64

from ..commit.tensor import Array
from ..program import Program, SlotSource
from .graph import Graph
from .machine import Buffer, Call, Cpu, Machine
from .memory import Lifetime, place
from .schedule import schedule
from .tasks import Task, casts_of, copy_of, tasks_of
from .views import View


class Compiled:
    """One step of a validated program on a machine. The caller has checked the constants against the program.

    `slots` are the state: memory that `load` fills and every `run` overwrites, on the CPU numpy arrays. `value` reads
    the outputs in `watched` after a step. `keep_casts` saves time and takes memory for casts of slots from step to
    step. Two threads must not use one object at the same time.
    """

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        watched: Iterable[SlotSource] = (),
        machine: Machine | None = None,
        keep_casts: bool = True,
    ) -> None:
        self.machine = machine or Cpu()
        says = self.machine.is_alone, self.machine.is_logged
        self._graph = graph = Graph(program, watched, *says, keep_casts)
        self._schedule = schedule(graph, tasks_of(graph, self.machine))
        self._offsets, self.arena_bytes = place(self._lifetimes())
        """Bytes that the values of a step take, besides the slots and the constants."""
        self._set_aside = self._old_values()
        self._given = constants
        self._constants: list[Buffer] = []
        self._number: Buffer = None
        self._arena: Buffer = None
        self._kept: dict[int, Buffer] = {}
        self._staged: dict[int, Buffer] = {}
        self._casts: Callable[[], None] | None = None
        self._steps: Callable[[], None] | None = None
        self.slots: list[Buffer] = []

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks that a step runs, in order."""
        return self._schedule.tasks

    @property
    def keeps_casts(self) -> bool:
        """True if casts of slots are kept from step to step."""
        return bool(self._graph.casts)

    @property
    def nbytes(self) -> int:
        """Bytes that `load` takes: the slots, and everything that a step needs besides the constants."""
        kept = (value for task in self._schedule.prelude for value in task.writes)
        own = (*range(self._graph.slots), *kept, *self._set_aside)
        spare = max((task.spare for task in self._schedule.tasks), default=0)
        return self.arena_bytes + spare + sum(map(self._graph.nbytes, own))

    def load(self, arrays: Sequence[Array]) -> None:
        """Copy this state into the slots, as the state before the next step."""
        if self._casts is None or self._steps is None:
            self._casts, self._steps = self._take_memory()
        for slot, array in zip(self.slots, arrays, strict=True):
            self.machine.write(slot, array)
        self._casts()

    def release(self) -> None:
        """Leave the slots to their holders; the next `load` takes new memory for the state."""
        self._casts = self._steps = None
        self.slots = []

    def run(self, step: int) -> None:
        """Run step `step`, counted from 1, after `load`."""
        assert self._steps is not None
        self.machine.write(self._number, np.array(step, np.int64))
        self.machine.begin(step)
        self._steps()
        self.machine.end()

    def value(self, source: SlotSource) -> Array:
        """Return a copy of a watched output of the last step."""
        return self.seen(source).copy()

    def seen(self, source: SlotSource) -> Array:
        """Return a watched output of the last step, valid until the next one; it may be the step's own memory."""
        value = self._graph.output(source)
        if value in self._staged:
            return self.machine.read(self._staged[value])
        view = self._graph.view(value)
        whole = self.machine.read(self._buffer(view.base)).reshape(-1)
        factors = view.factors()
        strides = [stride * whole.itemsize for _, stride in factors]
        seen = np.lib.stride_tricks.as_strided(
            whole[view.offset :], [size for size, _ in factors], strides, writeable=False
        )
        return seen.reshape(view.shape)

    # ------------------------------------------------------------------------------------------------ memory

    def _lifetimes(self) -> list[Lifetime]:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, task in enumerate(self._schedule.tasks):
            for value in task.writes:
                first[value] = last[value] = at
            for view in task.reads:
                last[view.base] = at
        for value in (*self._graph.after, *self._graph.watched):
            last[self._graph.view(value).base] = len(self._schedule.tasks)
        return [
            Lifetime(value, self._graph.nbytes(value), at, last[value])
            for value, at in first.items()
            if value not in self._schedule.in_place
        ]

    def _take_memory(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Take memory for a step, and return the functions that compute the kept casts and that run a step.

        SAFETY: memory may be short, or the caller interrupted. An attribute that is set implies all before it: the
        arena is set last of what is made once, and the caller has no step to run until this has returned.
        """
        graph, machine = self._graph, self.machine
        if self._arena is None:
            arena = machine.new((BOOL, (self.arena_bytes,)))
            self._number = machine.new((I64, ()))
            self._constants = [machine.place(constant) for constant in self._given]
            prelude = self._schedule.prelude
            kept = (value for task in prelude for value in task.writes)
            self._kept = {
                v: machine.new(graph.specs[v]) for v in (*kept, *range(graph.own_slots, graph.slots))
            }
            machine.sequence([self._bound(task) for task in prelude])()
            self._arena = arena
        self.slots = [machine.new(graph.specs[slot]) for slot in range(graph.own_slots)]
        casts = machine.sequence([*map(self._bound, casts_of(graph, machine))])
        return casts, machine.sequence([*map(self._bound, self._schedule.tasks), *self._moves()])

    def _buffer(self, value: int) -> Buffer:
        """Return the memory of a stored value."""
        graph = self._graph
        value = self._schedule.in_place.get(value, value)
        if value < graph.own_slots:
            return self.slots[value]
        if value in self._kept:
            return self._kept[value]
        if value < graph.step:
            return self._constants[value - graph.slots]
        if value == graph.step:
            return self._number
        return self.machine.part(self._arena, self._offsets.get(value, 0), graph.specs[value])

    def _address(self, view: View) -> int:
        return self.machine.address(self._buffer(view.base)) + view.offset * self._graph.item_size(view.base)

    def _bound(self, task: Task) -> Call:
        writes = [self.machine.address(self._buffer(value)) for value in task.writes]
        return task.bind([*map(self._address, task.reads), *writes])

    def _moves(self) -> list[Call]:
        """Return the calls that end a step: they copy new values that were not written in place into their slots.

        A new value that is still the old value of a slot is set aside before any slot is written.
        """
        graph = self._graph
        self._staged = {value: self.machine.new(graph.specs[value]) for value in self._set_aside}
        aside = [self._copy(graph.view(value), buffer) for value, buffer in self._staged.items()]
        moves = []
        for slot, value in self._targets().items():
            if value in self._staged:
                whole = View.whole(value, graph.shape(value))
                address = self.machine.address(self._staged[value])
                moves.append(self._copy(whole, self._buffer(slot), address))
            elif graph.elements(value):
                moves.append(self._copy(graph.view(value), self._buffer(slot)))
        return aside + moves

    def _targets(self) -> dict[int, int]:
        """Return the slots that are not updated in place, with their new values."""
        return {slot: v for slot, v in enumerate(self._graph.after) if not self._is_there(slot, v)}

    def _old_values(self) -> list[int]:
        """Return the values to be set aside."""
        graph = self._graph
        leaving = dict.fromkeys((*graph.watched, *self._targets().values()))
        return [value for value in leaving if graph.view(value).base < graph.slots and graph.elements(value)]

    def _is_there(self, slot: int, value: int) -> bool:
        view = self._graph.view(value)
        here = view.base == slot or self._schedule.in_place.get(view.base) == slot
        return here and view.is_contiguous() and view.offset == 0

    def _copy(self, view: View, to: Buffer, address: int | None = None) -> Call:
        bind = copy_of(view, self._graph.item_size(view.base), self.machine)
        return bind([self._address(view) if address is None else address, self.machine.address(to)])
