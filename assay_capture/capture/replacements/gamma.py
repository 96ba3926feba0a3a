"""The gamma function's logarithm and its derivatives, as expressions of the operator set.

Sources: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.1.33 and 6.1.41 (lgamma), 6.3.5, 6.3.7 and 6.3.18
(digamma), 6.4.10 and 23.2.9 (polygamma, by the formula of Euler and Maclaurin); recurrences 6.1.15, 6.3.5, 6.4.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..errors import Unsupported
from .elementary import _polynomial
from .registry import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

_EULER = 0.5772156649015329
_ZETA = (
    *(1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.03692775514337, 1.0173430619844491),
    *(1.0083492773819228, 1.0040773561979443, 1.0020083928260822, 1.0009945751278181, 1.0004941886041195),
    *(1.000246086553308, 1.0001227133475785, 1.0000612481350587),
)
"""zeta(2), zeta(3), ..."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
"""B_2, B_4, ..."""


def _distance(x: Tensor) -> Tensor:
    """Return the distance to the nearest integer, with its sign: exact, so that a sine of its multiple is good."""
    return x - x.round()


def _of_f32(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of f32; the result of bf16 is rounded once."""
    found = function(x.float())
    return found.to(x.dtype) if x.is_floating_point() else found


@decomposes(aten.lgamma.default)
def lgamma(x: Tensor) -> Tensor:
    return _of_f32(_lgamma, x)


@decomposes(aten.digamma.default)
def digamma(x: Tensor) -> Tensor:
    return _of_f32(_digamma, x)


@decomposes(aten.polygamma.default)
def polygamma(n: int, x: Tensor) -> Tensor:
    if n < 0 or n > 20:
        raise Unsupported(f"polygamma of order {n}", "use an order from 0 to 20")
    return _of_f32(lambda y: _polygamma(n, y), x) if n else digamma(x)


def _lgamma(x: Tensor) -> Tensor:
    """Taylor's series around 2, where the function is 0, reached by recurrence; Stirling's above 8."""
    reflected = x < 0
    a = torch.where(reflected, 1 - x, x)
    small = a < 1.5
    tiny = a < 0.5
    base = torch.where(tiny, a + 2, torch.where(small, a + 1, torch.clamp(a, max=8)))
    factor = torch.ones_like(base)
    for _ in range(6):
        large = base >= 2.5
        base = torch.where(large, base - 1, base)
        factor = torch.where(large, factor * base, factor)
    factor = torch.where(tiny, a * (a + 1), torch.where(small, a, factor))
    t = base - 2
    terms = [(-1) ** k * (_ZETA[k - 2] - 1) / k for k in range(2, 2 + len(_ZETA))]
    near = _polynomial(t, [*terms[::-1], 1 - _EULER, 0.0])
    near = torch.where(small, near - factor.log(), near + factor.log())
    big = torch.clamp(a, min=8)
    r = 1 / big
    tail = r * _polynomial(r * r, (1 / 1260, -1 / 360, 1 / 12))
    log = big.log()
    far = torch.where(
        big > 1e30, big * (log - 1), (big - 0.5) * log - big + (0.5 * math.log(2 * math.pi) + tail)
    )
    found = torch.where(a < 8, near, far)
    found = torch.where(
        reflected, math.log(math.pi) - (math.pi * _distance(x)).sin().abs().log() - found, found
    )
    return torch.where(x.abs() == math.inf, math.inf, torch.where(x == 0, math.inf, found))


def _digamma(x: Tensor) -> Tensor:
    """The asymptotic series above 6, reached by recurrence. At 0 an infinity, at other integers below not a number."""
    reflected = x < 0
    a, lost = torch.where(reflected, 1 - x, x), torch.zeros_like(x)
    for _ in range(6):
        low = a < 6
        lost = torch.where(low, lost + 1 / a, lost)
        a = torch.where(low, a + 1, a)
    r = 1 / a
    z = r * r
    found = (a.log() - 0.5 * r - z * _polynomial(z, (-1 / 240, 1 / 252, -1 / 120, 1 / 12))) - lost
    d = math.pi * _distance(x)
    found = torch.where(reflected, found - math.pi * d.cos() / d.sin(), found)
    found = torch.where((x < 0) & (x == x.floor()), math.nan, found)
    return torch.where(x == 0, -1 / x, found)


def _polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma. For n above 1 not a number below -9, where PyTorch adds up term by term."""
    reflected = (x < 0.5) if n == 1 else torch.zeros_like(x, dtype=torch.bool)
    a, total = torch.where(reflected, 1 - x, x), torch.zeros_like(x)
    is_pole = (a <= 0) & (a == a.floor())
    for _ in range(9 if n == 1 else 18):
        low = a < 9
        total = torch.where(low, total + a ** -(n + 1.0), total)
        a = torch.where(low, a + 1, a)
    s, r = n + 1.0, 1 / a
    z, rising, terms = r * r, s, []
    for j, number in enumerate(_BERNOULLI):
        terms.append(number * rising / math.factorial(2 * j + 2))
        rising *= (s + 2 * j + 1) * (s + 2 * j + 2)
    power = a**-s
    lead = (
        r if n == 1 else power * (a / n)
    )  # NOTE: at infinity 0 for trigamma, else not a number, as in PyTorch
    total = total + lead + power * (0.5 + r * _polynomial(z, terms[::-1]))
    found = torch.where(is_pole, math.inf, torch.where(a < 9, math.nan, total)) * math.factorial(n)
    if n == 1:
        sine = (math.pi * _distance(x)).sin()
        found = torch.where(reflected, math.pi * math.pi / (sine * sine) - found, found)
    return found if n % 2 else -found
