"""rnd, log, rev and threshold on torch tensors of any device, and the search of the band (docs/rounding-logs.md).

The operations are those of `referee_py.rounding.primitives` on arrays, so the bits are the same on any device: powers
of two are taken from exponent fields, and nothing but `round` rounds. Tensors are float64 of any shape. There is no
loop over elements, and only the number that `threshold` gives leaves the device.

NOTE: conversion to binary32 gives the machine's own NaN; `as_f32` makes it the canonical one, in its bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from referee_py.errors import InvalidInput
from referee_py.program.mode import check_bits
from referee_py.rounding.band import APART, NARROW
from referee_py.rounding.primitives import DOWN, NOT_LOGGED, UP, bisected, check_tau, largest

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


def log(x: Tensor, b: int, tau: float) -> Tensor:
    """Algorithm 1, uint8: return the rounding direction of each element that is further than tau from the grid.

    Raises InvalidInput for a tau outside of 0 to half a quantum.
    """
    _check(x, b)
    check_tau(tau, b)
    x = torch.where(x.abs() < _TOP, x, 0.0)
    q = quantum(x, b)
    error = torch.round(x / q) * q - x  # exact
    logged = error.abs() > scale(x) * tau
    direction = torch.where(error > 0, UP, DOWN)
    return torch.where(logged, direction, NOT_LOGGED).to(torch.uint8)


def rev(x: Tensor, b: int, entry: Tensor) -> Tensor:
    """Return x rounded in the direction of each entry, uint8 of x's shape: see `primitives.rev`.

    Raises InvalidInput for an entry above 2 or of another shape.
    """
    _check(x, b)
    if entry.shape != x.shape or entry.dtype != torch.uint8:
        raise InvalidInput(
            f"entries are {entry.dtype}{tuple(entry.shape)} for values of shape {tuple(x.shape)}; use uint8"
        )
    if entry.numel() and int(entry.max()) > UP:
        raise InvalidInput(f"an entry is {int(entry.max())}; an entry is 0, 1 or 2")
    q = quantum(x, b)
    scaled = x / q
    up = torch.where(entry == UP, torch.ceil(scaled), torch.round(scaled))
    return _finish(torch.where(entry == DOWN, torch.floor(scaled), up) * q, b)


def threshold(y1: Tensor, y2: Tensor, b: int, iterations: int = 40) -> float:
    """Algorithm 4: return the largest tau by bisection that logs every divergence of two outputs.

    See `primitives.threshold`. Raises InvalidInput if there is none.
    """
    _check(y1, b)
    _check(y2, b)
    if y1.shape != y2.shape or iterations < 1:
        shapes = tuple(y1.shape), tuple(y2.shape)
        raise InvalidInput(
            f"shapes {shapes[0]} and {shapes[1]}, {iterations} iterations; use one shape, 1 or more"
        )
    r1, r2 = rnd(y1, b), rnd(y2, b)
    differ = (r1 != r2) & ~(r1.isnan() & r2.isnan())
    unrepaired = differ & ((rev(y1, b, log(y2, b, 0.0)) != r2) | (rev(y2, b, log(y1, b, 0.0)) != r1))
    if bool(unrepaired.any()):
        first = int(unrepaired.reshape(-1).nonzero()[0])
        pair = float(y1.reshape(-1)[first]), float(y2.reshape(-1)[first])
        raise InvalidInput(
            f"element {first}: {pair[0]!r} and {pair[1]!r} diverge by more than a direction can repair at b = {b}; "
            "round to fewer bits, or use the sparse format"
        )
    distances = torch.cat([_relative_error(y1[differ], b), _relative_error(y2[differ], b)])
    return bisected(float(distances.min()) if distances.numel() else _INF, b, iterations)


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

    The result is that of `repops.rounding.round_to_grid`: narrow elements have a radius below an eighth of a quantum.
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


def _relative_error(y: Tensor, b: int) -> Tensor:
    q = quantum(y, b)
    return (torch.round(y / q) * q - y).abs() / scale(y)


def _finish(y: Tensor, b: int) -> Tensor:
    infinite = torch.copysign(torch.full_like(y, _INF), y)
    return torch.where(y.isnan(), _NAN, torch.where(y.abs() > largest(b), infinite, y))


def _check(x: Tensor, b: int) -> None:
    check_bits(b)
    if x.dtype != torch.float64:
        raise InvalidInput(f"values are {x.dtype}; rounding starts from float64")
