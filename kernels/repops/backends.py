"""Executors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import reference
from .opset import Attrs
from .tensors import Array


@dataclass(frozen=True)
class Backend:
    """Something that applies operators. All backends give the same bits, up to the payload of NaNs."""

    name: str
    execute: Callable[[str, Sequence[Array], Attrs], list[Array]]


BACKENDS = {"reference": Backend("reference", reference.execute)}


def backend(name: str) -> Backend:
    """The executor called "reference"."""
    return BACKENDS[name]
