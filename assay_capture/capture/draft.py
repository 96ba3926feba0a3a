"""A captured program before its tensors are read: no weight is in memory.

draft = sketch(model_on_the_meta_device, ...)
draft.skeleton.structure_root               # known without weights
draft.program()                             # reads one tensor after the other, and hashes it
draft.load()                                # all its tensors in memory, not hashed
draft.build()                               # the program with all its tensors
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from repops.tensors import NUMPY_DTYPE

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.program import Operand, Program, Skeleton, SlotSource, TensorType

from .errors import CaptureError


@dataclass(frozen=True)
class Source:
    """A tensor that a program commits to: its type and how to read it (None if it has no values)."""

    type: TensorType
    read: Callable[[], Array] | None
    is_zero: bool = False

    @classmethod
    def of(cls, array: Array) -> Source:
        """Copy the array, so that a later write by the caller cannot change the program."""
        copy = np.array(array, order="C", copy=True)
        return cls(TensorType.of(copy), lambda: copy)

    @classmethod
    def zeros(cls, type_: TensorType) -> Source:
        return cls(type_, lambda: _zeros(type_), is_zero=True)

    def array(self, name: str) -> Array:
        """Return the contiguous tensor. Raises CaptureError if it has no values or is not of the announced type."""
        if self.read is None:
            raise CaptureError(
                f"{name} has no values (the module was made on the meta device, or with fake tensors); "
                f"give them as initial[...], an array or a function that reads one"
            )
        array = np.asarray(self.read(), order="C")
        if TensorType.of(array) != self.type:
            raise CaptureError(f"{name} was read as {TensorType.of(array)}; the module has {self.type}")
        return array

    def hash_of(self, array: Array) -> bytes:
        """Return the hash of the tensor, which was read as this array."""
        return _hash_of_zeros(self.type) if self.is_zero else tensor_hash(array)


def _zeros(type_: TensorType) -> Array:
    return np.zeros(type_.shape, NUMPY_DTYPE[type_.dtype])


@functools.lru_cache(256)
def _hash_of_zeros(type_: TensorType) -> bytes:
    """Return the hash of zeros. NOTE: an optimizer begins with one or two for each parameter, of a few shapes."""
    return tensor_hash(_zeros(type_))


@dataclass(frozen=True)
class Labels:
    """Names for people, kept with the program and never part of it. `metrics` gives the output of each metric."""

    nodes: list[str]
    slots: list[str]
    constants: list[str]
    metrics: dict[str, SlotSource]


@dataclass(frozen=True)
class Built:
    """A program with its tensors, labels and marks (`Draft`)."""

    program: Program
    constants: list[Array]
    initial: list[Array]
    labels: Labels
    marks: Mapping[str, Operand] = field(default_factory=dict)

    @property
    def loaded(self) -> Loaded:
        return Loaded(self.program.skeleton, self.constants, self.initial, self.labels)


@dataclass(frozen=True)
class Loaded:
    """A program's skeleton with its tensors in memory, which nobody has hashed, and labels."""

    skeleton: Skeleton
    constants: list[Array]
    initial: list[Array]
    labels: Labels

    def with_tensors(self, constants: Mapping[str, Array], initial: Mapping[str, Array]) -> Loaded:
        """Return the same step of other tensors, given by their labels, of the same shapes."""
        others = [constants.get(n, a) for n, a in zip(self.labels.constants, self.constants, strict=True)]
        starts = [initial.get(n, a) for n, a in zip(self.labels.slots, self.initial, strict=True)]
        return Loaded(self.skeleton, others, starts, self.labels)


@dataclass(frozen=True)
class Draft:
    """A program's skeleton, the sources of its tensors, and labels.

    `marks` are places of values that have names and are no metrics: `part.<k>.gradient.<parameter>` and
    `part.<k>.data.<array>`, for each part of a batch, and `written.<parameter>`, what the forward pass leaves of one
    that it writes to. One that no slot needs has none.
    """

    skeleton: Skeleton
    constants: list[Source]
    initial: list[Source]
    labels: Labels
    marks: Mapping[str, Operand] = field(default_factory=dict)

    def program(self) -> Program:
        """Hash every tensor, one in memory at a time. Raises CaptureError for one that has no values."""

        def hashes(names: Sequence[str], sources: Sequence[Source]) -> list[bytes]:
            return [s.hash_of(s.array(name)) for name, s in zip(names, sources, strict=True)]

        return Program.of(
            self.skeleton,
            hashes(self.labels.constants, self.constants),
            hashes(self.labels.slots, self.initial),
        )

    def load(self) -> Loaded:
        """Return the step with all its tensors in memory. Raises CaptureError for one that has no values."""
        constants = [s.array(name) for name, s in zip(self.labels.constants, self.constants, strict=True)]
        initial = [s.array(name) for name, s in zip(self.labels.slots, self.initial, strict=True)]
        return Loaded(self.skeleton, constants, initial, self.labels)

    def build(self) -> Built:
        """Return the program with all its tensors in memory. Raises CaptureError for one that has no values."""
        loaded = self.load()
        hashes = (
            [source.hash_of(array) for source, array in zip(sources, arrays, strict=True)]
            for sources, arrays in ((self.constants, loaded.constants), (self.initial, loaded.initial))
        )
        program = Program.of(self.skeleton, *hashes)
        return Built(program, loaded.constants, loaded.initial, self.labels, self.marks)
