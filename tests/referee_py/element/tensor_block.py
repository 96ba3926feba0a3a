"""One block of a tensor core in bf16, one number at a time: 16 products and an accumulator, as integers
(docs/tensor-cores.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NAN, INFINITY = 0x7FC00000, 0x7F800000
FRACTION_BITS = 25
"""Bits below the largest exponent of a block that count."""
LEAST_EXPONENT = -133
"""A block's largest exponent counts as at least this."""
LEAST_UNIT = -149
"""Exponent of the last bit of a subnormal of binary32."""


class Part(NamedTuple):
    """The parts of a number: sign (0 or 1), significand as an integer, the exponent of its leading place."""

    sign: int
    significand: int
    exponent: int
    finite: bool


def parts(bits: int, mantissa_bits: int) -> Part:
    """Take a number of 8 bits of exponent apart. A subnormal has the exponent of the smallest normal number."""
    sign, biased = bits >> (8 + mantissa_bits), bits >> mantissa_bits & 255
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if biased == 255:
        return Part(sign, mantissa, 0, finite=False)
    return Part(sign, mantissa | (1 << mantissa_bits if biased else 0), max(biased, 1) - 127, finite=True)


def block(a: Sequence[int], b: Sequence[int], c: int) -> int:
    """Return the bits of binary32 of the products of ``a`` and ``b`` (bits of bf16) and ``c`` (of binary32), summed."""
    terms: list[Part] = []
    infinities: set[int] = set()
    factors = [(parts(x, 7), parts(y, 7)) for x, y in zip(a, b, strict=True)]
    for x, y in factors:
        sign = x.sign ^ y.sign
        if x.finite and y.finite:
            # 23 fractional bits, as those of the accumulator; the product is not normalised
            terms.append(Part(sign, x.significand * y.significand << 9, x.exponent + y.exponent, finite=True))
        elif any((not z.finite and z.significand) or (z.finite and not z.significand) for z in (x, y)):
            return NAN  # a factor is not a number, or infinity meets zero
        else:
            infinities.add(sign)
    accumulator = parts(c, 23)
    if accumulator.finite:
        terms.append(accumulator)
    elif accumulator.significand:
        return NAN
    else:
        infinities.add(accumulator.sign)
    if infinities:
        return NAN if len(infinities) == 2 else infinities.pop() << 31 | INFINITY
    return rounded([term for term in terms if term.significand])


def rounded(terms: Sequence[Part]) -> int:
    """Return the sum of terms that are not zero: each is cut, the sum is exact, the result is rounded toward zero."""
    top = max([term.exponent for term in terms] + [LEAST_EXPONENT])
    shift = FRACTION_BITS - 23
    total = sum((-1) ** t.sign * (t.significand << shift >> (top - t.exponent)) for t in terms)
    sign, size = int(total < 0), abs(total)
    unit = max(top - FRACTION_BITS + size.bit_length() - 24, LEAST_UNIT)
    down = unit - (top - FRACTION_BITS)
    kept = size >> down if down >= 0 else size << -down
    if not kept:
        return 0
    bits = kept if kept < 1 << 23 else (unit + 150 << 23) + (kept - (1 << 23))
    return sign << 31 | min(bits, INFINITY)
