"""The order of a step's tasks, and the tasks that write a slot in place.

Any order that respects what tasks read gives the same bits. This order follows the program, except that a slot's
update runs as soon as its operands exist and no task needs the old value: its gradient's memory is free then.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from .graph import Graph
from .tasks import Task

PRELUDE_BYTES = 1 << 20
"""Maximum bytes of a value that is the same in every step and therefore computed once."""
KEPT_BYTES = 1 << 25
"""Maximum bytes of all such values: they stay in memory from the first step to the last."""
PATIENCE = 1 << 24
"""Maximum number of tasks examined to find the updates that can be made in place. Real steps need a few million."""


@dataclass(frozen=True)
class Schedule:
    """`prelude` runs once, `tasks` in every step. `in_place[value]` is the slot whose memory a value takes."""

    prelude: list[Task]
    tasks: list[Task]
    in_place: dict[int, int]


def schedule(graph: Graph, tasks: list[Task]) -> Schedule:
    """Order the tasks of a graph. Raises nothing: a graph without cycles has an order."""
    prelude = _prelude(graph, tasks)
    once = {id(task) for task in prelude}
    rest = [task for task in tasks if id(task) not in once]
    order = _Order(rest)
    in_place = _updates(graph, rest, order)
    return Schedule(prelude, order.sorted(set(in_place)), in_place)


def _prelude(graph: Graph, tasks: list[Task]) -> list[Task]:
    known = set(range(graph.slots, graph.step))
    found, left = [], KEPT_BYTES
    for task in sorted(tasks, key=lambda task: task.position):
        nbytes = sum(graph.nbytes(value) for value in task.writes)
        same = not task.logged and all(view.base in known for view in task.reads)
        if same and nbytes <= min(PRELUDE_BYTES, left):
            found.append(task)
            known.update(task.writes)
            left -= nbytes
    return found


def _updates(graph: Graph, tasks: list[Task], order: _Order) -> dict[int, int]:
    """Return the new values that can take their slot's memory, with the slots."""
    maker = {value: number for number, task in enumerate(tasks) for value in task.writes}
    readers: dict[int, list[int]] = {}
    for number, task in enumerate(tasks):
        for view in task.reads:
            readers.setdefault(view.base, []).append(number)
    leaving = {graph.view(value).base for value in (*graph.after, *graph.watched)}
    in_place: dict[int, int] = {}
    for slot, value in enumerate(graph.after):
        view = graph.view(value)
        ours = maker.get(view.base)
        if ours is None or view.base in in_place or slot in leaving or not view.is_contiguous():
            continue
        if view.offset or graph.elements(view.base) != graph.elements(value):
            continue
        task = tasks[ours]
        output = task.writes.index(view.base)
        shared = [i for i, read in enumerate(task.reads) if read.base == slot]
        whole = all(task.reads[i].is_contiguous() and not task.reads[i].offset for i in shared)
        if not whole or not all((i, output) in task.shareable for i in shared):
            continue
        if order.put_before(ours, set(readers.get(slot, ())) - {ours}):
            in_place[view.base] = slot
    return in_place


class _Order:
    """The order that tasks require."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks
        maker = {value: number for number, task in enumerate(tasks) for value in task.writes}
        self._needs = [{maker[v.base] for v in task.reads if v.base in maker} for task in tasks]
        self._before = [0] * len(tasks)
        self._left = PATIENCE
        for number in self.sorted(set(), numbers=True):
            for other in self._needs[number]:
                self._before[number] |= self._before[other] | 1 << other

    def put_before(self, number: int, others: set[int]) -> bool:
        """Make the others run before a task. Return False if that is impossible, or if `PATIENCE` is used up."""
        self._left -= len(others)
        if self._left < 0 or any(self._before[other] >> number & 1 for other in others):
            return False
        self._needs[number] |= others
        mask = 0
        for other in others:
            mask |= self._before[other] | 1 << other
        if mask & ~self._before[number]:
            self._before[number] |= mask
            self._left -= len(self._before)
            for other, before in enumerate(self._before):
                if before >> number & 1:
                    self._before[other] = before | mask
        return True

    def sorted(self, soon: set[int], numbers: bool = False) -> list:  # type: ignore[type-arg]
        """Return the tasks in order; those that write only values of `soon` come as early as possible."""
        after: list[list[int]] = [[] for _ in self._tasks]
        missing = [len(needs) for needs in self._needs]
        for number, needs in enumerate(self._needs):
            for other in needs:
                after[other].append(number)
        urgent = [set(task.writes) <= soon for task in self._tasks]
        key = [(not urgent[i], task.position, i) for i, task in enumerate(self._tasks)]
        ready = [key[i] for i, count in enumerate(missing) if not count]
        heapq.heapify(ready)
        result = []
        while ready:
            number = heapq.heappop(ready)[-1]
            result.append(number)
            for other in after[number]:
                missing[other] -= 1
                if not missing[other]:
                    heapq.heappush(ready, key[other])
        assert len(result) == len(self._tasks)
        return result if numbers else [self._tasks[number] for number in result]
