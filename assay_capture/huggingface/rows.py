"""Batches of any shape as rows of one shape, and an order: what a program takes.

    batches ──> rows ──(pad to the longest)──> rows of one shape ──(equal rows once)──> data, order [steps, batch]

If collating an example gives the same row every time, the data are the examples, each once, in the order of their first
use, and the order says who comes when. If it is random (masks drawn in every epoch), each use is a row of its own.

A batch with fewer examples than others is filled up with copies whose labels are ignored, and a step with fewer batches
with copies that weigh nothing. Whether filling and padding are neutral is for the caller to check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from referee_py.commit.tensor import Array

from ..capture.errors import CaptureError

IGNORED = -100
"""The label that the losses of `transformers` leave out."""
KERNEL_ONLY = frozenset({"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"})
"""Entries of packed batches that repeat what position_ids say, for kernels of attention that take a length for each."""

Row = tuple[Array, ...]


@dataclass(frozen=True)
class Filling:
    """Padding by name: what a row of that array is padded with, and on which side."""

    pad_token: int
    left: bool = False

    def of(self, name: str) -> int:
        """Return the value that fills rows of this array. Raises CaptureError for an array that none may fill."""
        values = {
            "input_ids": self.pad_token,
            "decoder_input_ids": self.pad_token,
            "attention_mask": 0,
            "decoder_attention_mask": 0,
            "token_type_ids": 0,
            "position_ids": 0,
            "labels": IGNORED,
            "shift_labels": IGNORED,
        }
        if name not in values:
            raise CaptureError(
                f"the array {name} has another shape in other batches, and no padding of it is known to be neutral; "
                "collate to one shape (padding='max_length', images of one size)"
            )
        return values[name]


@dataclass
class Collected:
    """Rows of batches, each once. `taken` lists for each step the row numbers of each of its batches.

    `constants` are the entries that are true or false, the same in every batch.
    """

    names: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    taken: list[list[list[int]]] = field(default_factory=list)
    constants: dict[str, bool] = field(default_factory=dict)
    dropped: bool = False
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def add(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Take one step's batches. Raises CaptureError for entries that are not arrays of examples."""
        self.taken.append([self._numbers(part) for part in parts])

    def _numbers(self, part: Mapping[str, Any]) -> list[int]:
        self.dropped |= not KERNEL_ONLY.isdisjoint(part)
        constants = {name: value for name, value in part.items() if isinstance(value, bool)}
        arrays = {
            name: _array(name, value)
            for name, value in part.items()
            if name not in KERNEL_ONLY and name not in constants and value is not None
        }
        if not self.names:
            self.names, self.constants = tuple(arrays), constants
        if constants != self.constants:
            raise CaptureError(
                f"a batch has {constants or 'no constants'}, the first had {self.constants or 'none'}; "
                "a program is one graph for all batches: give every batch the same, or make it a tensor in the collator"
            )
        if set(arrays) != set(self.names):
            raise CaptureError(
                f"a batch has {', '.join(arrays)}, the first had {', '.join(self.names)}; every batch needs the same"
            )
        sizes = {name: len(array) if array.ndim else None for name, array in arrays.items()}
        if len(set(sizes.values())) != 1 or None in sizes.values():
            raise CaptureError(f"arrays of a batch with {sizes} rows; each needs a row for every example")
        size = next(iter(sizes.values())) or 0
        return [self._number(tuple(arrays[name][k] for name in self.names)) for k in range(size)]

    def _number(self, row: Row) -> int:
        # NOTE: rows are compared by the hash of their bytes, so equal examples of a data set become one row.
        key = tuple((array.shape, hashlib.sha256(array.tobytes()).digest()) for array in row)
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(tuple(np.array(array, order="C") for array in row))
        return self._known[key]


@dataclass(frozen=True)
class Static:
    """Rows of one shape by name; `order` [steps, parts of a step x examples]; `weights` [steps, parts], 0 for filling.

    `smallest` holds the places (step, part) of the batches that were padded most and filled up most, if any were.
    """

    data: dict[str, Array]
    order: Array
    weights: Array
    smallest: list[tuple[int, int]]
    filled: bool


def _array(name: str, value: Any) -> Array:
    """Return an entry of a batch as f32, i64 or bool."""
    if not isinstance(value, torch.Tensor):
        raise CaptureError(
            f"the batch's {name} is {type(value).__name__}; drop the column, or make it a tensor in the collator"
        )
    if value.dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        value = value.long()
    if value.dtype not in (torch.float32, torch.int64, torch.bool):
        raise CaptureError(f"the batch's {name} is {value.dtype}; collate to float32, int64 or bool")
    array: Array = value.detach().cpu().contiguous().numpy()
    return array


def static(collected: Collected, filling: Filling) -> Static:
    """Return the rows in one shape. Raises CaptureError, with the name of what cannot be filled."""
    shapes = {name: [row[k].shape for row in collected.rows] for k, name in enumerate(collected.names)}
    padded = Collected(collected.names)
    moved = [
        padded._number(
            tuple(
                _padded(name, array, shapes[name], filling)
                for name, array in zip(collected.names, row, strict=True)
            )
        )
        for row in collected.rows
    ]
    places = {(s, p): part for s, parts in enumerate(collected.taken) for p, part in enumerate(parts)}
    parts, batch = _largest(collected)
    smallest = []
    if any(len(set(of)) > 1 for of in shapes.values()):
        smallest.append(min(places, key=lambda place: sum(a.size for a in collected.rows[places[place][0]])))
    if any(len(part) < batch for part in places.values()):
        smallest.append(min(places, key=lambda place: len(places[place])))
    ignored: dict[int, int] = {}
    order, weights = [], []
    for numbers in collected.taken:
        rows = [_full([moved[n] for n in part], batch, padded, ignored) for part in numbers]
        rows += [rows[0]] * (parts - len(rows))
        order.append([n for part in rows for n in part])
        weights.append([float(k < len(numbers)) for k in range(parts)])
    data = {name: np.stack([row[k] for row in padded.rows]) for k, name in enumerate(collected.names)}
    filled = any(len(numbers) < parts for numbers in collected.taken) or bool(ignored)
    return Static(data, np.array(order, np.int64), np.array(weights, np.float32), smallest, filled)


def _largest(collected: Collected) -> tuple[int, int]:
    """Return the largest number of batches in a step, and of examples in a batch."""
    return (
        max(len(parts) for parts in collected.taken),
        max(len(part) for parts in collected.taken for part in parts),
    )


def _padded(name: str, array: Array, shapes: Sequence[tuple[int, ...]], filling: Filling) -> Array:
    if len(set(shapes)) == 1:
        return array
    value = filling.of(name)
    if array.ndim != 1:
        raise CaptureError(
            f"the array {name} has rows of {len(set(shapes))} shapes, such as {list(shapes[0])}; collate to one shape"
        )
    missing = max(shape[0] for shape in shapes) - len(array)
    return np.pad(array, (missing, 0) if filling.left else (0, missing), constant_values=value)


def _full(part: list[int], batch: int, rows: Collected, ignored: dict[int, int]) -> list[int]:
    """Fill a batch up with copies of its first row whose labels are ignored."""
    if len(part) == batch:
        return part
    first = part[0]
    if first not in ignored:
        place = rows.names.index("labels") if "labels" in rows.names else None
        if place is None or rows.rows[first][place].dtype != np.int64:
            raise CaptureError(
                f"a batch of {len(part)} examples where others have {batch}, and labels that cannot be ignored; "
                "set dataloader_drop_last=True"
            )
        copy = list(rows.rows[first])
        copy[place] = np.full_like(copy[place], IGNORED)
        ignored[first] = rows._number(tuple(copy))
    return part + [ignored[first]] * (batch - len(part))
