"""Sums that are hard to round, and what they are by rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, LARGEST, 1e-45], np.float32)


def nearest(value: Fraction) -> float:
    """Round to binary32: the nearest of three candidates; of two as near, the even one. Independent of the reference.

    NOTE: from 2^128 - 2^103 on, half-way to the value that would follow the largest, it is infinite.
    """
    if abs(value) >= 2**128 - 2**103:
        return float(np.inf if value > 0 else -np.inf)
    middle = np.float32(min(max(float(value), -LARGEST), LARGEST))
    with np.errstate(over="ignore"):
        beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    candidates = [candidate for candidate in beside if np.isfinite(candidate)]
    best = min(
        (middle, *candidates), key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.int32)) & 1)
    )
    return float(best) + 0.0


def total_of(a: np.ndarray, b: np.ndarray) -> float:
    """Return the sum of products of two vectors, rounded once."""
    with np.errstate(all="ignore"):
        products = a.astype(np.float64) * b.astype(np.float64)
        beyond = products[~np.isfinite(products)]
        if beyond.size:
            return float(beyond.sum())
    total = Fraction(0)
    for product in products.tolist():
        total += Fraction(product)
    return nearest(total)


def _fill(
    rng: np.random.Generator, terms: list[tuple[float, float]], count: int
) -> list[tuple[float, float]]:
    """Add pairs of terms that cancel, and zeros, up to `count` terms."""
    while len(terms) + 2 <= count:
        a, b = (
            float(v)
            for v in rng.standard_normal(2).astype(np.float32) * np.float32(2.0 ** rng.integers(-60, 60))
        )
        terms += [(a, b), (-a, b)]
    return terms + [(0.0, -1.0)] * (count - len(terms))


def _tie(rng: np.random.Generator, count: int, beside: float) -> list[tuple[float, float]]:
    """Half-way between two values, plus `beside` times the smallest product there is."""
    value = float(np.float32(rng.standard_normal()) * np.float32(2.0 ** rng.integers(-100, 100)))
    half = float(np.spacing(np.float32(abs(value)))) / 2
    # The half unit may be too small for one value; as a product it is not.
    whole = int(np.log2(half))
    first = max(-126, whole // 2)
    terms = [(value, 1.0), (2.0**first, 2.0 ** (whole - first))]
    if beside:
        terms.append((2.0**-149 * beside, 2.0**-149))
    return _fill(rng, terms, count)


KINDS = (
    "ordinary",
    "cancelling",
    "tie",
    "above a tie",
    "below a tie",
    "a little beside a tie",
    "subnormal",
    "few bits",
    "wide",
    "threshold",
    "below the threshold",
    "partial sums beyond",
    "any bits",
    "special",
    "zeros",
)


def draw_terms(rng: np.random.Generator, kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` pairs of factors, at least 8, in random order."""
    a, b = rng.standard_normal((2, count)).astype(np.float32)
    if kind == "cancelling":
        pairs = _fill(rng, [(1.0, 2.0**-149), (3.0, 2.0**-140)], count)
        a, b = np.array(pairs, np.float32).T
    elif kind in ("tie", "above a tie", "below a tie"):
        pairs = _tie(rng, count, {"tie": 0.0, "above a tie": 1.0, "below a tie": -1.0}[kind])
        a, b = np.array(pairs, np.float32).T
    elif kind == "a little beside a tie":
        # 1 + 2^-24 +- 2^-(e + 22), times 2^100. This last bit takes part in a value of 2^-e that cancels, as others in
        # between do, which some binary64 values must hold until then.
        e, sign = int(rng.integers(18, 60 if rng.random() < 0.5 else 220)), float(rng.choice([-1, 1]))
        values = [1.0, 2.0**-24, 2.0**-e * (1 + sign * 2.0**-22), -(2.0**-e)]
        for between in range(e - 36, 24, -37)[: (count - 4) // 2]:
            values += [2.0**-between * 1.25, -(2.0**-between) * 1.25]
        a = np.zeros(count, np.float32)
        a[: len(values)] = np.array(values) * 2.0**100
        b = np.ones(count, np.float32)
    elif kind == "subnormal":
        a *= np.float32(2.0**-75)
        b *= np.float32(2.0**-70)
    elif kind == "few bits":
        a, b = rng.integers(-9, 10, (2, count)).astype(np.float32)
        a[0], b[0] = 2.0**24, 1.0
    elif kind == "wide":
        a, b = (v * 2.0 ** rng.integers(-60, 60, count).astype(np.float32) for v in (a, b))
    elif kind in ("threshold", "below the threshold"):
        pairs = [(LARGEST, 1.0), (2.0**100, 8.0)]
        if kind == "below the threshold":
            pairs.append((-(2.0**-149), 2.0**-149))
        a, b = np.array(_fill(rng, pairs, count), np.float32).T * np.float32(1)
    elif kind == "partial sums beyond":
        half = count // 2
        a[:], b[:] = 0, 1
        a[:half] = LARGEST
        a[half : 2 * half] = -LARGEST
        b[: 2 * half] = LARGEST
        a[0] = np.float32(LARGEST) - np.float32(2.0**105)
    elif kind == "any bits":
        a, b = (rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32) for _ in "ab")
    elif kind == "special":
        a, b = (np.where(rng.random(count) < 3 / count, rng.choice(SPECIAL, count), v) for v in (a, b))
    elif kind == "zeros":
        a, b = np.where(rng.random((2, count)) < 0.5, np.float32(-0.0), np.float32(0.0))
    order = rng.permutation(count)
    return np.ascontiguousarray(a[order], np.float32), np.ascontiguousarray(b[order], np.float32)
