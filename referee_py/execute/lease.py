"""Ownership of a state's memory: its holder, or, for one step at most, the compiled step that made it.

    own       nobody writes to it again: states that were read, restored, copied or made node by node
    leased    it belongs to a compiled step, which keeps its slots in one place; the state is a window on it

The result of a compiled step is leased until the next step of its executor, of any kind. Then it is one of two:

    taken     the next step continues from this very state, and its holder has offered it (`State.offer`): the memory is
              overwritten, and reading the state or one of its values raises an error
    given     every other next step: the memory is the state's own from now on, and the compiled step takes new memory

INVARIANT: only its executor sees leased memory. Reading a leased value returns a copy, its hash is computed in place,
and the interpreter reads a state only once it was given. So every array, view or tensor that anybody has of a state is
in memory that nobody writes to, on the processor or on a device, and nobody has to track who holds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..commit.tensor import Array
from ..compiled import Buffer
from ..errors import InvalidInput


class Memory(Protocol):
    """A reader of the slots of a state where they are: the machine of a compiled step, or the workers of a run."""

    def read(self, buffer: Buffer) -> Array: ...
    def copied(self, buffer: Buffer) -> Array: ...
    def hash(self, buffer: Buffer) -> bytes: ...


class Lease:
    """The slots of one state, in the memory of what computed it. It ends once, by `take` or by `give`.

    Values call `check` before they read its slots.
    """

    def __init__(self, machine: Memory, step: int, slots: Sequence[Buffer]) -> None:
        self._machine = machine
        self._step = step
        self._slots = slots
        self.given = self._taken = False

    def __len__(self) -> int:
        return len(self._slots)

    def take(self) -> None:
        """End the lease because the memory is about to be overwritten."""
        self._taken = True
        self._slots = ()

    def give(self) -> None:
        """End the lease because the executor no longer writes to the memory."""
        self.given = True

    def check(self) -> None:
        """Raise InvalidInput if another state has taken the memory."""
        if self._taken:
            raise InvalidInput(
                f"the state after step {self._step} was offered and is gone; keep a copy() of what is needed later"
            )

    def array(self, slot: int) -> Array:
        """Return a slot in host memory that nobody writes to."""
        buffer = self._slots[slot]
        return self._machine.read(buffer) if self.given else self._machine.copied(buffer)

    def on(self, slot: int, device: object) -> Buffer | None:
        """Return a slot in device memory that nobody writes to, or None if there is none."""
        return self._slots[slot] if self.given and device is self._machine else None

    def hash(self, slot: int) -> bytes:
        return self._machine.hash(self._slots[slot])
