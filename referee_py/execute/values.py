"""Values of a run: arrays that are hashed at most once, and the state that one step hands to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..commit import Tag, Tree, tensor_hash
from ..commit.tensor import Array
from ..device import Device
from ..errors import InvalidInput
from .lease import Lease


class Value:
    """An array with its TENSOR hash, computed on first use. NOTE: the array must not be written to.

    A value may lie on a device. It is copied from or to the device when needed, and then is in both places.
    """

    __slots__ = ("_array", "_device", "_hash", "_tensor")

    def __init__(self, array: Array | None, known_hash: bytes | None = None) -> None:
        self._array = array
        self._hash = known_hash
        self._tensor: Any = None
        self._device: Device | None = None

    @classmethod
    def there(cls, tensor: Any, device: Device) -> Value:
        """Make a value of a tensor on a device."""
        value = cls(None)
        value._tensor, value._device = tensor, device
        return value

    @property
    def array(self) -> Array:
        if self._array is None:
            assert self._device is not None
            self._array = self._device.read(self._tensor)
        return self._array

    def on(self, device: Device | None) -> Any:
        """Return the tensor on this device, or the array if it is None."""
        if device is None:
            return self.array
        if self._device is not device:
            self._tensor, self._device = device.place(self.array), device
        return self._tensor

    def hash(self) -> bytes:
        if self._hash is None:
            there = self._array is None and self._device is not None
            self._hash = self._device.hash(self._tensor) if there else tensor_hash(self.array)  # type: ignore[union-attr]
        return self._hash


class Leased(Value):
    """A slot of a state in a compiled step's memory (lease.py). Access raises InvalidInput once the state was taken."""

    __slots__ = ("_lease", "_slot")

    def __init__(self, lease: Lease, slot: int) -> None:
        super().__init__(None)
        self._lease, self._slot = lease, slot

    @property
    def array(self) -> Array:
        self._lease.check()
        if self._array is None:
            self._array = self._lease.array(self._slot)
        return self._array

    def on(self, device: Device | None) -> Any:
        self._lease.check()
        if device is not None and self._device is not device:
            there = self._lease.on(self._slot, device)
            if there is not None:
                self._tensor, self._device = there, device
        return super().on(device)

    def hash(self) -> bytes:
        self._lease.check()
        if self._hash is None:
            self._hash = self._lease.hash(self._slot)
        return self._hash


class State:
    """The slots after `step` steps; step 0 is the initial state.

    A state never changes under its holder. An executor can still compute step after step in one memory: a holder that
    is done with a state calls `offer`, and the step that continues from it may then take the memory. lease.py says who
    owns the memory.
    """

    __slots__ = ("_values", "lease", "offered", "step")

    def __init__(self, step: int, values: Iterable[Value], lease: Lease | None = None) -> None:
        self.step = step
        self.lease = lease
        """Lease on the memory; None if all values are the state's own."""
        self.offered = False
        self._values = tuple(values)

    @classmethod
    def of(cls, step: int, arrays: Iterable[Array]) -> State:
        return cls(step, (Value(array) for array in arrays))

    @classmethod
    def leased(cls, step: int, lease: Lease) -> State:
        return cls(step, (Leased(lease, slot) for slot in range(len(lease))), lease)

    @property
    def values(self) -> tuple[Value, ...]:
        """Values of the slots. Raises InvalidInput if the state was taken."""
        if self.lease is not None:
            self.lease.check()
        return self._values

    @property
    def arrays(self) -> list[Array]:
        return [value.array for value in self.values]

    def offer(self) -> None:
        """Declare that nobody will read this state again."""
        self.offered = True

    def copy(self) -> State:
        """Return a copy that is its holder's own and survives this state."""
        return State.of(self.step, self.arrays)

    def slot_hashes(self) -> list[bytes]:
        return [value.hash() for value in self.values]

    def replace(self, slot: int, value: Value) -> State:
        """Return this state with another value in one slot. Raises InvalidInput for a slot that does not exist."""
        if not 0 <= slot < len(self.values):
            raise InvalidInput(f"slot {slot} of a state with {len(self.values)} slots")
        return State(self.step, (*self.values[:slot], value, *self.values[slot + 1 :]))


def initial_root(arrays: Sequence[Array]) -> bytes:
    """Return `C_0` of these initial slots."""
    return Tree(Tag.INITIAL_TREE, [tensor_hash(array) for array in arrays]).root
