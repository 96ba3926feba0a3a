"""Comparison of steps of eager PyTorch that get one batch in different ways.

type      a program has i64 and f32 only; smaller numbers are taken as these, which changes no value, but what a module
          computes with them may be another: sums of uint8 wrap, float16 overflows, a module may ask for the dtype
parts     a program takes the gradients of each part's loss, and then their average, and a loop the gradients of each
          part's loss divided by their number: the same, unless something on the way back clips or normalises
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from referee_py.commit.tensor import Array

from .agreement import GRADIENT, TOLERANCE, Values, differences
from .definition import StepDefinition
from .eager import eager
from .errors import CaptureError

_SCALES = (2.0**20, 2.0**-20)
"""Factors of a loss: far from 1, because a gradient is clipped at sizes that the first step may not have."""
_F16_ENDS = (65504.0, -65504.0, 2.0**-24, 0.1, 300.0, -1e-3, 0.0)


def compare_types(first: StepDefinition, wanted: Values, given: Mapping[str, Array]) -> None:
    """Raise CaptureError if PyTorch computes something else with `given`, the data in the types it was given in.

    `first` has the same data in the operator set's types, and `wanted` is what PyTorch computes with it. Where PyTorch
    refuses the given types, whoever trains converts them before.
    """
    rows = first.order[0]
    narrow = {name: array[rows] for name, array in given.items() if array.dtype != first.data[name].dtype}
    if not narrow:
        return
    few = replace(
        first,
        data={name: array[rows] for name, array in first.data.items()},
        order=np.arange(len(rows), dtype=np.int64)[None],
    )
    for theirs in (narrow, *_at_ends(narrow)):
        if apart := _apart(few, theirs, wanted if theirs is narrow else None):
            name = next(iter(theirs))
            worst = max(apart, key=lambda key: apart[key])
            raise CaptureError(
                f"data {name} is {narrow[name].dtype}, which a program takes as {few.data[name].dtype}: PyTorch "
                f"computes something else with it, {worst} differs by {apart[worst]:.2g} of its size; convert {name} "
                f"to {few.data[name].dtype} in the recipe and in your loop, or first thing in forward()"
            )


def _apart(few: StepDefinition, given: Mapping[str, Array], wanted: Values | None) -> dict[str, float]:
    """Return what differs between the given arrays and the same numbers in the operator set's types."""
    wide = {name: array.astype(few.data[name].dtype) for name, array in given.items()}
    try:
        found = eager(replace(few, data={**few.data, **given}))
        return differences(found, wanted or eager(replace(few, data={**few.data, **wide})), TOLERANCE)
    except Exception:  # PyTorch does not take these types, or the module not these numbers
        return {}


def _at_ends(narrow: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Yield one array after the other with the ends of its type by turns."""
    for name, array in narrow.items():
        if array.dtype.kind == "f":
            ends: tuple[float, ...] = _F16_ENDS
        else:
            limits = np.iinfo(array.dtype)
            ends = (limits.max, limits.min, 1, 0, limits.max // 2 + 1)
        yield {name: np.resize(np.array(ends, array.dtype), array.shape)}


def compare_scales(first: StepDefinition, wanted: Values, parts: int) -> None:
    """Raise CaptureError if gradients do not grow with the loss, so that an average over parts has two meanings."""
    if parts == 1:
        return
    gradients = {name: value for name, value in wanted.items() if name.startswith(GRADIENT)}
    for scale in _SCALES:
        scaled = {
            name: value * np.float32(1 / scale)
            for name, value in eager(first, scale).items()
            if name in gradients
        }
        if apart := differences(scaled, gradients, TOLERANCE):
            name = max(apart, key=lambda key: apart[key])
            raise CaptureError(
                f"the {name.replace('.', ' of ', 1)} does not grow with the loss (a hook or a function of its own "
                f"clips or normalises it), so its average over {parts} parts of a batch depends on how the losses are "
                "scaled; use clip_norm or clip_value instead, or a batch in one part"
            )
