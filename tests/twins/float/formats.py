"""binary32 and binary64 as in numpy, and as fractions: the two witnesses of the contracts' results."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Format:
    """A format. Bits are uint64 arrays for any width; `floats` returns the numbers that they encode."""

    width: int
    fraction: int
    top: int  # the exponent of infinity

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        return self.top << self.fraction

    @property
    def nan(self) -> int:
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def bias(self) -> int:
        return self.top >> 1

    def floats(self, bits: Bits) -> npt.NDArray[Any]:
        return bits.astype(f"u{self.width // 8}").view(f"f{self.width // 8}")

    def bits(self, floats: npt.NDArray[Any]) -> Bits:
        """Return the bits of numbers, the canonical NaN for every NaN."""
        assert floats.dtype == f"f{self.width // 8}"
        bits = floats.view(f"u{self.width // 8}").astype(np.uint64)
        return np.where(np.isnan(floats), np.uint64(self.nan), bits)

    def magnitude(self, bits: Bits) -> Bits:
        return bits & np.uint64(self.sign - 1)

    def is_nan(self, bits: Bits) -> npt.NDArray[np.bool_]:
        return self.magnitude(bits) > np.uint64(self.infinity)

    # Exact values, for any one number.

    def value(self, bits: int) -> Fraction:
        """Return the value of a finite number."""
        e, f = bits >> self.fraction & self.top, bits & ((1 << self.fraction) - 1)
        significand = f + (1 << self.fraction if e else 0)
        magnitude = Fraction(significand) * Fraction(2) ** (max(e, 1) - self.bias - self.fraction)
        return -magnitude if bits & self.sign else magnitude

    def nearest(self, value: Fraction) -> int:
        """Return the number nearest to a value other than 0, ties to even: by definition, from its two neighbours."""
        magnitude, tiny = abs(value), Fraction(2) ** (1 - self.bias - self.fraction)
        places = math.floor(magnitude / tiny).bit_length() - self.fraction - 1
        last = tiny * 2 ** max(places, 0)
        below = math.floor(magnitude / last)
        doubled = 2 * (magnitude / last - below)
        significand = below + (doubled > 1 or (doubled == 1 and below % 2 == 1))
        # A significand that has grown by a place is the first of the next binade, and so are its bits.
        bits = (max(places, 0) << self.fraction) + significand
        return min(bits, self.infinity) | (self.sign if value < 0 else 0)


F32 = Format(32, 23, 255)
F64 = Format(64, 52, 2047)

_LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
_FMA = {32: _LIBM.fmaf, 64: _LIBM.fma}
for _width, _type in ((32, ctypes.c_float), (64, ctypes.c_double)):
    _FMA[_width].argtypes, _FMA[_width].restype = [_type] * 3, _type


def fma(form: Format, a: Bits, b: Bits, c: Bits) -> Bits:
    """Apply the C library's fma one by one. NOTE: a test checks it against fractions before it is trusted."""
    function = _FMA[form.width]
    terms = (form.floats(x).tolist() for x in (a, b, c))
    results = [function(*term) for term in zip(*terms, strict=True)]
    return form.bits(np.array(results, f"f{form.width // 8}"))


def key(form: Format, bits: Bits) -> npt.NDArray[np.int64]:
    """Return a key for the order of docs/opset.md, section 2, in which NaN is the largest, and -0 is below +0."""
    magnitude = form.magnitude(bits).astype(np.int64)
    keys = np.where(bits & np.uint64(form.sign), -1 - magnitude, magnitude)
    return np.where(form.is_nan(bits), np.int64(form.sign - 1), keys)
