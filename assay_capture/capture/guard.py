"""The guard: compares steps of the program with those of eager PyTorch, before anybody pays for a run.

Tracing can drop an effect silently: a write behind PyTorch's back, a decomposition or a rule that is wrong. So loss,
gradients and written buffers are compared, element by element (agreement.py), at four points:

    the first step, with the real weights and the first batch ── differs? ──> again, with modules' outputs as metrics:
    weights moved against the gradient, another batch                         the first module that differs
    inputs near zero, and at the largest numbers of their dtype

What draws, draws the same fixed numbers on both sides (draws.py); dropout is left out. Where rounding moves activations
across kinks, so that single elements differ by tenths, both are computed in binary64 (precise.py): two right steps
agree there. No element is excused by what others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import repops
import torch
from repops.torch_arrays import to_numpy
from torch._subclasses.fake_tensor import FakeTensor

from referee_py.commit.tensor import Array
from referee_py.program import Structure

from .agreement import (
    BF16_RANGE,
    PRECISE,
    TOLERANCE,
    TOLERANCE_BF16,
    Comparison,
    Values,
    amplified,
    differences,
    nearer,
    uncompared,
)
from .definition import Initial, StepDefinition
from .draft import Built, Loaded
from .draws import FixedObjective, without_dropout
from .eager import eager, eager_f64, objective_of
from .errors import CaptureError
from .evaluate import evaluate
from .optimizers import SGD
from .precise import NotPrecise, metrics_f64
from .process import give_memory_back, process_kept
from .stages import EAGER, ELSEWHERE, PROGRAM, Tell, silent
from .step import draft_of, lowered, traced_of
from .trace import Traced

_OF_MODULE = ("param.", "frozen.", "buffer.")
"""Beginnings of the labels of a program's tensors that are the module's."""
NOT_COMPARED = "not compared with PyTorch: nobody has checked that this program is the model's training step"
"""Words in a bundle that was built without the guard."""
LOSS, START, LATER = "loss", "at the first step", "with weights moved by a tenth"
"""The metric whose values are kept, and the points at which they are: at the others no data has such inputs."""
MOVED = 0.1
"""Distance by which weights are moved for the second comparison, in units of their norm."""
_EDGES = {
    "near zero": (0.0, -0.0, 2.0**-149, -(2.0**-126), 1e-30, -1e-10, 1e-4),
    "at the largest numbers": (3.4028235e38, -3.4028235e38, 1e30, -1e19, 65504.0, 0.0, -1.0),
}


@dataclass(frozen=True)
class Compared:
    """Comparisons that were made, in words, and the losses by the point: the program's, and eager PyTorch's."""

    words: str
    losses: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Point:
    """A place at which both steps are computed: values of the module's tensors, and a batch of the data."""

    first: StepDefinition
    loaded: Loaded
    losses: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The losses that were compared so far, by the point's name: of the program, and of eager PyTorch."""

    def _computed(self) -> Iterator[tuple[str, Array]]:
        """Yield the metrics of the program's step, and the buffers after it."""
        execute = repops.backend("cpu").execute

        def of_node(node: Structure, inputs: Sequence[Array]) -> Sequence[Array]:
            return execute(node.name, list(inputs), node.attrs)

        return evaluate(self.loaded, lambda array: array, of_node, np.array(1, np.int64))

    def program(self) -> Values:
        """Return the metrics of the program's step, and the buffers after it."""
        return dict(self._computed())

    def apart(self, wanted: Values, named: str) -> dict[str, float]:
        """Return what differs from eager PyTorch's values by more than rounding does; note the losses of both."""
        comparison = Comparison(wanted, TOLERANCE_BF16 if _is_narrow(self.first) else TOLERANCE)
        for name, value in self._computed():
            comparison.give(name, value)
            if name == LOSS and name in wanted:
                self.losses[named] = float(value.reshape(-1)[0]), float(wanted[name].reshape(-1)[0])
        return comparison.apart()

    def is_rounding(self, bounded: bool = True) -> bool:
        """Return whether what differs is what rounding does in eager PyTorch, too: element by element.

        Not `bounded`: rounding may be of any size, as where sums overflow in FP32.
        """
        first = self.first
        if first.autocast is None and _is_narrow(
            first
        ):  # its parameters are bf16: there is no FP32 to compare
            return False
        try:
            precise = eager_f64(first)
        except Exception:
            return False
        if first.autocast is not None:
            wanted = eager(first)
            precise = {name: value for name, value in precise.items() if name in wanted}
            return not nearer(self.program(), wanted, precise, BF16_RANGE)
        try:
            found = metrics_f64(self.loaded)
            wanted = {
                name: value for name, value in precise.items() if name in found or name[:7] != "buffer."
            }
            if differences(found, wanted, PRECISE):
                return False
            if not bounded:
                return True
            in_f32, theirs = self.program(), eager(first)
            return amplified(
                in_f32, theirs, {name: value for name, value in wanted.items() if name in theirs}
            )
        except NotPrecise:
            return False


def check_first_step(step: StepDefinition, traced: Traced, built: Built, tell: Tell = silent) -> Compared:
    """Compare steps of the first part of a batch. Return what was compared.

    `traced` and `built` are the step's graph and its program, so that neither is made again. Raises CaptureError if the
    two differ.
    """
    arrays = dict(zip(built.labels.slots, built.initial, strict=True))
    arrays |= dict(zip(built.labels.constants, built.constants, strict=True))
    of_module = {label.partition(".")[2]: a for label, a in arrays.items() if label.startswith(_OF_MODULE)}
    known: Initial = {name: partial(_same, array) for name, array in of_module.items()}
    with process_kept():
        return _checked(replace(step, initial={**(step.initial or {}), **known}), traced, tell)


def _same(array: Array) -> Array:
    """Return the array. NOTE: a function's result is not copied, as an array would be."""
    return array


def _checked(step: StepDefinition, traced: Traced | None, tell: Tell) -> Compared:
    tensors = [*step.module.parameters(), *step.module.buffers()]
    if any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
        return Compared("not compared with PyTorch: the module has no values")
    first = StepDefinition(
        *(step.module, FixedObjective.around(objective_of(step)), SGD(0.0), step.data),
        step.order[:1, : step.order.shape[1] // step.parts],
        step.initial,
        tables={name: table[:1, :1] for name, table in (step.tables or {}).items()},
        expert_capacity=step.expert_capacity,
        autocast=step.autocast,
        gradients=True,
    )
    with without_dropout():
        tell(EAGER)
        give_memory_back()
        wanted = eager(first)
        tell(PROGRAM)
        give_memory_back()
        loaded = _loaded(first, traced)
        if any(node.name == "philox" for node in loaded.skeleton.nodes):
            return Compared(
                "not compared with PyTorch: the module draws random numbers in a way that cannot be fixed"
            )
        start = _Point(first, loaded)
        apart = start.apart(wanted, START)
        if apart and not start.is_rounding():
            raise CaptureError(_where(first, apart, "first step"))
        said, left_out = [_said(start, apart)], uncompared(wanted)
        if not (apart and step.autocast is not None):
            tell(ELSEWHERE)
            said += _elsewhere(start, step, wanted)
    if apart and step.autocast is not None:
        said.append(_without_autocast(step, tell))
    if left_out:
        said.append(left_out)
    kept = {name: start.losses[name] for name in (START, LATER) if name in start.losses}
    return Compared("; ".join(said), {name: pair for name, pair in kept.items() if np.isfinite(pair).all()})


def _loaded(first: StepDefinition, traced: Traced | None) -> Loaded:
    """Return the program of the first step, of the graph that is traced already if it draws nothing but dropout."""
    objective = first.loss
    if traced is not None and isinstance(objective, FixedObjective) and not any(objective.counts):
        draft = lowered(first, traced, dropout=False)
        if not any(node.name == "philox" for node in draft.skeleton.nodes):
            return draft.load()
    return lowered(first, traced_of(first)).load()


def _without_autocast(step: StepDefinition, tell: Tell = silent) -> str:
    return f"without autocast {_checked(replace(step, autocast=None), None, tell).words}"


def _said(point: _Point, apart: Mapping[str, float]) -> str:
    if apart and point.first.autocast is not None:
        return "rounding to bf16 takes the first step as far from FP64 as PyTorch's"
    if apart:
        return "loss and gradients of the first step are those of PyTorch in FP64; in FP32 both are moved by rounding"
    return "loss and gradients of the first step are those of PyTorch"


def _elsewhere(start: _Point, step: StepDefinition, wanted: dict[str, Array]) -> Iterator[str]:
    """Compare at the other points. Yield what was compared, in words."""
    points: dict[str, _Point | None] = {LATER: _moved(start, step, wanted)}
    if step.autocast is None and not _is_narrow(step):
        points |= {f"with inputs {name}": _at_edge(start, values) for name, values in _EDGES.items()}
    same, unlike = [], []
    for name, point in points.items():
        if point is None:
            continue
        give_memory_back()
        try:
            at_point = eager(point.first)
        except (
            RuntimeError,
            ValueError,
            IndexError,
        ):  # NOTE: PyTorch may look at values, and refuse what no data has
            unlike.append(f"{name} PyTorch raises an error")
            continue
        give_memory_back()
        apart = point.apart(at_point, name)
        if not apart or point.is_rounding(bounded=name == LATER):
            same.append(name)
        elif step.autocast is not None:
            unlike.append(
                f"{name} rounding to bf16 is larger than what would be seen; {_without_autocast(step)}"
            )
        elif _is_narrow(step):
            unlike.append(f"{name} bf16 was not compared")
        elif name == LATER or _finite_f64(point.first):
            raise CaptureError(_where(point.first, apart, f"step {name}"))
        else:
            unlike.append(f"{name} both overflow, and differ in where")
    if same:
        yield f"so are those {', '.join(same)}"
    yield from unlike


def _finite_f64(first: StepDefinition) -> bool:
    """Return whether eager PyTorch's step has a value in FP64, so that a program's must be that."""
    try:
        return all(bool(np.isfinite(value.astype(np.float32)).all()) for value in eager_f64(first).values())
    except Exception:
        return False


def _moved(start: _Point, step: StepDefinition, wanted: dict[str, Array]) -> _Point:
    """Return the step at weights moved against the gradient, on the last batch: as some steps later.

    NOTE: gradients in `wanted` become the moved weights in their place, since each is as large as a weight.
    """
    first, loaded = start.first, start.loaded
    values: dict[str, Array] = {}
    for name, tensor in (*first.module.named_parameters(), *first.module.named_buffers()):
        given = (first.initial or {}).get(name)
        value = to_numpy(tensor.detach()) if given is None else (given() if callable(given) else given)
        moved = wanted.pop(f"gradient.{name}", None)
        if moved is not None:
            np.nan_to_num(moved, copy=False, nan=0, posinf=0, neginf=0)
            size = _norm(value) or float(np.sqrt(max(moved.size, 1)) * 0.1)
            moved *= -MOVED * size / (_norm(moved) or 1.0)
            moved += value.astype(np.float32, copy=False)
            value = moved
        values[name] = wanted.get(f"buffer.{name}", value)
    rows = np.ascontiguousarray(step.order[-1:, : first.order.shape[1]])
    slots = {
        label: np.asarray(values[name], array.dtype, order="C")
        for label, array in zip(loaded.labels.slots, loaded.initial, strict=True)
        if (name := label.partition(".")[2]) in values
    }
    there = loaded.with_tensors({"data.order": rows}, slots)
    return _Point(replace(first, initial=values, order=rows), there, start.losses)


def _norm(value: Array) -> float:
    return float(np.linalg.norm(value.astype(np.float32, copy=False)))


def _at_edge(start: _Point, edge: tuple[float, ...]) -> _Point | None:
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
    return _Point(
        replace(first, data=data), loaded.with_tensors({f"data.{name}": data[name] for name in names}, {})
    )


def _is_narrow(first: StepDefinition) -> bool:
    """Return whether the module computes in bf16, where eager PyTorch's own rounding is the larger part."""
    return first.autocast is not None or any(p.dtype == torch.bfloat16 for p in first.module.parameters())


def _where(first: StepDefinition, apart: Mapping[str, float], step: str) -> str:
    """Say what differs, and the first module whose output does."""
    worst = max(apart, key=lambda name: apart[name])
    what = f"the program's {step} is not PyTorch's: {worst} differs by {apart[worst]:.2g} of its size"
    first = replace(first, outputs=True)
    loaded = draft_of(first).load()
    found, wanted = _Point(first, loaded).program(), eager(first)
    outputs = {name: value for name, value in wanted.items() if name.startswith("output.")}
    limit = TOLERANCE_BF16 if _is_narrow(first) else TOLERANCE
    for name in differences(found, outputs, limit):
        place = loaded.labels.metrics.get(name)
        node = f", node {loaded.labels.nodes[place.node]}" if place is not None else ""
        path, _, call = name.removeprefix("output.").rpartition(".")
        return (
            f"{what}. The first module whose output differs is {path} (call {call}){node}; "
            "write this module with other functions, and report the difference"
        )
    module = worst.removeprefix("gradient.").rpartition(".")[0]
    return (
        f"{what}. All modules' outputs agree, so the loss or the gradient of module {module or 'itself'} does not; "
        "write it with other functions, and report the difference"
    )
