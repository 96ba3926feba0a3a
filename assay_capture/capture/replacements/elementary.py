"""Elementary functions as expressions of the operator set's, which are correctly rounded.

Errors are a few units in the last place, as in other libraries. Sources: atan by the range reduction and polynomial of
Cephes (S. Moshier, atanf); erfc by Numerical Recipes, section 6.2 (Chebyshev fit, 1.2e-7); erfinv by M. Giles,
"Approximating the erfinv function", GPU Computing Gems, 2011, single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .registry import decomposes, replaces

aten = torch.ops.aten
Tensor = torch.Tensor


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Evaluate by Horner's rule; the coefficient of the highest power comes first."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _f32(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.float()


_LARGE = 20.0
"""Above it exp(-x) is nothing beside exp(x) in binary32."""


def _half_exp(x: Tensor) -> Tensor:
    """Return exp(x) / 2, which is finite up to x = 89.4."""
    root = (0.5 * x).exp()
    return 0.5 * root * root


@decomposes(aten.log2.default)
def log2(x: Tensor) -> Tensor:
    return _f32(x).log() * (1 / math.log(2))


@decomposes(aten.log10.default)
def log10(x: Tensor) -> Tensor:
    return _f32(x).log() * (1 / math.log(10))


@decomposes(aten.exp2.default)
def exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, _f32(x))


@decomposes(aten.tan.default)
def tan(x: Tensor) -> Tensor:
    return _f32(x).sin() / _f32(x).cos()


@decomposes(aten.sinh.default)
def sinh(x: Tensor) -> Tensor:
    """Small x: by expm1, which keeps the digits. Large x: exp(x) overflows before its half does, so half of it is a
    product of two roots."""
    x = _f32(x)
    a = x.abs()
    t = a.clamp(max=_LARGE).expm1()
    size = torch.where(a > _LARGE, _half_exp(a), 0.5 * (t + t / (t + 1)))
    return torch.where(x < 0, -size, torch.where(x == 0, x, size))


@decomposes(aten.cosh.default)
def cosh(x: Tensor) -> Tensor:
    half = _half_exp(_f32(x).abs())
    return half + 0.25 / half


@decomposes(aten.asinh.default)
def asinh(x: Tensor) -> Tensor:
    x = _f32(x)
    a = x.abs()
    small = torch.log1p(a + a * a / (1 + (a * a + 1).sqrt()))
    return x.sign() * torch.where(a > 1e9, a.log() + math.log(2), small)


@decomposes(aten.acosh.default)
def acosh(x: Tensor) -> Tensor:
    x = _f32(x)
    t = x - 1
    near = torch.log1p(t + (2 * t + t * t).sqrt())
    return torch.where(x > 1e9, x.log() + math.log(2), torch.where(x < 1, math.nan, near))


@decomposes(aten.atanh.default)
def atanh(x: Tensor) -> Tensor:
    x = _f32(x)
    return 0.5 * (x.log1p() - (-x).log1p())


@decomposes(aten.atan.default)
def atan(x: Tensor) -> Tensor:
    x = _f32(x)
    a = x.abs()
    steep, middle = a > 2.414213562373095, a > 0.4142135623730950
    reduced = torch.where(steep, -1 / a, torch.where(middle, (a - 1) / (a + 1), a))
    start = torch.where(steep, math.pi / 2, torch.where(middle, math.pi / 4, 0.0))
    z = reduced * reduced
    terms = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
    found = start + (_polynomial(z, terms) * z * reduced + reduced)
    return torch.where(x < 0, -found, torch.where(x == 0, x, found))


@decomposes(aten.atan2.default)
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """Return the angle of (x, y). The quotient is of the smaller by the larger, so that it does not overflow."""
    y, x = torch.broadcast_tensors(_f32(y), _f32(x))
    a, b = y.abs(), x.abs()
    larger = torch.maximum(a, b)
    ratio = torch.where(larger == 0, 0.0, torch.where((a == b), 1.0, torch.minimum(a, b) / larger))
    angle = atan(ratio)
    angle = torch.where(a > b, math.pi / 2 - angle, angle)
    left = (x < 0) | ((x == 0) & (1 / x < 0))
    angle = torch.where(left, math.pi - angle, angle)
    below = (y < 0) | ((y == 0) & (1 / y < 0))
    angle = torch.where(below, -angle, angle)
    return torch.where((x != x) | (y != y), math.nan, angle)


@decomposes(aten.asin.default)
def asin(x: Tensor) -> Tensor:
    x = _f32(x)
    return atan2(x, ((1 - x) * (1 + x)).sqrt())


@decomposes(aten.acos.default)
def acos(x: Tensor) -> Tensor:
    x = _f32(x)
    return atan2(((1 - x) * (1 + x)).sqrt(), x)


_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


@decomposes(aten.erfc.default)
def erfc(x: Tensor) -> Tensor:
    x = _f32(x)
    z = x.abs()
    t = 1 / (1 + 0.5 * z)
    tail = t * (_polynomial(t, _ERFC) - z * z).exp()
    return torch.where(z < 0.5, 1 - x.erf(), torch.where(x < 0, 2 - tail, tail))


_ERFINV_MIDDLE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ERFINV_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


@decomposes(aten.erfinv.default)
def erfinv(x: Tensor) -> Tensor:
    x = _f32(x)
    w = -((1 - x) * (1 + x)).log()
    middle, tail = _polynomial(w - 2.5, _ERFINV_MIDDLE), _polynomial(w.sqrt() - 3, _ERFINV_TAIL)
    return torch.where(x.abs() == 1, x * math.inf, torch.where(w < 5, middle, tail) * x)


@decomposes(aten.hypot.default)
def hypot(a: Tensor, b: Tensor) -> Tensor:
    a, b = torch.broadcast_tensors(a.abs(), b.abs())
    larger = torch.maximum(a, b)
    ratio = torch.where(larger == 0, 0.0, torch.minimum(a, b) / larger)
    found = larger * (ratio * ratio + 1).sqrt()
    # NOTE: a side of infinite length makes it infinite, whatever the other is, also NaN.
    return torch.where((a == math.inf) | (b == math.inf), math.inf, found)


@replaces(aten.fmax.default)
def fmax(a: Tensor, b: Tensor) -> Tensor:
    """Return the larger, or the one that is a number. Of equal ones it is the first, which gets the gradient."""
    a, b = torch.broadcast_tensors(a, b)
    return torch.where((a >= b) | (b != b), a, b)


@replaces(aten.fmin.default)
def fmin(a: Tensor, b: Tensor) -> Tensor:
    a, b = torch.broadcast_tensors(a, b)
    return torch.where((a <= b) | (b != b), a, b)


@decomposes(aten.signbit.default)
def signbit(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (1 / x < 0))


@decomposes(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: Tensor, sign: Tensor | float) -> Tensor:
    size = _f32(x).abs()
    return torch.where(signbit(torch.as_tensor(sign)), -size, size)
