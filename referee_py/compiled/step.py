"""A step of a program, compiled: kernels in a fixed order, every value at a fixed place.

    compiled = Compiled(program, constants)
    compiled.load(arrays)         # the slots before step 1
    compiled.run(1)
    compiled.slots                # after it, in the same memory

The bits are those of the operators one by one (the interpreter, docs/opset.md); what is compiled is never committed to
node by node, because most values never are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from repops import cpu
from repops.cpu import Bound
from repops.memory import address_of, allocate
from repops.tensors import NUMPY_DTYPE

from ..commit.tensor import Array
from ..program import Program, SlotSource
from .graph import Graph
from .memory import Lifetime, place
from .schedule import schedule
from .tasks import Task, tasks_of
from .views import View


class Compiled:
    """One step of a validated program on the CPU. Constants must have been checked against it.

    `slots` are the state: arrays that `load` fills and every `run` overwrites. `watched` are outputs to be read after a
    step with `value`. Not to be used by two threads at once.
    """

    def __init__(
        self, program: Program, constants: Sequence[Array], watched: Iterable[SlotSource] = ()
    ) -> None:
        self._graph = graph = Graph(program, watched)
        tasks, self._bodies = tasks_of(graph)
        self._schedule = schedule(graph, tasks, self._bodies)
        self._constants = constants
        self._number = np.zeros((), np.int64)
        lifetimes = self._lifetimes()
        self._offsets, self.arena_bytes = place(lifetimes)
        """Bytes that the values of a step take, besides the slots and the constants."""
        self._arena: Array | None = None
        self._kept: dict[int, Array] = {}
        self._calls: list[Bound] = []
        self._seen: dict[int, Array] = {}  # watched values that are old values of slots
        self.slots: list[Array] = []

    @property
    def tasks(self) -> Sequence[Task]:
        """What a step runs, in order."""
        return self._schedule.tasks

    def load(self, arrays: Sequence[Array]) -> None:
        """Begin from this state, in memory of its own."""
        if not self.slots:
            self._take_memory()
        for slot, array in zip(self.slots, arrays, strict=True):
            np.copyto(slot, array)

    def release(self) -> None:
        """Leave the slots to whoever holds them; the next `load` takes new memory for the state."""
        self.slots = []

    def run(self, step: int) -> None:
        """Step `step`, counted from 1."""
        self._number[()] = step
        threads, isa = cpu.get_num_threads(), cpu.get_isa()
        for call in self._calls:
            if call.kernel(call.signature, call.data, threads, isa):
                raise MemoryError("no memory for a kernel's working space")
        self._move()

    def value(self, source: SlotSource) -> Array:
        """A watched output of the step that ran last: a copy."""
        value = self._graph.output(source)
        return self._seen[value] if value in self._seen else self._read(self._bodies.view(value)).copy()

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
            last[self._bodies.view(value).base] = len(self._schedule.tasks)
        return [
            Lifetime(value, self._graph.nbytes(value), at, last[value])
            for value, at in first.items()
            if value not in self._schedule.in_place
        ]

    def _take_memory(self) -> None:
        graph = self._graph
        if self._arena is None:
            self._arena = allocate((self.arena_bytes,), np.dtype(np.uint8), self.arena_bytes)
            self._kept = {v: self._new(v) for task in self._schedule.prelude for v in task.writes}
            for task in self._schedule.prelude:
                self._bound(task)(1, cpu.get_isa())
        self.slots = [self._new(slot) for slot in range(graph.slots)]
        self._calls = [self._bound(task) for task in self._schedule.tasks]

    def _new(self, value: int) -> Array:
        dtype, shape = self._graph.specs[value]
        return allocate(shape, NUMPY_DTYPE[dtype], self._graph.nbytes(value))

    def _array(self, value: int) -> Array:
        """The memory of a stored value."""
        graph = self._graph
        value = self._schedule.in_place.get(value, value)
        if value < graph.slots:
            return self.slots[value]
        if value < graph.step:
            return self._constants[value - graph.slots]
        if value == graph.step:
            return self._number
        if value in self._kept:
            return self._kept[value]
        dtype, shape = graph.specs[value]
        if 0 in shape:
            return np.empty(shape, NUMPY_DTYPE[dtype])
        return np.ndarray(shape, NUMPY_DTYPE[dtype], self._arena, self._offsets[value])

    def _bound(self, task: Task) -> Bound:
        addresses = [
            address_of(self._array(view.base)) + view.offset * self._graph.item_size(view.base)
            for view in task.reads
        ]
        return task.bind([*addresses, *(address_of(self._array(value)) for value in task.writes)])

    # ------------------------------------------------------------------------------------------------ results

    def _read(self, view: View) -> Array:
        """The elements of a view, as a numpy view."""
        whole = self._array(view.base).reshape(-1)
        factors = [factor for dim in view.dims for factor in dim]
        strides = [stride * whole.itemsize for _, stride in factors]
        shape = [size for size, _ in factors]
        at = np.lib.stride_tricks.as_strided(whole[view.offset :], shape, strides, writeable=False)
        return at.reshape(view.shape)

    def _move(self) -> None:
        """New values that were not written in place. Old values of slots are read before any slot is written."""
        slots, moves = self._graph.slots, []
        for value in self._graph.watched:
            view = self._bodies.view(value)
            if view.base < slots:
                self._seen[value] = self._read(view).copy()
        for slot, value in enumerate(self._graph.after):
            view = self._bodies.view(value)
            here = view.base == slot or self._schedule.in_place.get(view.base) == slot
            if not (here and view.is_contiguous() and view.offset == 0):
                source = self._read(view)
                moves.append((slot, source.copy() if view.base < slots else source))
        for slot, source in moves:
            np.copyto(self.slots[slot], source)
