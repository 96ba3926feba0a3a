"""Measures how far evaluators are apart on the operators of a program, and what the resulting logs hold.

The first evaluator computes the steps and writes their logs. At each operator the others evaluate the same inputs,
which they would have by its log. Two values within r of the exact value are at most 2 r apart.

divergence   distance between the lowest and the highest value of an element
apart        elements that are rounded differently
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.program.modes import Bounds, Rounding
from referee_py.rounding.backend import Evaluator, Rounded
from referee_py.rounding.band import NARROW, WRITTEN_WITHIN
from referee_py.rounding.environment import sound
from referee_py.rounding.evaluate import Evaluation, Radius
from referee_py.rounding.log_source import DryRunLogs
from referee_py.rounding.primitives import F64, FIXED_TAU, NOT_LOGGED, Bool, log, quantum, rnd, threshold
from referee_py.rounding.rounded_output import Evaluated, search
from referee_py.rounding.thresholds import terms_by_shape

from .calibration import Calibration, Threshold

if TYPE_CHECKING:
    from .device import TensorEvaluation, TensorEvaluator

_CELLS = 8  # cells of a histogram per binade
_SHIFT = 49  # leaves the exponent and three bits of the mantissa of a float64
_LEAST = (1023 - 64) * _CELLS  # the cell of 2^-64 quanta; smaller values are counted there

I64 = npt.NDArray[np.int64]


@dataclass
class Tally:
    """Measurements of one operator with this many terms."""

    operator: str
    terms: int
    bits: int
    elements: int = 0
    apart: int = 0
    """Elements apart that a direction repairs. The others have wide entries, or need none."""
    quanta: float = 0.0
    """The largest divergence of elements that a direction repairs, in quanta."""
    of_proven: float = 0.0
    """The largest divergence as a share of the element's proven radius; `of_probable` of its probable radius."""
    of_probable: float = 0.0
    in_proven: int = 0
    """Elements in the band, which a sparse log covers, with proven bounds; `in_probable` with probable ones."""
    in_probable: int = 0
    at_fixed: int = 0
    """Elements that algorithm 1 logs with the fixed threshold."""
    tau: float = field(default=0.0)
    cells: I64 = field(default_factory=lambda: np.zeros(64 * _CELLS, dtype=np.int64), repr=False)
    """Histogram of the elements by half a quantum minus their distance to their rounding, in quanta."""

    def __post_init__(self) -> None:
        self.tau = self.tau or threshold(np.zeros(0), np.zeros(0), self.bits)  # nothing diverged yet

    @property
    def at_tau(self) -> int:
        """Approximate number of elements that algorithm 1 logs with the threshold found."""
        limit = 0.5 - self.tau * 2.0 ** (self.bits - 9)
        cell = int(np.float64(limit).view(np.int64)) >> _SHIFT
        low, high = (np.int64(k << _SHIFT).view(np.float64) for k in (cell, cell + 1))
        place = min(max(cell - _LEAST, 0), self.cells.size - 1)
        return int(self.cells[:place].sum() + self.cells[place] * (limit - low) / (high - low))

    def look(self, evaluations: Sequence[Evaluation]) -> None:
        """Count the evaluations of one node: the first has proven radii, all others probable ones.

        Raises InvalidInput for evaluations that are further apart than the proven bounds allow.
        """
        rows = next((e.rows for e in evaluations if e.rows is not None), None)
        values = [_of_rows(e.x, e, rows) for e in evaluations]
        first, second = evaluations[:2]
        proven, probable = (_of_rows(_radius(e), e, rows) for e in (first, second))
        x, bits = values[0], self.bits
        for evaluation, name in ((first, "in_proven"), (second, "in_probable")):
            found = search(evaluation, bits, WRITTEN_WITHIN)
            setattr(self, name, getattr(self, name) + found.narrow.size + found.wide.size)
        self.elements += x.size
        finite = np.all([np.isfinite(v) for v in values], axis=0)
        values = [v[finite] for v in values]
        x, proven, probable = values[0], proven[finite], probable[finite]
        low, high = np.minimum.reduce(values), np.maximum.reduce(values)
        apart, q = high - low, quantum(x, bits)
        self._check(apart, proven)
        free = proven > 0
        self.of_proven = max(self.of_proven, float((apart[free] / proven[free]).max(initial=0.0)))
        self.of_probable = max(self.of_probable, float((apart[free] / probable[free]).max(initial=0.0)))
        directed = proven < NARROW * q
        self.quanta = max(self.quanta, float((apart[directed] / q[directed]).max(initial=0.0)))
        self._thresholds([v[directed] for v in values], rnd(low, bits)[directed] != rnd(high, bits)[directed])
        self.at_fixed += int((log(x, bits, FIXED_TAU) != NOT_LOGGED).sum())
        missing = np.maximum(0.5 - np.abs(np.rint(x / q) - x / q), 2.0**-64)
        cells = (missing.view(np.int64) >> _SHIFT) - _LEAST
        self.cells += np.bincount(cells, minlength=self.cells.size)[: self.cells.size]

    def _thresholds(self, values: Sequence[F64], apart: Bool) -> None:
        """Run algorithm 4 on every pair of evaluators. The threshold for all is the least of the pairs'."""
        self.apart += int(apart.sum())
        if apart.any():
            for y1, y2 in combinations([v[apart] for v in values], 2):
                self.tau = min(self.tau, threshold(y1, y2, self.bits))

    def _check(self, apart: F64, proven: F64) -> None:
        beyond = np.flatnonzero(apart > 2 * proven)
        if beyond.size:
            k = int(beyond[0])
            raise InvalidInput(
                f"{self.operator} of {self.terms} terms: evaluators are {apart[k]:.3g} apart, and within the proven "
                f"bounds two are at most {2 * proven[k]:.3g} apart; leave out the one that does not add in binary64"
            )


class Fetched:
    """An evaluator of a device among those that compute on arrays: it copies operands there and results back."""

    device = None

    def __init__(self, name: str, evaluator: TensorEvaluator) -> None:
        self.name = name
        self._evaluator = evaluator

    def check(self) -> None:
        self._evaluator.check()

    def evaluate(
        self, name: str, inputs: Sequence[Array], attrs: Mapping[str, Any], bounds: Bounds
    ) -> Evaluation:
        return self._fetch(self._evaluator.evaluate(name, self._placed(inputs), attrs, bounds))

    def product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        left, right = self._placed([a, b])
        return self._fetch(self._evaluator.product(left, right, bounds))

    def single(self, name: str, inputs: Sequence[Array], bits: int) -> Array:
        found: Array = self._evaluator.single(name, self._placed(inputs), bits).cpu().numpy()
        return found

    def _placed(self, inputs: Sequence[Array]) -> list[Any]:
        return [self._evaluator.device.place(np.ascontiguousarray(v).reshape(v.shape)) for v in inputs]

    @staticmethod
    def _fetch(found: TensorEvaluation) -> Evaluation:
        rest = None if found.rest is None else found.rest.cpu().numpy()
        radius = Radius(tuple(factor.cpu().numpy() for factor in found.factors))
        return Evaluation(found.x.cpu().numpy(), radius, found.rows, rest)


class Compared(Rounded):
    """Executes steps with the first evaluator, and evaluates with the others at every operator that has a log."""

    def __init__(self, bits: int, evaluators: Sequence[Evaluator]) -> None:
        first, *self._others = evaluators
        if not self._others:
            raise InvalidInput(f"one evaluator, {first.name}, diverges from nothing; name two or more")
        super().__init__(Rounding(bits), DryRunLogs(), first)
        self.on_look: Callable[[Tally], None] = lambda _: None
        """Called after each node that was compared."""
        self._tallies: dict[tuple[str, int], Tally] = {}

    @property
    def tallies(self) -> list[Tally]:
        """The tallies by operator and number of terms."""
        return [self._tallies[key] for key in sorted(self._tallies)]

    def calibration(self, program: bytes, steps: int) -> Calibration:
        """Return the calibration to write after this many steps."""
        return Calibration(
            bits=self.rounding.bits,
            program=program.hex(),
            steps=steps,
            evaluators=[evaluator.name for evaluator in (self.evaluator, *self._others)],
            thresholds=[
                Threshold(operator=t.operator, terms=t.terms, elements=t.elements, tau=t.tau)
                for t in self.tallies
            ],
        )

    def _check(self) -> None:
        super()._check()
        for other in self._others:
            other.check()

    def round(
        self,
        node: int,
        name: str,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any],
        evaluation: Evaluated,
        out: Array | None = None,
        rounding: Rounding | None = None,
    ) -> Any:
        """Compare the evaluators, then round as without the others. NOTE: results of bf16 are not compared, since a
        threshold is for one grid."""
        if rounding is not None:
            return super().round(node, name, inputs, attrs, evaluation, out, rounding)
        with sound("an evaluator"):
            others = [other.evaluate(name, inputs, attrs, Bounds.PROBABLE) for other in self._others]
        terms = terms_by_shape(name, inputs, attrs)
        tally = self._tallies.setdefault((name, terms), Tally(name, terms, self.rounding.bits))
        tally.look([_on_arrays(e) for e in (evaluation, *others)])
        self.on_look(tally)
        return super().round(node, name, inputs, attrs, evaluation, out)


def _on_arrays(evaluation: Evaluated) -> Evaluation:
    assert isinstance(evaluation, Evaluation), "evaluators of devices are compared as `Fetched`"
    return evaluation


def _radius(evaluation: Evaluation) -> F64:
    found = evaluation.radius.array(evaluation.x.shape)
    return np.where(np.isnan(found), 0.0, found)  # inf * 0: see Radius


def _of_rows(array: F64, evaluation: Evaluation, rows: I64 | None) -> F64:
    """Return these rows of the output, flat. NOTE: rows that an evaluator leaves out receive no sum."""
    chosen = array if rows is None or evaluation.rows is not None else array[rows]
    return np.ascontiguousarray(chosen).reshape(-1)
