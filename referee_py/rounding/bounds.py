"""Bounds on the distance between an evaluation in binary64 and the exact value (docs/rounding-logs.md, section 4).

    canonical radius    a rational number, part of the definition of the truth      `gamma` (exactly), `exact.radius`
    radius              a float64 that is never smaller, for evaluations            `factor` times a magnitude

Permitted evaluations: any order of additions, with or without fma, any library within the stated ulps for elementary
functions. Not permitted: sums of inputs before a product (Strassen, Winograd, FFT), a wider or narrower type, flushed
inputs.

Inputs are binary32 values held in float64, so products are exact and neither products nor sums underflow.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..program.modes import Bounds
from .primitives import F64

U = 2.0**-53  # unit roundoff of binary64
MAX_TERMS = 1 << 31  # n u stays below 2^-22, where the expansions below hold with room
ELEMENTARY_ULPS = 4  # in any permitted library, for exp, log, log1p, erf, tanh, sin, cos, pow, rsqrt
CONFIDENCE = 6  # probable radii are this many times sqrt(n) u: exceeded with probability 2 n exp(-18) or less
FLUSHED = 2.0**-1022  # maximum loss of a library that flushes subnormal results
_UP = 1 + 2.0**-50  # covers eight roundings to nearest

Count = int | npt.NDArray[np.int64]


def gamma(terms: int, bounds: Bounds) -> tuple[int, int]:
    """Return (numerator, denominator) of the canonical radius of n terms, in units of the sum of their magnitudes.

    Proven: Higham's gamma_{n-1} = (n - 1) u / (1 - (n - 1) u), for every order. Probable: 6 ceil(sqrt(n)) u (Higham
    and Mary, 2019, theorem 2.4). Without an addition both are 0. Raises InvalidInput beyond 2^31 terms.
    """
    _check(terms)
    additions = max(terms - 1, 0)
    if bounds == Bounds.PROVEN or not additions:
        return additions, (1 << 53) - additions
    return CONFIDENCE * (math.isqrt(additions) + 1), 1 << 53


def factor(terms: Count, bounds: Bounds) -> F64:
    """Return gamma as float64, never too small, times a factor that lifts a computed magnitude to the true one.

    The magnitude is the sum of the terms' magnitudes, or a product of two norms, computed in float64 in any order.
    Raises InvalidInput beyond 2^31 terms.
    """
    n = np.asarray(terms, dtype=np.float64)
    _check(int(n.max(initial=0)))
    # A magnitude of n roundings is at least M (1 - n u); two sums of squares, two roots and a product add up to fewer
    # than n + 8. 1 / ((1 - n u)(1 - (n + 8) u)) <= 1 + 4 (n + 8) u, as n u <= 2^-22.
    computed = (1 + 4 * (n + 8) * U) * _UP
    if bounds == Bounds.PROVEN:
        proven: F64 = np.maximum(n - 1, 0) * U * computed
        return proven
    # NOTE: the square root of a non-square below 2^32 is further from every integer than its rounding error.
    probable: F64 = np.where(n > 1, CONFIDENCE * np.ceil(np.sqrt(n)) * U * computed, 0.0)
    return probable


def elementary_radius(y: F64) -> F64:
    """Return the radius of an elementary function from a library's result y that is off by at most 4 ulps.

    An ulp is 2^-52 of the exact value's binade, so at most 2^-52 |exact|, and |exact| <= |y| / (1 - 4 2^-52). Exact
    zeros, as log(1) or erf(0), are zeros in every library, and results whose binary64 is subnormal may be flushed.
    """
    relative = ELEMENTARY_ULPS * 2.0**-52 * (1 + ELEMENTARY_ULPS * 2.0**-51) * _UP
    radius: F64 = abs(y) * relative + 2 * FLUSHED
    return radius


def _check(terms: int) -> None:
    if not 0 <= terms <= MAX_TERMS:
        raise InvalidInput(f"a sum of {terms} terms; radii are stated for at most {MAX_TERMS}")
