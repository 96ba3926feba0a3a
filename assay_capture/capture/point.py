"""A point at which steps are compared: values of the module's tensors, and a batch of the data (guard.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import repops
from repops.torch_arrays import to_numpy

from referee_py.commit.tensor import Array
from referee_py.program import Structure

from .agreement import (
    BF16_RANGE,
    GRADIENT,
    PRECISE,
    TOLERANCE,
    TWICE,
    Comparison,
    Values,
    amplified,
    by_themselves,
    differences,
    nearer,
)
from .definition import StepDefinition
from .draft import Loaded
from .eager import eager, eager_called, given_value, objective_of
from .evaluate import compared_outputs, evaluate
from .precise import NotPrecise, metrics_f64

WRITTEN = ("buffer", "frozen", "written")
"""Beginnings of the names of tensors that a step may write to."""
LOSS, START, LATER = "loss", "at the first step", "with weights moved by a tenth"
"""The metric whose values are kept, and the points at which they are: at the others no data has such inputs."""
MOVED = 0.1
"""Distance by which weights are moved for the second comparison, in units of their norm."""
_PAIR = [0, 1]
"""Places of two examples in a batch."""
EDGES = {
    "near zero": (0.0, -0.0, 2.0**-149, -(2.0**-126), 1e-30, -1e-10, 1e-4),
    "at the largest numbers": (3.4028235e38, -3.4028235e38, 1e30, -1e19, 65504.0, 0.0, -1.0),
}
"""Numbers that inputs are by turns, at the other points."""


@dataclass(frozen=True)
class Point:
    """A place at which both steps are computed: values of the module's tensors, and a batch of the data."""

    first: StepDefinition
    loaded: Loaded
    narrow: frozenset[str]
    """Outputs that bf16 rounds on their way."""
    losses: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The losses that were compared so far, by the point's name: of the program, and of eager PyTorch."""

    def _computed(self) -> Iterator[tuple[str, Array]]:
        """Yield the metrics of the program's step, and the buffers and frozen parameters after it."""
        execute = repops.backend("cpu").execute

        def of_node(node: Structure, inputs: Sequence[Array]) -> Sequence[Array]:
            return execute(node.name, list(inputs), node.attrs)

        return evaluate(self.loaded, lambda array: array, of_node, np.array(1, np.int64))

    def program(self) -> Values:
        """Return the metrics of the program's step, and the buffers and frozen parameters after it."""
        return dict(self._computed())

    def eager(self) -> dict[str, Array]:
        """Return the same of eager PyTorch."""
        return self.with_unwritten(eager(self.first))

    def with_unwritten(self, wanted: dict[str, Array]) -> dict[str, Array]:
        """Return eager PyTorch's values, and those of tensors that only the program writes to: they must not change."""
        for name in compared_outputs(self.loaded):
            kind, _, tensor = name.partition(".")
            if kind in WRITTEN and name not in wanted:
                value = given_value(self.first, tensor)
                if value is not None:
                    wanted[name] = to_numpy(value)
        return wanted

    def compared(self, wanted: Values, named: str) -> Comparison:
        """Return what differs from eager PyTorch's values by more than rounding does; note the losses of both."""
        comparison = Comparison(wanted, TOLERANCE, self.narrow)
        for name, value in self._computed():
            comparison.give(name, value)
            if name == LOSS and name in wanted:
                self.losses[named] = float(value.reshape(-1)[0]), float(wanted[name].reshape(-1)[0])
        return comparison

    def faint(self, wanted: Values, names: Sequence[str]) -> dict[str, float]:
        """Return which of these gradients are not PyTorch's, by themselves. They are small beside the largest one.

        NOTE: some are nothing but rounding, as that of a bias before a normalisation: where PyTorch in FP32 is not near
        PyTorch in FP64, nothing is known. Where it is, FP64 decides.
        """
        known = _known(self.first, names)
        if not known:
            return {}
        try:
            precise = eager_called(self.first, only=known)
            unknown = by_themselves(wanted, precise, known, TOLERANCE / 4)
            known = [name for name in known if name not in unknown]
            return by_themselves(metrics_f64(self.loaded), precise, known, TOLERANCE) if known else {}
        except Exception:  # also NotPrecise: there is nothing to decide by
            return {}

    def is_rounding(self, bounded: bool = True) -> bool:
        """Return whether what differs is what rounding does in eager PyTorch, too: element by element.

        Not `bounded`: rounding may be of any size, as where sums overflow in FP32.
        """
        first = self.first
        if first.autocast is None and self.narrow:  # its parameters are bf16: there is no FP32 to compare
            return False
        try:
            precise, theirs = eager_called(first), self.eager()
            again = eager_called(first, wide=False)
        except Exception:
            return False
        # SAFETY: what PyTorch does only when the module itself is called, such as a hook of a gradient's node or
        # another number in each call, is in no copy of its tensors, and so not in FP64: it would pass for rounding.
        if differences(
            again, {n: v for n, v in theirs.items() if n in again or n.startswith(GRADIENT)}, TWICE
        ):
            return False
        if first.autocast is not None:
            wanted = theirs
            precise = {name: value for name, value in precise.items() if name in wanted}
            return not nearer(self.program(), wanted, precise, BF16_RANGE)
        try:
            found = metrics_f64(self.loaded)
            wanted = {
                name: value
                for name, value in precise.items()
                if name in found or name == LOSS or name.startswith(GRADIENT)
            }
            if differences(found, wanted, PRECISE):
                return False
            if not bounded:
                return True
            return amplified(
                self.program(), theirs, {name: value for name, value in wanted.items() if name in theirs}
            )
        except NotPrecise:
            return False


def moved_from(start: Point, step: StepDefinition, wanted: dict[str, Array]) -> Point:
    """Return the step at weights moved against the gradient, on the last batch: as some steps later.

    NOTE: gradients in `wanted` become the moved weights in their place, since each is as large as a weight.
    """
    first, loaded = start.first, start.loaded
    values: dict[str, Array] = {}
    for name, tensor in (*first.module.named_parameters(), *first.module.named_buffers()):
        given = (first.initial or {}).get(name)
        value = to_numpy(tensor.detach()) if given is None else (given() if callable(given) else given)
        moved = wanted.pop(f"{GRADIENT}{name}", None)
        if moved is not None:
            np.nan_to_num(moved, copy=False, nan=0, posinf=0, neginf=0)
            size = _norm(value) or float(np.sqrt(max(moved.size, 1)) * 0.1)
            moved *= -MOVED * size / (_norm(moved) or 1.0)
            moved += value.astype(np.float32, copy=False)
            value = moved
        values[name] = wanted.get(f"buffer.{name}", wanted.get(f"frozen.{name}", value))
    rows = np.ascontiguousarray(step.order[-1:, : first.order.shape[1]])
    slots = {
        label: np.asarray(values[name], array.dtype, order="C")
        for label, array in zip(loaded.labels.slots, loaded.initial, strict=True)
        if (name := label.partition(".")[2]) in values
    }
    there = loaded.with_tensors({"data.order": rows}, slots)
    return Point(replace(first, initial=values, order=rows), there, start.narrow, start.losses)


def _norm(value: Array) -> float:
    return float(np.linalg.norm(value.astype(np.float32, copy=False)))


def at_edge(start: Point, edge: tuple[float, ...]) -> Point | None:
    """Return the step on a batch whose floats are these numbers by turns; None if the module takes no floats."""
    first, loaded = start.first, start.loaded
    objective = objective_of(first)
    names = [name for name in objective.inputs if first.data[name].dtype == np.float32]
    if not names:
        return None
    data = {
        **first.data,
        **{name: np.resize(np.array(edge, np.float32), first.data[name].shape) for name in names},
    }
    return Point(
        replace(first, data=data),
        loaded.with_tensors({f"data.{name}": data[name] for name in names}, {}),
        start.narrow,
    )


def _known(first: StepDefinition, names: Sequence[str]) -> Sequence[str]:
    """Return which gradients are no rounding in eager PyTorch, as two examples of the batch show quickly."""
    if not names or first.order.shape[1] <= 2 * len(_PAIR):
        return names
    pair = replace(first, order=np.ascontiguousarray(first.order[:, _PAIR]))
    try:
        found, precise = (eager_called(pair, wide, names) for wide in (False, True))
        unknown = by_themselves(found, precise, [name for name in names if name in precise], TOLERANCE)
    except Exception:  # the module may take batches of one size alone
        return names
    return [name for name in names if name in precise and name not in unknown]
