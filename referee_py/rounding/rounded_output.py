"""A rounded evaluation in its own memory, numpy's or a device's, with the operations that `follow` needs.

All elements stay where they are. `follow` reads positions, and the values at few of them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np
from repops.f64.rounding import Rounded, round_to_grid, single

from ..commit.tensor import Array
from ..params import MAX_BITS
from .evaluate import Evaluation
from .primitives import F64, Bool
from .taps import I64
from .thresholds import directed, doubted


class Surface(Protocol):
    """Positions are row-major in the evaluation, int64; results for positions are arrays on the host.

    `rows`, if it is not None, are the rows of the output that the evaluation covers, ascending.
    """

    rows: I64 | None
    elements: int
    """Number of elements of the whole output."""
    width: int
    """Number of elements of a row."""
    narrow: I64
    wide: I64
    """Positions in the band, ascending."""

    def x(self, positions: I64) -> F64:
        """Return the evaluation at these positions."""
        ...

    def values(self, positions: I64) -> Array:
        """Return the rounded values at these positions, f32."""
        ...

    def radius(self, positions: I64) -> F64:
        """Return radii at least as large as the canonical ones; never NaN."""
        ...

    def logged(self, tau: float) -> I64:
        """Return positions with a narrow entry in the dense form: `narrow`, and those that the threshold logs."""
        ...

    def doubted(self, positions: I64, up: Bool, slack: float) -> Bool:
        """Return a mask of directions that may not name the values there, with radii `slack` times as wide."""
        ...

    def put(self, positions: I64, values: Array) -> None:
        """Replace the values at these positions."""
        ...

    def whole(self) -> Any:
        """Return the output."""
        ...


class Elsewhere(Protocol):
    """An evaluation in other memory than numpy's."""

    @property
    def elements(self) -> int:
        """Number of elements of the whole output."""
        ...

    def search(self, bits: int, widen: float) -> Surface:
        """Round the evaluation, and find the positions within `widen` radii of a midpoint."""
        ...


Evaluated = Evaluation | Elsewhere


def search(evaluation: Evaluated, bits: int, widen: float, out: Array | None = None) -> Surface:
    """Round an evaluation, and find the positions in the band. The whole output will be in `out`, if given."""
    if isinstance(evaluation, Evaluation):
        return OnHost(evaluation, bits, widen, out)
    return evaluation.search(bits, widen)


_ZERO = np.zeros((), np.float32)


class OnHost:
    """The surface in numpy's memory, by the kernels."""

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
        # NOTE: adding +0 removes -0.
        if self._bits == MAX_BITS:
            found: Array = np.add(rest, _ZERO, out=self._out)
        else:
            found = single("add", [rest, _ZERO], self._bits, self._out)
        found[self.rows] = self._rounded
        return found


def radius_at(evaluation: Evaluation, positions: I64) -> F64:
    """Return the radius of some elements."""
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
    """Return x as [outer, rows, columns], a factor for each [outer, rows] and a factor for each [outer, columns]."""
    shape, factors = evaluation.x.shape, evaluation.radius.factors
    rank = len(shape)
    if rank >= 2 and len(factors) == 2:  # a product
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
