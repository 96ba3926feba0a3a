"""Comparison of a program's values with eager PyTorch's: element by element, and by place where they are no numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from referee_py.commit.tensor import Array

Values = Mapping[str, Array]
"""Loss, `gradient.<parameter>`, `output.<module>.<call>` and tensors that forward writes to, of one step, by name:
`buffer.<name>`, `frozen.<name>`, and `written.<name>` for a parameter that is trained."""

GRADIENT = "gradient."
"""Beginning of the names of gradients."""
_PIECE = 1 << 18
"""Elements that are compared at once."""
TOLERANCE, TOLERANCE_BF16 = 1e-3, 0.25
"""Largest difference of an element, in units of the largest element of its tensor."""
PRECISE = 1e-4
"""The same in binary64. It is not smaller because programs hold constants of binary32, and approximations for it."""
TWICE = 1e-3
"""The same of two steps of eager PyTorch in FP32, one with copies of the module's tensors: they take the same way."""
AMPLIFIED = 8
"""Factor by which a program may be further from FP64 than eager FP32 is at its worst, if both are the same in FP64."""
BF16_RANGE = 2
"""Factor by which an element of a tensor may be further from FP64 than the furthest of eager PyTorch's autocast is. In
the first step of a ResNet-50 whose last images have one pixel, batch norms of sixteen values make of bf16's rounding
gradients further from FP64 than zero is, in eager PyTorch too. So this says little, and the module is compared in FP32
besides."""


class Comparison:
    """Differences of more than `limit` from the wanted values; each value is given once, when it is computed.

    `narrow` are the names of values that bf16 has rounded on their way. INVARIANT: infinity equals only the same
    infinity, NaN only NaN, each in its place. No element is excused by others. A gradient that PyTorch does not have is
    zero: the parameter of one that is not would be trained, where PyTorch leaves it.
    """

    def __init__(self, wanted: Values, limit: float, narrow: Collection[str] = ()) -> None:
        self._wanted, self._limit, self._narrow = wanted, limit, narrow
        self._sizes = {name: _size(value) for name, value in wanted.items()}
        self._units = _units(self._sizes)
        self._worst = dict.fromkeys(wanted, np.inf)

    def give(self, name: str, found: Array) -> None:
        if name in self._wanted:
            self._worst[name] = _largest_distance(found, self._wanted[name])
        elif _is_new(name, found, self._wanted):  # NOTE: an expert without a token has zeros, or none
            self._worst[name], self._units[name] = np.inf, 1.0

    def apart(self) -> dict[str, float]:
        """Return the values that differ, or were not given, with their differences."""
        shares = {name: worst / self._units[name] for name, worst in self._worst.items()}
        return {name: share for name, share in shares.items() if share > self._limit_of(name)}

    def faint(self) -> list[str]:
        """Return the gradients that differ by more than `limit` of themselves, but not of the largest one."""
        apart = self.apart()
        return [
            name
            for name, size in self._sizes.items()
            if name.startswith(GRADIENT) and name not in self._narrow and name not in apart
            if self._worst[name] > self._limit * size
        ]

    def _limit_of(self, name: str) -> float:
        return TOLERANCE_BF16 if name in self._narrow else self._limit


def differences(found: Values, wanted: Values, limit: float) -> dict[str, float]:
    """Return the values that differ by more than `limit`, with their differences (`Comparison`)."""
    comparison = Comparison(wanted, limit)
    for name, value in found.items():
        comparison.give(name, value)
    return comparison.apart()


def by_themselves(found: Values, wanted: Values, names: Collection[str], limit: float) -> dict[str, float]:
    """Return which of the named values differ by more than `limit` of themselves, however small they are."""
    shares = {}
    for name in names:
        distance = _largest_distance(found[name], wanted[name]) if name in found else np.inf
        shares[name] = distance / max(_size(wanted[name]), 1e-300)
    return {name: share for name, share in shares.items() if share > limit}


def nearer(found: Values, wanted: Values, precise: Values, times: float) -> dict[str, float]:
    """Return the values with an element that is further from the precise one than `times` what eager's furthest of the
    same tensor is, or that is no number where eager's is one."""
    apart = {name: np.inf for name in found if _is_new(name, found[name], wanted)}
    for name, value in precise.items():
        if name not in found or not np.array_equal(_kind(found[name]), _kind(wanted[name])):
            apart[name] = np.inf
            continue
        finite = np.isfinite(wanted[name]) & np.isfinite(value)
        ours, theirs = (
            float(np.abs(x.astype(np.float64) - value)[finite].max(initial=0.0))
            for x in (found[name], wanted[name])
        )
        if ours > times * theirs + 1e-6 * _size(value):
            apart[name] = ours
    return apart


def amplified(found: Values, wanted: Values, precise: Values) -> bool:
    """Return whether the program's rounding takes it at most `AMPLIFIED` times as far from the precise values as eager
    PyTorch's own does, at its worst; and whether it is no number only where one of these is none."""
    units, worst = _units({name: _size(value) for name, value in precise.items()}), [0.0, 0.0]
    for name, value in precise.items():
        right = _distance(found[name], value) <= 1e-5 * units[name]
        if not (right | (_kind(found[name]) == _kind(wanted[name]))).all():
            return False
        for k, other in enumerate((found[name], wanted[name])):
            distance = _distance(other, value)
            finite = np.isfinite(distance)
            worst[k] = max(worst[k], float(distance[finite].max(initial=0.0)) / units[name])
    return worst[0] <= AMPLIFIED * worst[1] + 1e-5


def uncompared(wanted: Values) -> str:
    """Say what eager PyTorch's step has no numbers for, so that only this was compared; "" if it has all."""
    counted = {
        name: (value.size - int(np.isfinite(value).sum()), value.size) for name, value in wanted.items()
    }
    places = {name: pair for name, pair in counted.items() if pair[0]}
    if not places:
        return ""
    count, size = (sum(pair[k] for pair in places.values()) for k in (0, 1))
    shown = ", ".join(sorted(places)[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
    where = f"{count} of {size} values of {shown}"
    return f"{where} are NaN or infinite in PyTorch's step too: there nothing else was compared"


def _units(sizes: Mapping[str, float]) -> dict[str, float]:
    """Return what each value is measured in, of these sizes.

    NOTE: some gradients are differences of much larger terms, so the unit is at least a part of the largest gradient.
    """
    largest = max((size for name, size in sizes.items() if name.startswith(GRADIENT)), default=0.0)
    least = {name: 1e-2 * largest if name.startswith(GRADIENT) else 1e-6 for name in sizes}
    return {name: max(size, least[name], 1e-30) for name, size in sizes.items()}


def _is_new(name: str, found: Array, wanted: Values) -> bool:
    """Return whether a value is a gradient, not zero, that eager PyTorch does not have."""
    return name.startswith(GRADIENT) and name not in wanted and bool(found.any())


def _largest_distance(found: Array, wanted: Array) -> float:
    if found.shape != wanted.shape:
        return np.inf
    return max((_largest(a, b) for a, b in zip(_pieces(found), _pieces(wanted), strict=True)), default=0.0)


def _largest(found: Array, wanted: Array) -> float:
    """Return the largest distance in a piece. NOTE: what is no number, or too large for f32, is looked at closely."""
    if found.dtype == wanted.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = found - wanted
        if np.isfinite(largest := _extent(difference)):
            return largest
    return float(_distance(found, wanted).max())


def _extent(value: Array) -> float:
    """Return the largest absolute value: NaN if one is NaN."""
    return float(np.maximum(value.max(initial=0.0), -value.min(initial=0.0)))


def _pieces(value: Array) -> Iterator[Array]:
    """Yield the elements in pieces, so that what is computed of them in binary64 stays small."""
    flat = value.reshape(-1)
    return (flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE))


def _distance(found: Array, wanted: Array) -> Array:
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(found - wanted)
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    result: Array = np.where(same, 0, np.nan_to_num(distance, nan=np.inf, posinf=np.inf))
    return result


def _kind(value: Array) -> Array:
    """Return 0 for a number, 1 for NaN, 2 and 3 for the infinities."""
    wide = value.astype(np.float64)
    kind: Array = np.where(np.isnan(wide), 1, np.where(np.isinf(wide), np.where(wide > 0, 2, 3), 0))
    return kind


def _size(value: Array) -> float:
    """Return the largest absolute value of the numbers in it."""
    return max((_size_of_piece(piece) for piece in _pieces(value)), default=0.0)


def _size_of_piece(piece: Array) -> float:
    if piece.dtype.kind == "f" and np.isfinite(largest := _extent(piece)):
        return largest
    wide = piece.astype(np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
