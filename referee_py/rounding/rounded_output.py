"""A rounded evaluation where it lies: what the rules of `follow` need of it, in numpy's memory or on a device.

All elements stay where they are. The rules ask for positions, and for what is at few of them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np
from repops.rounding import Rounded, round_to_grid, single

from ..commit.tensor import Array
from .evaluate import Evaluation
from .primitives import F64, MAX_BITS, Bool
from .taps import I64
from .thresholds import directed, doubted


class Surface(Protocol):
    """Positions are row-major in the evaluation, int64; what is given of them are arrays on the host.

    `rows`, if it is not None, are the rows of the output that the evaluation is about, ascending.
    """

    rows: I64 | None
    elements: int
    """Of the whole output."""
    width: int
    """Elements of a row."""
    narrow: I64
    wide: I64
    """Ascending: what lies in the band."""

    def x(self, positions: I64) -> F64:
        """The evaluation there."""
        ...

    def values(self, positions: I64) -> Array:
        """What it is rounded to there, f32."""
        ...

    def radius(self, positions: I64) -> F64:
        """At least the canonical radius; never NaN."""
        ...

    def logged(self, tau: float) -> I64:
        """Those with a narrow entry in the dense form: `narrow`, and what the threshold logs (see `thresholds`)."""
        ...

    def doubted(self, positions: I64, up: Bool, slack: float) -> Bool:
        """Which directions may say otherwise than the values there, by radii that are `slack` times as wide."""
        ...

    def put(self, positions: I64, values: Array) -> None:
        """Other values there."""
        ...

    def whole(self) -> Any:
        """The output."""
        ...


class Elsewhere(Protocol):
    """An evaluation that lies elsewhere than in numpy's memory."""

    @property
    def elements(self) -> int:
        """Of the whole output."""
        ...

    def search(self, bits: int, widen: float) -> Surface:
        """Rounded, with what lies within `widen` radii of a midpoint."""
        ...


Evaluated = Evaluation | Elsewhere


def search(evaluation: Evaluated, bits: int, widen: float, out: Array | None = None) -> Surface:
    """Round an evaluation, and find what lies in the band. The whole output will be in `out`, if it is given."""
    if isinstance(evaluation, Evaluation):
        return OnHost(evaluation, bits, widen, out)
    return evaluation.search(bits, widen)


_ZERO = np.zeros((), np.float32)


class OnHost:
    """By the kernels."""

    def __init__(self, evaluation: Evaluation, bits: int, widen: float, out: Array | None) -> None:
        found = _search(evaluation, bits, widen, out)
        self.rows, self.narrow, self.wide = evaluation.rows, found.narrow, found.wide
        self.elements = evaluation.elements
        self.width = math.prod(evaluation.x.shape[1:])
        self._evaluation, self._bits, self._rounded, self._out = evaluation, bits, found.values, out
        self._x, self._values = evaluation.x.reshape(-1), found.values.reshape(-1)

    def x(self, positions: I64) -> F64:
        return self._x[positions]

    def values(self, positions: I64) -> Array:
        return self._values[positions]

    def radius(self, positions: I64) -> F64:
        return radius_at(self._evaluation, positions)

    def logged(self, tau: float) -> I64:
        radius = self._evaluation.radius.array(self._evaluation.x.shape).reshape(-1)
        chosen = directed(self._x, self._values, radius, self._bits, tau)
        chosen[self.narrow] = True
        return np.flatnonzero(chosen)

    def doubted(self, positions: I64, up: Bool, slack: float) -> Bool:
        radius = self.radius(positions) * slack
        return doubted(self._x[positions], self._values[positions], radius, up, self._bits)

    def put(self, positions: I64, values: Array) -> None:
        self._values[positions] = values

    def whole(self) -> Array:
        rest = self._evaluation.rest
        if rest is None:
            return self._rounded
        # NOTE: with +0 added there is no -0.
        if self._bits == MAX_BITS:
            found: Array = np.add(rest, _ZERO, out=self._out)
        else:
            found = single("add", [rest, _ZERO], self._bits, self._out)
        found[self.rows] = self._rounded
        return found


def radius_at(evaluation: Evaluation, positions: I64) -> F64:
    """The radius of some elements."""
    shape = evaluation.x.shape
    if positions.size > evaluation.x.size // 16:
        found = evaluation.radius.array(shape).reshape(-1)[positions]
    else:
        found = np.ones(positions.size)
        with np.errstate(invalid="ignore"):
            for factor in evaluation.radius.factors:
                found = found * np.broadcast_to(factor, shape).flat[positions]
    return np.where(np.isnan(found), 0.0, found)  # inf * 0: see Radius


def _search(evaluation: Evaluation, bits: int, widen: float, out: Array | None) -> Rounded:
    shape, rows, columns = _laid_out(evaluation)
    x = np.ascontiguousarray(evaluation.x).reshape(shape)
    given = None if out is None or evaluation.rest is not None else out.reshape(shape)
    found = round_to_grid(x, rows, columns, bits, widen, given)
    return found._replace(values=found.values.reshape(evaluation.x.shape))


def _laid_out(evaluation: Evaluation) -> tuple[tuple[int, int, int], F64, F64]:
    """x as [outer, rows, columns] with a factor of each [outer, rows] and one of each [outer, columns]."""
    shape, factors = evaluation.x.shape, evaluation.radius.factors
    rank = len(shape)
    if rank >= 2 and len(factors) == 2:  # of a product
        (left, right), (*batch, m, n) = factors, shape
        if left.shape == (*batch, m, 1) and right.shape == (*batch, 1, n):
            outer = math.prod(batch)
            return (outer, m, n), left.reshape(outer, m), right.reshape(outer, n)
    padded = [np.asarray(f).reshape((1,) * (rank - np.ndim(f)) + np.shape(f)) for f in factors]
    for first, second in itertools.product(range(rank + 1), repeat=2):
        if first > second or len(padded) != 2:
            continue
        for a, b in (padded, reversed(padded)):
            if set(a.shape[second:]) <= {1} and set(b.shape[first:second]) <= {1}:
                sizes = tuple(
                    math.prod(part) for part in (shape[:first], shape[first:second], shape[second:])
                )
                rows = np.broadcast_to(a.reshape(a.shape[:second]), shape[:second]).reshape(sizes[:2])
                middle = b.reshape(b.shape[:first] + b.shape[second:])
                columns = np.broadcast_to(middle, shape[:first] + shape[second:]).reshape(sizes[0], sizes[2])
                return (sizes[0], sizes[1], sizes[2]), rows, columns
    whole = evaluation.radius.array(shape).reshape(1, -1)
    return (1, 1, whole.size), np.ones((1, 1)), np.where(np.isnan(whole), 0.0, whole)
