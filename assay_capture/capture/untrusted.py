"""Limits of what an untrusted file of a model may ask for: the bytes of all its values together, and one division.

A few bytes of a file can ask for any memory: a tensor that is named a thousand times, a constant of any shape. Each
value alone has a limit where it is made; here are the limits of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .errors import CaptureError

MAX_GROWTH = 8
"""Bytes in memory for each byte of the files: numbers of one byte become i64, views become tensors of their own."""
MAX_ADDED_BYTES = 8 << 30
"""Most bytes that tensors take beyond those of the files."""
MAX_CONSTANT_BYTES = 2 << 30
"""Most bytes of values that a graph makes of no data and holds at once."""
MAX_HELD_BYTES = 8 << 30
"""Most bytes of values that a graph makes of data and holds at once; what is kept for gradients does not count."""


class FileBudget:
    """Bytes that the tensors of a model's files take. Files are counted when they are opened, tensors before."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._taken = 0

    def add_file(self, size: int) -> None:
        """Count another file of the model."""
        self._size += size

    def take(self, count: int, where: str) -> None:
        """Count bytes that are about to be read. Raises CaptureError beyond the limit."""
        self._taken += count
        limit = min(MAX_GROWTH * self._size, self._size + MAX_ADDED_BYTES)
        if self._taken > limit:
            raise CaptureError(
                f"{where}: the tensors of {self._name} take {self._taken} bytes up to here; the limit is {limit}, for "
                f"files of {self._size} bytes; store each tensor once, and none twice under two names"
            )


class Held:
    """Bytes of the values that a run of a graph holds at once. Views of one memory count once.

    What the graph is given costs nothing, and neither do views of it.
    """

    def __init__(self, given: Iterable[Any] = ()) -> None:
        self._parts = {_memory(v)[0]: (1, 0, False) for v in given if isinstance(v, torch.Tensor)}
        """By memory: the values that share it, its bytes, and whether it is a constant."""
        self._bytes = {True: 0, False: 0}

    def hold(self, value: Any, where: str, constant: bool = False) -> None:
        """Count a value; `constant`: it is made of no data. Raises CaptureError beyond the limit."""
        if not isinstance(value, torch.Tensor):
            return
        memory, size = _memory(value)
        users, counted, constant = self._parts.get(memory, (0, size, constant))
        self._parts[memory] = users + 1, counted, constant
        self._bytes[constant] += 0 if users else counted
        limit = MAX_CONSTANT_BYTES if constant else MAX_HELD_BYTES
        if self._bytes[constant] > limit:
            raise CaptureError(
                f"{where} gives {size} bytes, with which the {'constants' if constant else 'values'} of the model take "
                f"{self._bytes[constant]} at once; the limit is {limit}; export the model "
                f"{'with smaller ones' if constant else 'for smaller sizes, or give smaller batches'}"
            )

    def release(self, value: Any) -> None:
        """Forget a value that was held or given."""
        if not isinstance(value, torch.Tensor):
            return
        memory, _ = _memory(value)
        users, counted, constant = self._parts.get(memory, (0, 0, False))
        if users > 1:
            self._parts[memory] = users - 1, counted, constant
        elif users:
            del self._parts[memory]
            self._bytes[constant] -= counted


def _memory(value: torch.Tensor) -> tuple[int, int]:
    """Return what tells the memory of a tensor from others, and its bytes."""
    try:
        storage = value.untyped_storage()
        return storage._cdata, int(storage.nbytes())
    except (NotImplementedError, RuntimeError):  # tensors of other kinds have no memory of their own
        return id(value), value.numel() * value.element_size()


def whole_quotient(x: torch.Tensor, y: torch.Tensor | int) -> torch.Tensor:
    """Return x / y of integers, rounded towards zero.

    SAFETY: the least integer by -1 has no quotient, and the processor's instruction ends the process. It stays itself.
    """
    if not isinstance(y, torch.Tensor):
        return torch.neg(x) if y == -1 else torch.div(x, y, rounding_mode="trunc")
    opposite = y == -1
    quotient = torch.div(x, torch.where(opposite, 1, y), rounding_mode="trunc")
    return torch.where(opposite, torch.neg(x), quotient)
