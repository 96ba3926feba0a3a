"""Updates of weights by a program, compared with those of PyTorch's own optimizer.

A whole second step would say little: where a gradient is nothing but rounding, Adam makes a step of it whose sign is
anybody's. So both get the same gradients, one for each part of the batch, and what comes after these is computed:

    given gradients of the parts ─> average ─> clipping ─> optimizer, schedule ─> weights and states, twice

One parameter is taken after the other, so that no second model is in memory. How gradients come about is compared
elsewhere (guard.py); that they are those of the rows that the order names, is compared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import repops
import torch
from repops.opset import I64
from repops.torch_arrays import from_numpy, to_numpy

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, TensorType

from .definition import StepDefinition
from .draft import Built, Loaded
from .errors import CaptureError
from .optimizers.torch_twins import Twins
from .step import exactly

STEPS = 2
"""Number of steps: in the second one there are states, and another entry of a schedule."""
TOLERANCE = 1e-3
"""Largest difference of an element, in units of the largest change of its tensor, or of a state's largest element."""
_COARSE: dict[type, float] = {torch.optim.Muon: 0.1}
"""The same for optimizers that PyTorch computes in bf16."""
_DECADES = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)
"""Sizes of the elements of a gradient, by turns: some are of the size of an optimizer's epsilon."""
_LEVELS = (0.5, 3.0)
"""The norm of the gradients of each step, in units of what it is clipped to."""
_ENOUGH = 1 << 16
"""Elements of a parameter that say how each of its elements is updated."""
_ELEMENTWISE = {
    *("add", "sub", "mul", "div", "neg", "maximum", "minimum", "sqrt", "rsqrt", "exp", "log", "pow", "tanh"),
    *("eq", "ne", "lt", "le", "gt", "ge", "where", "logical_and", "logical_or", "logical_not", "cast"),
}
"""Operators that give an element of each element of their operands, and nothing else."""


class NotAlone(Exception):
    """An update that cannot be computed without the forward pass."""


def compare_updates(step: StepDefinition, built: Built) -> str:
    """Compare two updates of each parameter, and the rows of data. Return what was compared, in words.

    Raises CaptureError if they differ.
    """
    frame = _Frame.of(step, built)
    steps = range(1, 1 + min(STEPS, len(step.order)))
    _compare_rows(frame, steps)
    twins = Twins.of(step)
    if twins is None:
        return f"updates by {type(step.optimizer).__name__} were not compared"
    left = list[str]()
    try:
        norms = {t: frame.norm(t) for t in steps} if step.clip_norm is not None else {}
        for name in frame.names:
            try:
                _compare(frame, twins, name, norms, steps)
            except NotAlone:
                left.append(name)
    except NotAlone:
        left = frame.names
    if len(left) >= len(frame.names):
        return "updates of weights were not compared"
    but = f", but for {', '.join(left[:3])}{f' and {len(left) - 3} more' if len(left) > 3 else ''}"
    count = "two updates" if len(steps) > 1 else "an update"
    return f"weights and states after {count} by given gradients are {twins.name}'s{but if left else ''}"


def _compare_rows(frame: _Frame, steps: Sequence[int]) -> None:
    """Raise CaptureError if a part of a batch is not of the rows that the order names."""
    step = frame.step
    size = step.order.shape[1] // step.parts
    for t in steps:
        for name, array in exactly(step.data).items():
            for k in range(step.parts):
                place = frame.marks.get(f"part.{k}.data.{name}")
                rows = step.order[t - 1, k * size : (k + 1) * size]
                if place is not None and not np.array_equal(frame.value(place, t, alone=False), array[rows]):
                    raise CaptureError(
                        f"part {k} of the program's batch of step {t} is not of the rows of {name} that the order "
                        "names; report this"
                    )


def _compare(
    frame: _Frame, twins: Twins, name: str, norms: Mapping[int, torch.Tensor], steps: Sequence[int]
) -> None:
    rows = frame.rows(name, steps)
    start = frame.start(name, rows)
    weight = torch.nn.Parameter(from_numpy(start.copy()))
    twin = twins.twin(name, weight)
    # NOTE: an average begins with the weights.
    begun = (label for label in (f"param.{name}", f"average.{name}") if label in frame.slots)
    slots = {frame.slots[label]: start for label in begun}
    limit = _COARSE.get(type(frame.step.optimizer), TOLERANCE)
    begins = start
    for t in steps:
        if (written := frame.written(name, t, slots, rows)) is not None:
            begins = written
            weight.data.copy_(from_numpy(written))
        weight.grad = frame.gradient(name, t, rows)
        if frame.step.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_([weight], frame.step.clip_norm, norms[t])
        if frame.step.clip_value is not None:
            torch.nn.utils.clip_grad_value_([weight], frame.step.clip_value)
        states = twin(t)
        wanted = {f"param.{name}": weight.detach(), **states}
        places = {label: frame.slots[label] for label in wanted if label in frame.slots}
        slots |= dict(zip(places.values(), frame.after(list(places.values()), t, slots, rows), strict=True))
        for label, index in places.items():
            theirs = to_numpy(wanted[label].detach().float().contiguous())
            apart = _distance(slots[index], theirs, begins if label == f"param.{name}" else None)
            if apart > limit:
                raise CaptureError(
                    f"the program's update is not PyTorch's: {label} differs after step {t}, with the same gradients, "
                    f"by {apart:.2g} of its {'change' if label == f'param.{name}' else 'size'}; write the optimizer "
                    "as an UpdateRule, and report the difference"
                )


def _distance(found: Array, wanted: Array, start: Array | None) -> float:
    """Return the largest difference of an element, beyond rounding, in units of the largest change of the tensor."""
    if found.shape != wanted.shape:
        return np.inf
    if not found.size:
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(found - wanted)
        difference -= np.float32(2.0**-20) * np.abs(wanted)
    unit = np.abs(wanted if start is None else wanted - start).max(initial=0.0, where=np.isfinite(wanted))
    if not np.isfinite(largest := float(difference.max())):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        largest = float(np.where(same, 0, np.nan_to_num(difference, nan=np.inf, posinf=np.inf)).max())
    return largest / max(float(unit), 1e-37) if largest > 0 else 0.0


@dataclass
class _Frame:
    """A program whose gradients are given: what comes before them, and after them, can be computed alone."""

    step: StepDefinition
    loaded: Loaded
    marks: Mapping[str, Operand]
    slots: dict[str, int]
    given: dict[int, tuple[str, int]]
    """The parameter and the part of a given gradient, by its node."""
    hidden: list[bool]
    """For each node, whether it reads data other than through a given gradient."""

    def __post_init__(self) -> None:
        self.names = [n.removeprefix("param.") for n in self.slots if n.startswith("param.")]
        self.names = [
            n for n in self.names if any(f"part.{k}.gradient.{n}" in self.marks for k in self._parts)
        ]
        self._execute = repops.backend("cpu").execute
        self._small: dict[int, dict[int, Sequence[Array]]] = {}
        self._base: tuple[str, int, int | None, Array] | None = None
        weights = sum(self.loaded.initial[self.slots[f"param.{n}"]].size for n in self.names)
        self._usual = max(weights, 1) ** 0.5 / (3 * len(_DECADES)) ** 0.5 * abs(np.mean(self._shares()))

    @property
    def _parts(self) -> range:
        return range(self.step.parts)

    @classmethod
    def of(cls, step: StepDefinition, built: Built) -> _Frame:
        loaded = built.loaded
        data = {k for k, label in enumerate(loaded.labels.constants) if label.startswith(("data.", "table."))}

        def reads(cut: Mapping[int, object]) -> list[bool]:
            found: list[bool] = []
            for k, node in enumerate(loaded.skeleton.nodes):
                found.append(
                    k not in cut
                    and any(
                        found[i.index] if i.kind == Kind.NODE else i.kind == Kind.CONSTANT and i.index in data
                        for i in node.inputs
                    )
                )
            return found

        of_data, given = reads({}), dict[int, tuple[str, int]]()
        for mark, place in built.marks.items():
            if not mark.startswith("part."):
                continue
            _, part, kind, name = mark.split(".", 3)
            if (
                kind == "gradient"
                and of_data[place.index]
                and len(loaded.skeleton.nodes[place.index].outputs) == 1
            ):
                given.setdefault(place.index, (name, int(part)))
        slots = {label: k for k, label in enumerate(loaded.labels.slots)}
        return cls(step, loaded, built.marks, slots, given, reads(given))

    def written(self, name: str, t: int, before: Mapping[int, Array], rows: int | None) -> Array | None:
        """Return what the forward pass of step t leaves of a parameter that it writes to, with this value before it.

        None for a parameter that it does not write to. Raises NotAlone if that depends on data.
        """
        place = self.marks.get(f"written.{name}")
        return None if place is None else self._values([place], t, before, rows=rows)[0].copy()

    def rows(self, name: str, steps: Sequence[int]) -> int | None:
        """Return how many rows of a parameter say all: some, if each element is updated by itself; None for all."""
        slots = [k for label, k in self.slots.items() if label.endswith(f".{name}")]
        shape = self.loaded.skeleton.initial[self.slots[f"param.{name}"]].shape
        rows = max(_ENOUGH // max(int(np.prod(shape[1:])), 1), 1) if shape else 1
        if not shape or rows >= shape[0]:
            return None
        for node in (
            self.loaded.skeleton.nodes[k] for t in steps for k in self._needed(map(self._source, slots), t)
        ):
            types = [*node.outputs, *(self._type(i) for i in node.inputs)]
            large = [type_ for type_ in types if type_.count != 1]
            if large and (node.name not in _ELEMENTWISE or any(type_.shape != shape for type_ in large)):
                return None
        return rows

    def _type(self, operand: Operand) -> TensorType:
        match operand.kind:
            case Kind.CONSTANT:
                return self.loaded.skeleton.constants[operand.index]
            case Kind.SLOT:
                return self.loaded.skeleton.initial[operand.index]
            case Kind.NODE:
                return self.loaded.skeleton.nodes[operand.index].outputs[operand.output]
        return TensorType(I64, ())

    def start(self, name: str, rows: int | None) -> Array:
        """Return the value from which a parameter is updated. NOTE: a change of any size is seen where it is 0."""
        value = _first(self.loaded.initial[self.slots[f"param.{name}"]], rows).copy()
        value.reshape(-1)[1::2] = 0
        return value

    def gradient(self, name: str, t: int, rows: int | None = None) -> torch.Tensor:
        """Return the average of a parameter's gradients over the parts, as PyTorch adds them up."""
        total: torch.Tensor | None = None
        for k in self._parts:
            place = self.marks.get(f"part.{k}.gradient.{name}")
            if place is None or self._reads_weights(place, t):
                raise NotAlone
            share = from_numpy(np.array(_first(self.value(place, t, rows=rows), rows))) / self.step.parts
            total = share if total is None else total.add_(share)
        assert total is not None
        return total

    def _reads_weights(self, place: Operand, t: int) -> bool:
        """Return whether a gradient is made of the state alone, as a penalty's, so that it cannot be given."""
        nodes = self.loaded.skeleton.nodes
        return any(i.kind == Kind.SLOT for k in self._needed([place], t) for i in nodes[k].inputs)

    def norm(self, t: int) -> torch.Tensor:
        """Return the common norm of all gradients."""
        norms = [torch.linalg.vector_norm(self.gradient(name, t)) for name in self.names]
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return total

    def after(
        self, slots: Sequence[int], t: int, before: Mapping[int, Array], rows: int | None
    ) -> list[Array]:
        """Return these slots after step t, with these values before it; in the first one, others have their own."""
        return self._values([self._source(slot) for slot in slots], t, before, rows=rows)

    def _source(self, slot: int) -> Operand:
        source = self.loaded.skeleton.slots[slot]
        return Operand(Kind.NODE, source.node, source.output)

    def value(self, place: Operand, t: int, alone: bool = True, rows: int | None = None) -> Array:
        return self._values([place], t, {}, alone, rows if place.index in self.given else None)[0]

    def _values(
        self,
        places: Sequence[Operand],
        t: int,
        before: Mapping[int, Array],
        alone: bool = True,
        rows: int | None = None,
    ) -> list[Array]:
        """Return values in step t, or their first rows. Raises NotAlone for one that needs the forward pass."""
        nodes, small = self.loaded.skeleton.nodes, self._small.setdefault(t, {})
        order = self._needed(places, t)
        if alone and any(self.hidden[k] for k in order):
            raise NotAlone
        last = {i.index: k for k in order for i in nodes[k].inputs if i.kind == Kind.NODE}
        last |= {place.index: len(nodes) for place in places}
        values: dict[int, Sequence[Array]] = {}

        def read(operand: Operand) -> Array:
            match operand.kind:
                case Kind.STEP:
                    return np.array(t, np.int64)
                case Kind.CONSTANT:
                    return self.loaded.constants[operand.index]
                case Kind.SLOT if operand.index in before:
                    return before[operand.index]
                case Kind.SLOT if t == 1:
                    return _first(self.loaded.initial[operand.index], rows)
                case Kind.SLOT:
                    raise NotAlone
            if operand.index in self.given:
                return self._given(operand.index, t, rows)
            found = values[operand.index] if operand.index in values else small[operand.index]
            return found[operand.output]

        for k in order:
            values[k] = self._execute(nodes[k].name, [read(i) for i in nodes[k].inputs], nodes[k].attrs)
            if all(type_.count == 1 for type_ in nodes[k].outputs):
                small[k] = values[k]
            for done in {i.index for i in nodes[k].inputs if i.kind == Kind.NODE}:
                if last[done] == k:
                    values.pop(done, None)
        return [read(place) for place in places]

    def _needed(self, places: Iterable[Operand], t: int) -> list[int]:
        """Return the nodes that must be computed for values, in order."""
        small, found = self._small.setdefault(t, {}), set[int]()
        stack = [place.index for place in places if place.kind == Kind.NODE]
        while stack:
            k = stack.pop()
            if k in found or k in self.given or k in small:
                continue
            found.add(k)
            stack += [i.index for i in self.loaded.skeleton.nodes[k].inputs if i.kind == Kind.NODE]
        return sorted(found)

    def _shares(self) -> list[float]:
        """Return the factor of each part's gradient."""
        return [(1.0, -0.5, 0.25, 0.75)[k % 4] for k in self._parts]

    def _given(self, node: int, t: int, rows: int | None) -> Array:
        """Return a gradient that is given: the same numbers for each part, with a factor of its own."""
        name, part = self.given[node]
        if self._base is None or self._base[:3] != (name, t, rows):
            shape = self.loaded.skeleton.nodes[node].outputs[0].shape
            self._base = name, t, rows, self._drawn(name, t, shape if rows is None else (rows, *shape[1:]))
        return np.asarray(self._base[3] * np.float32(self._shares()[part]))

    def _level(self, t: int) -> float:
        """Return the size of gradients in step t: if they are clipped, they are in one of the steps."""
        if self.step.clip_norm is not None:
            return float(_LEVELS[(t - 1) % len(_LEVELS)] * self.step.clip_norm / self._usual)
        return 0.01 if self.step.clip_value is None else 3 * self.step.clip_value

    def _drawn(self, name: str, t: int, shape: tuple[int, ...]) -> Array:
        """Return the numbers of a gradient. NOTE: those of its first rows are the first ones."""
        numbers = np.random.default_rng([t, *name.encode()])
        drawn = numbers.random(int(np.prod(shape)), np.float32)
        drawn *= 2
        drawn -= 1
        for k, size in enumerate(_DECADES):
            drawn[k :: len(_DECADES)] *= np.float32(size * self._level(t))
        return drawn.reshape(shape)


def _first(value: Array, rows: int | None) -> Array:
    """Return the first rows of a tensor; a scalar as it is."""
    return value[:rows] if value.ndim and value.size > 1 else value
