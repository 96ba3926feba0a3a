"""The engine: one thread that computes all answers, each in a row of its own, a token of every row in each turn.

    submit ──> queue ──> reader ──> row of the batch, or alone ──> Answer.take, until it ends
                         a chunk     one step writes a token of every row
                         of a prompt,
                         or of several
                         in a turn

INVARIANT: nothing here decides what an answer is. Which rows stand beside each other, when, and with which of the
programs of `steps` they are computed changes no bit of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from assay_capture.capture import Built
from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled

from .answer import Answer
from .model import Model

_log = structlog.get_logger(__name__)


SHORT = 4
"""A batch of short rows has so many times fewer places."""


class Full(Exception):
    """The queue has no place."""


@dataclass(frozen=True)
class Capacity:
    """Bounds of what the engine does at once: rows of a batch, places of a prompt that are read in a turn (``chunk``;
    of each of ``several``), answers that wait."""

    rows: int = 8
    chunk: int = 32
    several: int = 16
    waiting: int = 64
    seconds: float = 600.0
    """Time of an answer from its submission on. Then it ends where it is."""


class Machine:
    """A program with its memory: the slots by name, each with a first dimension of rows."""

    def __init__(self, built: Built) -> None:
        self._compiled = Compiled(built.program, built.constants)
        self._compiled.load(built.initial)
        self.slots: dict[str, Array] = dict(zip(built.labels.slots, self._compiled.slots, strict=True))

    def run(self) -> None:
        self._compiled.run(1)  # NOTE: neither program reads the number of the step

    def fill(self, row: int, prompt: tuple[int, ...], parameters: Mapping[str, int | float]) -> None:
        """Make a row that of a request before its first step."""
        for slot in self.slots.values():
            slot[row] = 0
        self.slots["tokens"][row, : len(prompt)] = prompt
        self.slots["length"][row] = len(prompt)
        for name, value in parameters.items():
            self.slots[name][row] = value

    @property
    def places(self) -> int:
        return int(self.slots["tokens"].shape[1])

    def copy(self, row: int, other: Machine, to: int) -> None:
        """Copy a row to one of another machine, which may have fewer places if they hold all that the row has."""
        for name, slot in self.slots.items():
            held, wanted = slot[row : row + 1], other.slots[name][to : to + 1]
            both = tuple(slice(min(pair)) for pair in zip(held.shape, wanted.shape, strict=True))
            wanted[...] = 0
            wanted[both] = held[both]


@dataclass(eq=False)
class _Row:
    """An answer in a row of a machine."""

    answer: Answer
    due: float
    machine: Machine
    row: int = 0


@dataclass
class Counts:
    """Counts since the start."""

    tokens: int = 0
    read: int = 0
    answers: int = 0
    cancelled: int = 0
    steps: int = 0
    failures: int = field(default=0)


class Engine:
    """Use it as a context manager. `submit` may be called by any thread; answers are told in the engine's own."""

    def __init__(
        self, model: Model, capacity: Capacity | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.model, self.capacity = model, capacity or Capacity()
        self.counts = Counts()
        self._clock = clock
        self._one = Machine(model.one)
        self._many = Machine(model.writing(self.capacity.rows)) if self.capacity.rows > 1 else self._one
        self._short, self._readers = self._of_short_rows()
        self._reader = Machine(model.reading(self.capacity.chunk))
        self._queue: deque[tuple[Answer, float]] = deque()
        self._reading: list[_Row] = []
        self._rows: list[_Row] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def _of_short_rows(self) -> tuple[Machine, Machine | None]:
        """Return the machines that write and read as many rows with fewer places; all places and none where that is not
        worth it. A step of a batch reads and writes keys and values of all its places."""
        rows, places = self.capacity.rows, self.model.places // SHORT
        if self._many is self._one or places < 2:
            return self._many, None
        reading = self.model.reading(self.capacity.several, rows, places)
        return Machine(self.model.writing(rows, places)), Machine(reading)

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return len(self._rows) + len(self._reading)

    def submit(self, answers: list[Answer]) -> None:
        """Queue answers, all or none. Raises Full."""
        with self._changed:
            if len(self._queue) + len(answers) > self.capacity.waiting or self._stopped:
                raise Full
            due = self._clock() + self.capacity.seconds
            self._queue.extend((answer, due) for answer in answers)
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._stopped or self._queue or self._reading or self._rows):
                    self._changed.wait()
                if self._stopped:
                    break
            try:
                self.turn()
            except Exception:  # NOTE: the service stays; those whose answers are lost are told
                _log.exception("engine.turn")
                self.counts.failures += 1
                self._drop("the engine failed; see the server's log")
        self._drop("the server stops")

    def turn(self) -> None:
        """Take out what is over, read a chunk of each prompt that is read, and write a token of every row."""
        self._leave()
        self._admit()
        if self._reading:
            self._read()
        if self._rows:
            self._write()

    def _drop(self, why: str) -> None:
        with self._changed:
            queued = [answer for answer, _ in self._queue]
            self._queue.clear()
        for answer in (*queued, *(row.answer for row in self._all())):
            answer.fail(why)
        self._rows, self._reading = [], []

    def _all(self) -> list[_Row]:
        return [*self._rows, *self._reading]

    def _leave(self) -> None:
        """Take out answers that nobody waits for, and end those whose time is over."""
        now = self._clock()
        for row in self._all():
            if not row.answer.cancelled and now < row.due:
                continue
            if row.answer.cancelled:
                self.counts.cancelled += 1
            else:
                self._end(row.answer)
            self._rows = [other for other in self._rows if other is not row]
            self._reading = [other for other in self._reading if other is not row]

    def _end(self, answer: Answer) -> None:
        if answer.written:
            answer.finish()
            self.counts.answers += 1
        else:
            answer.fail("the time of this answer was over before its first token")

    def _admit(self) -> None:
        """Take the next answer from the queue, or several whose prompts are short, if nothing is being read."""
        if self._reading:
            return
        taken = list[tuple[Answer, float]]()
        while len(self._rows) + len(taken) < self.capacity.rows:
            with self._changed:
                if not self._queue or (taken and not self._fit(taken[0][0], self._queue[0][0])):
                    break
                answer, due = self._queue.popleft()
            if answer.cancelled:
                self.counts.cancelled += 1
            elif self._clock() >= due:
                self._end(answer)
            else:
                taken.append((answer, due))
        machine = self._reader if len(taken) == 1 or self._readers is None else self._readers
        for row, (answer, due) in enumerate(taken):
            machine.fill(row, answer.prompt, answer.parameters.slots())
            self._reading.append(_Row(answer, due, machine, row))

    def _fit(self, *answers: Answer) -> bool:
        """Return whether the prompts of these answers can be read side by side."""
        return self._readers is not None and all(
            len(answer.prompt) < self._readers.places for answer in answers
        )

    def _read(self) -> None:
        """Read a chunk of each prompt; where only its last token is left, the row joins those that are written."""
        machine = self._reading[0].machine
        place = machine.slots["place"]
        if any(place[row.row] < len(row.answer.prompt) - 1 for row in self._reading):
            machine.run()
            self.counts.read += self.capacity.chunk if machine is self._reader else self.capacity.several
        read = [row for row in self._reading if place[row.row] >= len(row.answer.prompt) - 1]
        self._rows += read
        self._reading = [row for row in self._reading if row not in read]

    def _write(self) -> None:
        machine = self._placed()
        machine.run()
        self.counts.steps += 1
        for row in list(self._rows):
            place = int(machine.slots["place"][row.row])
            token = int(machine.slots["tokens"][row.row, place])
            self.counts.tokens += 1
            if row.answer.take(token, machine.slots["logprobs"][row.row]):
                self._rows.remove(row)
                self.counts.answers += 1

    def _placed(self) -> Machine:
        """Bring all rows into one machine, and return it: that of one row where there is no other."""
        # NOTE: a step reads one place and writes the token of the next one, which stays behind the mask: a sum with no
        # hidden term at all could be -0 where one with such a term is 0.
        last = max(int(row.machine.slots["place"][row.row]) for row in self._rows) + 1
        batch = self._short if last < self._short.places else self._many
        machine = self._one if len(self._rows) == 1 else batch
        free = {*range(self.capacity.rows)} - {row.row for row in self._rows if row.machine is machine}
        for row in self._rows:
            if row.machine is not machine:
                to = min(free)
                free.remove(to)
                row.machine.copy(row.row, machine, to)
                row.machine, row.row = machine, to
        return machine
