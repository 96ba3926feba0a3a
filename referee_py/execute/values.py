"""Values of a run: arrays that are hashed at most once, and the state that one step hands to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..commit import Tag, Tree, tensor_hash
from ..commit.tensor import Array
from ..errors import InvalidInput


class Value:
    """An array with its TENSOR hash, computed when first asked for. NOTE: the array must not be written to."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: Array, known_hash: bytes | None = None) -> None:
        self.array = array
        self._hash = known_hash

    def hash(self) -> bytes:
        if self._hash is None:
            self._hash = tensor_hash(self.array)
        return self._hash


@dataclass(frozen=True, slots=True)
class State:
    """The slots after `step` steps; step 0 is the initial state."""

    step: int
    values: tuple[Value, ...]

    @classmethod
    def of(cls, step: int, arrays: Iterable[Array]) -> State:
        return cls(step, tuple(Value(array) for array in arrays))

    @property
    def arrays(self) -> list[Array]:
        return [value.array for value in self.values]

    def slot_hashes(self) -> list[bytes]:
        return [value.hash() for value in self.values]

    def replace(self, slot: int, value: Value) -> State:
        """The same state with another value in one slot."""
        if not 0 <= slot < len(self.values):
            raise InvalidInput(f"slot {slot} of a state with {len(self.values)} slots")
        return State(self.step, (*self.values[:slot], value, *self.values[slot + 1 :]))


def initial_root(arrays: Sequence[Array]) -> bytes:
    """`C_0` of these initial slots."""
    return Tree(Tag.INITIAL_TREE, [tensor_hash(array) for array in arrays]).root
