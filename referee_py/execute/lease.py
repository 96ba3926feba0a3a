"""Who owns the memory of a state: its holder, or, for one step at most, the compiled step that made it.

    own       nobody writes to it again: states that were read, restored, copied or made node by node
    leased    a compiled step's, which keeps its slots in one place; the state is a window on it

A compiled step's result is leased until its executor's next step, whatever that is. Then it is one of two:

    taken     the next step goes on from this very state, and its holder has offered it (`State.offer`): the memory is
              overwritten, and whoever looks at the state or at one of its values gets an error
    given     every other next step: the memory is the state's own from now on, and the compiled step takes new memory

INVARIANT: leased memory is seen by its executor alone. Who looks at a leased value gets a copy, its hash is computed in
place, and the interpreter reads a state only once it was given. So whatever anybody has of a state, an array, a view of
one or a tensor, is of memory that is not written to: nobody has to find out who has what, on the processor or a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..commit.tensor import Array
from ..compiled import Buffer, Machine
from ..errors import InvalidInput


class Lease:
    """The slots of one state, in the memory of a compiled step on a machine. It ends once, by `take` or by `give`.

    Its slots are asked for by values that have called `check`.
    """

    def __init__(self, machine: Machine, step: int, slots: Sequence[Buffer]) -> None:
        self._machine = machine
        self._step = step
        self._slots = slots
        self.given = self._taken = False

    def __len__(self) -> int:
        return len(self._slots)

    def take(self) -> None:
        """The memory is about to be overwritten."""
        self._taken = True
        self._slots = ()

    def give(self) -> None:
        """The executor writes to the memory no more."""
        self.given = True

    def check(self) -> None:
        """Raises InvalidInput if the memory is another state's by now."""
        if self._taken:
            raise InvalidInput(
                f"the state after step {self._step} was offered and is gone; keep a copy() of what is needed later"
            )

    def array(self, slot: int) -> Array:
        """A slot in host memory that nobody writes to."""
        buffer = self._slots[slot]
        return self._machine.read(buffer) if self.given else self._machine.copied(buffer)

    def on(self, slot: int, device: object) -> Buffer | None:
        """A slot on a device, in memory that nobody writes to, if there is such a one."""
        return self._slots[slot] if self.given and device is self._machine else None

    def hash(self, slot: int) -> bytes:
        return self._machine.hash(self._slots[slot])
