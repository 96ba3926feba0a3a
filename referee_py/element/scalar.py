"""Values as bits: binary32 in 32, bf16 in 16, i64 in 64 (two's complement), bool in 8.

Every computed NaN is 0x7FC00000, of bf16 0x7FC0.
"""

from __future__ import annotations

import ctypes
import math
import struct

from repops.opset import BF16, F32, Dtype

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


def is_nan(bits: int) -> bool:
    """Return whether a binary32 is NaN."""
    return bits & 0x7FFFFFFF > 0x7F800000


def canonical(bits: int, dtype: Dtype = F32) -> int:
    """Return an element with NaN in its committed form."""
    if dtype.is_float and is_nan(widened(bits, dtype)):
        return narrowed(NAN, dtype)
    return bits


def widened(bits: int, dtype: Dtype) -> int:
    """Return an element of f32 or bf16 as binary32, which is exact."""
    return bits << 16 if dtype == BF16 else bits


def narrowed(bits: int, dtype: Dtype) -> int:
    """Round a binary32 to an element of f32 or bf16: to nearest, ties to even.

    Half a unit of bf16's last place, less one bit if that place is even, carries where the value is rounded up.
    """
    if dtype != BF16:
        return bits
    return NAN >> 16 if is_nan(bits) else bits + 0x7FFF + (bits >> 16 & 1) >> 16


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
    if is_nan(bits):
        return 0x7FFFFFFF
    signed = bits - ((bits & 0x80000000) << 1)
    return signed if signed >= 0 else signed ^ 0x7FFFFFFF


def signed(bits: int) -> int:
    """Return the value of an i64."""
    return bits - ((bits & 1 << 63) << 1)
