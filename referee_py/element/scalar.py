"""Values as bits: binary32 in 32, i64 in 64 (two's complement), bool in 8. Every computed NaN is 0x7FC00000."""

from __future__ import annotations

import ctypes
import math
import struct

NAN = 0x7FC00000
MINUS_ZERO = 0x80000000
MINUS_INF = 0xFF800000
WORD = (1 << 64) - 1


def to_float(bits: int) -> float:
    """Return the value of a binary32."""
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def to_bits(value: float) -> int:
    """Round a binary64 value to binary32 bits; infinite from 2^128 - 2^103 on."""
    if math.isnan(value):
        return NAN
    bits: int = struct.unpack("<I", bytes(ctypes.c_float(value)))[0]
    return bits


def canonical(bits: int) -> int:
    """Return a binary32 with NaN in its committed form."""
    return NAN if bits & 0x7FFFFFFF > 0x7F800000 else bits


def add(a: int, b: int) -> int:
    """Add two binary32 values. NOTE: rounding twice is innocuous, 53 >= 2 * 24 + 2 (Figueroa, 1995)."""
    return to_bits(to_float(a) + to_float(b))


def fma(a: int, b: int, c: int) -> int:
    """Return a * b + c, rounded once, like `repops.reference.arithmetic.fma`: the binary64 sum, made odd if inexact."""
    product, addend = to_float(a) * to_float(b), to_float(c)
    s = product + addend
    if not math.isfinite(s):
        return to_bits(s)
    t = s - product
    error = (product - (s - t)) + (addend - t)
    if error and not struct.unpack("<q", struct.pack("<d", s))[0] & 1:
        s = math.nextafter(s, math.inf if error > 0 else -math.inf)
    return to_bits(s)


def order_key(bits: int) -> int:
    """Return a key that ascends in the order of docs/opset.md, section 2."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FFFFFFF
    signed = bits - ((bits & 0x80000000) << 1)
    return signed if signed >= 0 else signed ^ 0x7FFFFFFF


def signed(bits: int) -> int:
    """Return the value of an i64."""
    return bits - ((bits & 1 << 63) << 1)
