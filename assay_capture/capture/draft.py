"""A captured program before its tensors are read: no weight is in memory.

draft = sketch(model_on_the_meta_device, ...)
draft.skeleton.structure_root               # known without weights
draft.program()                             # reads one tensor after the other, and hashes it
draft.build()                               # the program with all its tensors
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from repops.tensors import NUMPY_DTYPE

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.program import Program, Skeleton, SlotSource, TensorType

from .errors import CaptureError


@dataclass(frozen=True)
class Source:
    """A tensor that a program commits to: its type and how to read it (None if it has no values)."""

    type: TensorType
    read: Callable[[], Array] | None

    @classmethod
    def of(cls, array: Array) -> Source:
        """Copy the array, so that a later write by the caller cannot change the program."""
        copy = np.array(array, order="C", copy=True)
        return cls(TensorType.of(copy), lambda: copy)

    @classmethod
    def zeros(cls, type_: TensorType) -> Source:
        return cls(type_, lambda: np.zeros(type_.shape, NUMPY_DTYPE[type_.dtype]))

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


@dataclass(frozen=True)
class Labels:
    """Names for people, kept with the program and never part of it. `metrics` gives the output of each metric."""

    nodes: list[str]
    slots: list[str]
    constants: list[str]
    metrics: dict[str, SlotSource]


@dataclass(frozen=True)
class Built:
    """A program with its tensors and labels."""

    program: Program
    constants: list[Array]
    initial: list[Array]
    labels: Labels


@dataclass(frozen=True)
class Draft:
    """A program's skeleton, the sources of its tensors, and labels."""

    skeleton: Skeleton
    constants: list[Source]
    initial: list[Source]
    labels: Labels

    def program(self) -> Program:
        """Hash every tensor, one in memory at a time. Raises CaptureError for one that has no values."""

        def hashes(names: Sequence[str], sources: Sequence[Source]) -> list[bytes]:
            return [tensor_hash(s.array(name)) for name, s in zip(names, sources, strict=True)]

        return Program.of(
            self.skeleton,
            hashes(self.labels.constants, self.constants),
            hashes(self.labels.slots, self.initial),
        )

    def build(self) -> Built:
        """Return the program with all its tensors in memory. Raises CaptureError for one that has no values."""
        constants = [s.array(name) for name, s in zip(self.labels.constants, self.constants, strict=True)]
        initial = [s.array(name) for name, s in zip(self.labels.slots, self.initial, strict=True)]
        program = Program.of(self.skeleton, map(tensor_hash, constants), map(tensor_hash, initial))
        return Built(program, constants, initial, self.labels)
