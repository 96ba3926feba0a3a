"""rnd on torch tensors of any device, and the search of the band (docs/rounding-logs.md).

The operations are those of `referee_py.rounding.primitives` on arrays, so the bits are the same on any device: powers
of two are taken from exponent fields, and nothing but `round` rounds. Tensors are float64 of any shape. There is no
loop over elements, and nothing leaves the device.

NOTE: conversion to binary32 gives the machine's own NaN; `as_f32` makes it the canonical one, in its bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from referee_py.errors import InvalidInput
from referee_py.program.modes import check_bits
from referee_py.rounding.band import APART, NARROW
from referee_py.rounding.primitives import largest

Tensor = torch.Tensor

BLOCK = 1 << 22
"""Elements that are searched at a time: their intermediate values take a few hundred MiB."""
_EXPONENT = 0x7FF << 52
_TOP = 2.0**128
_INF, _NAN = float("inf"), float("nan")
_CANONICAL_NAN = 0x7FC00000


def scale(x: Tensor) -> Tensor:
    """Return 2^max(e, -126) for 2^e <= |x| < 2^(e + 1): see `primitives.scale`."""
    power = (x.view(torch.int64) & _EXPONENT).view(
        torch.float64
    )  # 0 for subnormals, infinity for values that are not finite
    return power.clamp(2.0**-126, 2.0**1023)


def quantum(x: Tensor, b: int) -> Tensor:
    """Return the spacing of grid(b), continued beyond 2^128, in the binade of x."""
    return scale(x) * 2.0 ** (9 - b)


def rnd(x: Tensor, b: int) -> Tensor:
    """Return x rounded to grid(b), to nearest, ties to even, float64: the bits of `primitives.rnd`."""
    _check(x, b)
    q = quantum(x, b)
    return _finish(torch.round(x / q) * q, b)


def as_f32(x: Tensor) -> Tensor:
    """Return values of the grid as float32, NaN canonical, the sign of zero kept."""
    bits = x.float().view(torch.int32)
    return torch.where(x.isnan(), _CANONICAL_NAN, bits).view(torch.float32)


class Band(NamedTuple):
    """`values` f32, NaN canonical and zeros positive; `narrow` and `wide` ascending positions, int64."""

    values: Tensor
    narrow: Tensor
    wide: Tensor


def search(x: Tensor, radius: Tensor, b: int, widen: float) -> Band:
    """Round flat x; find elements at most `widen * radius` from the nearest midpoint, where the radius is not zero.

    The result is that of `f64.rounding.round_to_grid`: narrow elements have a radius below an eighth of a quantum.
    No radius is NaN.
    """
    _check(x, b)
    values, found, wide = [], [], []
    for start in range(0, x.numel(), BLOCK):
        y, r = x[start : start + BLOCK], radius[start : start + BLOCK]
        q = quantum(y, b)
        near = torch.round(y / q) * q
        values.append(as_f32(near + 0.0))  # no -0
        # NOTE: `least` is a lower bound of the distance to a midpoint, so every element of the band is looked at.
        reach = r * widen
        least = torch.minimum(0.5 * q - (y - near).abs(), 0.25 * q)
        at = ((least <= reach) | (y.abs() >= _TOP)).nonzero().reshape(-1)
        y, r, q, near = y[at], r[at], q[at], near[at]
        near_enough = (_midpoint_distance(y, near, q, b) <= r * widen) & (r > 0) & y.isfinite()
        at = at[near_enough]
        found.append(at + start)
        wide.append((r >= NARROW * q)[near_enough])
    if not values:
        none = torch.empty(0, dtype=torch.int64, device=x.device)
        return Band(x.float(), none, none)
    positions, is_wide = torch.cat(found), torch.cat(wide)
    return Band(torch.cat(values), positions[~is_wide], positions[is_wide])


def _midpoint_distance(x: Tensor, near: Tensor, q: Tensor, b: int) -> Tensor:
    """Return the distance to the nearest midpoint of grid(b), where x is finite: see `band.midpoint_distance`."""
    power = q * 2.0 ** (b - 9)
    size, error = x.abs(), (x - near).abs()  # exact
    distance = 0.5 * q - error
    # NOTE: just above a power of two, the cells below are half as wide, and their last midpoint may be the nearest.
    above_power = (size >= near.abs()) & (near.abs() == power) & (power > 2.0**-126)
    distance = torch.where(above_power, torch.minimum(distance, 0.25 * q + error), distance)
    return torch.where(size < _TOP, distance, size - (_TOP - 2.0 ** (135 - b)))


def directed(x: Tensor, values: Tensor, radius: Tensor, b: int, tau: float) -> Tensor:
    """Return which elements the threshold of a dense log logs, bool: see `thresholds.directed`."""
    power = scale(x)
    error = (values.double().clamp(-_TOP, _TOP) - x).abs()
    fine = radius < power * (NARROW * 2.0 ** (9 - b))
    return (error > power * tau) & (error > APART * radius) & fine & (x.abs() < _TOP)


def doubted(x: Tensor, values: Tensor, radius: Tensor, up: Tensor, b: int) -> Tensor:
    """Return which directions may disagree with the values, bool: see `thresholds.doubted`."""
    agreed = torch.where(up, values.double() >= x, values.double() <= x)
    return ~(agreed & x.isfinite() & (radius < NARROW * quantum(x, b)))


def _finish(y: Tensor, b: int) -> Tensor:
    infinite = torch.copysign(torch.full_like(y, _INF), y)
    return torch.where(y.isnan(), _NAN, torch.where(y.abs() > largest(b), infinite, y))


def _check(x: Tensor, b: int) -> None:
    check_bits(b)
    if x.dtype != torch.float64:
        raise InvalidInput(f"values are {x.dtype}; rounding starts from float64")
