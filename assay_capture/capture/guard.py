"""The guard: compares steps of the program with those of eager PyTorch, before anybody pays for a run.

Tracing can drop an effect silently: a write behind PyTorch's back, a decomposition or a rule that is wrong. So loss,
gradients and written tensors are compared, element by element (agreement.py), at four points:

    the first step, with the real weights and the first batch ── differs? ──> again, with modules' outputs as metrics:
    weights moved against the gradient, another batch                         the first module that differs
    inputs near zero, and at the largest numbers of their dtype

What draws, draws the same fixed numbers on both sides (draws.py); dropout is left out. Where rounding moves activations
across kinks, so that single elements differ by tenths, both are computed in binary64 (precise.py): two right steps
agree there. No element is excused by what others are. What becomes of the gradients is compared by itself (updates.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from referee_py.commit.tensor import Array

from .agreement import GRADIENT, TOLERANCE, TOLERANCE_BF16, differences, uncompared
from .definition import Initial, StepDefinition
from .draft import Built, Loaded
from .draws import FixedObjective, without_dropout
from .eager import eager, eager_called, objective_of
from .errors import CaptureError
from .evaluate import narrow_outputs
from .given_data import compare_scales, compare_types
from .optimizers import SGD
from .point import EDGES, LATER, START, WRITTEN, Point, at_edge, moved_from
from .process import give_memory_back, process_kept
from .stages import EAGER, ELSEWHERE, PROGRAM, Tell, silent
from .step import draft_of, lowered, traced_of
from .trace import Traced
from .updates import compare_updates

_OF_MODULE = ("param.", "frozen.", "buffer.")
"""Beginnings of the labels of a program's tensors that are the module's."""
NOT_COMPARED = "not compared with PyTorch: nobody has checked that this program is the model's training step"
"""Words in a bundle that was built without the guard."""


@dataclass(frozen=True)
class Compared:
    """Comparisons that were made, in words, and the losses by the point: the program's, and eager PyTorch's."""

    words: str
    losses: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def is_made(self) -> bool:
        return not self.words.startswith("not compared")


def check_first_step(
    step: StepDefinition,
    traced: Traced,
    built: Built,
    tell: Tell = silent,
    given: Mapping[str, Array] | None = None,
) -> Compared:
    """Compare steps of the first part of a batch. Return what was compared.

    `traced` and `built` are the step's graph and its program, so that neither is made again; `given` is the data in the
    types in which it was given. Raises CaptureError if the two differ.
    """
    arrays = dict(zip(built.labels.slots, built.initial, strict=True))
    arrays |= dict(zip(built.labels.constants, built.constants, strict=True))
    of_module = {label.partition(".")[2]: a for label, a in arrays.items() if label.startswith(_OF_MODULE)}
    known: Initial = {name: partial(_same, array) for name, array in of_module.items()}
    with process_kept():
        found = _checked(replace(step, initial={**(step.initial or {}), **known}), traced, tell, given)
        if not found.is_made:
            return found
        return replace(found, words=f"{found.words}; {compare_updates(step, built)}")


def _same(array: Array) -> Array:
    """Return the array. NOTE: a function's result is not copied, as an array would be."""
    return array


def _checked(
    step: StepDefinition, traced: Traced | None, tell: Tell, given: Mapping[str, Array] | None = None
) -> Compared:
    tensors = [*step.module.parameters(), *step.module.buffers()]
    if any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
        return Compared("not compared with PyTorch: the module has no values")
    fixed = FixedObjective.around(objective_of(step))
    first = StepDefinition(
        *(step.module, fixed, SGD(0.0), step.data),
        step.order[:1, : step.order.shape[1] // step.parts],
        step.initial,
        tables={name: table[:1, :1] for name, table in (step.tables or {}).items()},
        expert_capacity=step.expert_capacity,
        autocast=step.autocast,
        gradients=True,
    )
    with without_dropout(), fixed.generators:
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
        start = Point(
            first,
            loaded,
            narrow_outputs(loaded) if fixed.narrow[0] or _has_bf16(first, loaded) else frozenset(),
        )
        comparison = start.compared(start.with_unwritten(wanted), START)
        apart, faint = comparison.apart(), comparison.faint()
        if apart and not start.is_rounding():
            raise CaptureError(_where(start, apart, "first step"))
        if lost := start.faint(wanted, faint):
            raise CaptureError(_where(start, lost, "first step"))
        compare_types(first, wanted, given or {})
        compare_scales(first, wanted, step.parts)
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


def _said(point: Point, apart: Mapping[str, float]) -> str:
    if apart and point.first.autocast is not None:
        return "rounding to bf16 takes the first step as far from FP64 as PyTorch's"
    if apart:
        return "loss and gradients of the first step are those of PyTorch in FP64; in FP32 both are moved by rounding"
    return "loss and gradients of the first step are those of PyTorch"


def _elsewhere(start: Point, step: StepDefinition, wanted: dict[str, Array]) -> Iterator[str]:
    """Compare at the other points. Yield what was compared, in words."""
    points: dict[str, Point | None] = {LATER: moved_from(start, step, wanted)}
    if not start.narrow:
        points |= {f"with inputs {name}": at_edge(start, values) for name, values in EDGES.items()}
    same, unlike = [], []
    for name, point in points.items():
        if point is None:
            continue
        give_memory_back()
        try:
            at_point = point.eager()
        except (
            RuntimeError,
            ValueError,
            IndexError,
        ):  # NOTE: PyTorch may look at values, and refuse what no data has
            unlike.append(f"{name} PyTorch raises an error")
            continue
        give_memory_back()
        apart = point.compared(at_point, name).apart()
        if not apart or point.is_rounding(bounded=name == LATER):
            same.append(name)
        elif step.autocast is not None:
            unlike.append(
                f"{name} rounding to bf16 is larger than what would be seen; {_without_autocast(step)}"
            )
        elif point.narrow:
            unlike.append(f"{name} bf16 was not compared")
        elif name == LATER or _finite_f64(point.first):
            raise CaptureError(_where(point, apart, f"step {name}"))
        else:
            unlike.append(f"{name} both overflow, and differ in where")
    if same:
        yield f"so are those {', '.join(same)}"
    yield from unlike


def _finite_f64(first: StepDefinition) -> bool:
    """Return whether eager PyTorch's step has a value in FP64, so that a program's must be that."""
    try:
        return all(
            bool(np.isfinite(value.astype(np.float32)).all()) for value in eager_called(first).values()
        )
    except Exception:
        return False


def _has_bf16(first: StepDefinition, loaded: Loaded) -> bool:
    """Return whether a step reads tensors in bf16. NOTE: that its program computes in bf16, may be what is wrong."""
    read = {label.partition(".")[2] for label in (*loaded.labels.constants, *loaded.labels.metrics)}
    read |= {label.partition(".")[2] for label in loaded.labels.slots if not label.startswith("param.")}
    narrow = (name for name, p in first.module.named_parameters() if p.dtype == torch.bfloat16)
    return first.autocast is not None or any(name in read for name in narrow)


def _where(point: Point, apart: Mapping[str, float], step: str) -> str:
    """Say what differs, and the first module whose output does."""
    worst = max(apart, key=lambda name: apart[name])
    what = f"the program's {step} is not PyTorch's: {worst} differs by {apart[worst]:.2g} of its size"
    if apart[worst] == np.inf and worst.startswith(GRADIENT) and worst not in eager(point.first):
        return (
            f"the program's {step} is not PyTorch's: it has a {worst.replace('.', ' of ', 1)}, and PyTorch has none; "
            "activation checkpointing with use_reentrant=True cuts gradients of what its inputs have none of: pass "
            "use_reentrant=False, or freeze the parameter"
        )
    first = replace(point.first, outputs=True)
    loaded = draft_of(first).load()
    found, wanted = Point(first, loaded, point.narrow).program(), eager(first)
    outputs = {name: value for name, value in wanted.items() if name.startswith("output.")}
    found = {name: value for name, value in found.items() if name in outputs}
    for name in differences(found, outputs, TOLERANCE_BF16 if point.narrow else TOLERANCE):
        place = loaded.labels.metrics.get(name)
        node = f", node {loaded.labels.nodes[place.node]}" if place is not None else ""
        path, _, call = name.removeprefix("output.").rpartition(".")
        return (
            f"{what}. The first module whose output differs is {path} (call {call}){node}; "
            "write this module with other functions, and report the difference"
        )
    if worst.partition(".")[0] in WRITTEN:
        return f"{what}. All modules' outputs agree, so what is written to it does not; write it with other functions"
    module = worst.removeprefix(GRADIENT).rpartition(".")[0]
    return (
        f"{what}. All modules' outputs agree, so the loss or the gradient of module {module or 'itself'} does not; "
        "write it with other functions, and report the difference"
    )
