"""Decisions of the contracts against referee_py, which is tested against fractions, and a sample against fractions."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from referee_py.errors import InvalidInput
from referee_py.program.modes import Bounds
from referee_py.rounding import elementary
from referee_py.rounding.bounds import MAX_TERMS, gamma
from referee_py.rounding.entries import WRITTEN
from referee_py.rounding.grid import Toward, decide, to_grid
from referee_py.rounding.primitives import DOWN, NOT_LOGGED, UP, rnd
from tests.conftest import Anvil
from tests.referee_py.rounding.exact import follow_entry, round_exact

from .chain import ANVIL_OPTIONS
from .exact import UNDECIDED, Batch, Sum, ball, bits_of, value_of

UNIT = 298
INFINITE, SIGN = 0x7F800000, 1 << 31
TERMS = (0, 1, 2, 3, 4, 5, 17, 64, 257, 768, 4096, 50257, 1 << 20, MAX_TERMS - 1, MAX_TERMS)
WORST_GAS = 7000  # of a decision (docs/float-exact.md)
BITS = (16, *range(26, 33))
Case = tuple[Sum, int, tuple[int, int], int, int, int]


@pytest.fixture(scope="module")
def batch(start_module_anvil: Callable[..., Anvil]) -> Batch:
    return Batch(start_module_anvil(*ANVIL_OPTIONS).url)


# ---------------------------------------------------------------------- cases


def a_place(r: Random, b: int) -> int:
    """Return bits of a finite value of the grid: any, small, subnormal, near powers of two, the largest; no sign."""
    step = 1 << (32 - b)
    bits = r.choice(
        (
            r.randrange(INFINITE),
            r.randrange(0x3F000000, 0x41000000),
            r.randrange(1 << 23),
            r.randrange(16) * step,
            (r.randrange(255) << 23) + r.randrange(-2, 3) * step,
            INFINITE - r.randrange(1, 4) * step,
        )
    )
    return min(max(bits, 0), INFINITE - step) & -step


def units(bits: int) -> int:
    """Return the value of bits without sign, in units of 2^-298; for infinity 2^128."""
    m, e = bits & 0x7FFFFF, bits >> 23
    return (m | bool(e) << 23) << (max(e, 1) - 1 + 149)


def a_midpoint(r: Random, b: int) -> int:
    bits = a_place(r, b)
    return (units(bits) + units(bits + (1 << (32 - b)))) // 2


def a_case(r: Random) -> Case:
    """Return a sum that is some radii from a midpoint or a value of the grid, exactly at the end, or anywhere."""
    b, bounds = r.choice(BITS), r.choice(list(Bounds))
    numerator, denominator = gamma(r.choice(TERMS), bounds)
    if r.random() < 0.05:
        numerator = 0
    centre = a_midpoint(r, b) if r.random() < 0.8 else units(a_place(r, b))
    way = r.randrange(4)
    if way == 0:  # the midpoint is an end of the ball, or just inside or outside
        k = r.randrange(1, 1 << r.randrange(1, max(centre.bit_length() - 40, 2)))
        total, magnitude = centre + r.choice((1, -1)) * (numerator * k + r.randrange(-1, 2)), denominator * k
    elif way == 1:
        total = r.randrange(1 << r.randrange(1, 580))
        magnitude = total << r.randrange(70) if total.bit_length() < 515 else total
    else:
        magnitude = (centre << r.randrange(40)) + r.randrange(1 << 40)
        radius = magnitude * numerator // denominator
        total = centre + r.choice((1, -1)) * (radius * r.choice((0, 1, 1, 2, 3, r.randrange(31))))
        total += r.choice((0, 0, 1, -1, radius // 3, -radius // 7))
    total *= r.choice((1, -1))
    if abs(total) >= 1 << 585 or magnitude >= 1 << 585:
        return a_case(r)
    kind, value = an_entry(r, b, bits_of(to_grid(total, 1, -UNIT, b, Toward.NEAREST)))
    return total, magnitude, (numerator, denominator), kind, value, b


def an_entry(r: Random, b: int, nearest: int) -> tuple[int, int]:
    """Return an entry of any kind; written values are near, or such that no honest trainer writes them."""
    kind = r.choice((NOT_LOGGED, DOWN, UP, DOWN, UP, WRITTEN, WRITTEN, WRITTEN))
    if kind != WRITTEN:
        return kind, 0
    step, size = 1 << (32 - b), nearest & (SIGN - 1)
    near = min(max(size + r.choice((-3, -2, -1, -1, -1, 0, 1, 1, 1, 2, 3)) * step, 0), INFINITE)
    strange = (
        0x7FC00000,
        0x7F800001,
        0xFFC00001,
        0,
        SIGN,  # -0
        INFINITE,
        INFINITE | SIGN,
        step | SIGN,
        nearest ^ SIGN,
        near ^ 1,  # off the grid below 32 bits
        near | (step >> 1),
        r.randrange(1 << 32),
        INFINITE - step,
    )
    return kind, near | (nearest & SIGN) if r.random() < 0.7 else r.choice(strange)


# ---------------------------------------------------------------------- sums


def decided(case: Case) -> int:
    """Return the decision of referee_py."""
    total, magnitude, fraction, kind, value, b = case
    assert isinstance(total, int)
    return bits_of(decide(ball(total, magnitude, fraction), kind, value_of(value), b))


def check_decisions(batch: Batch, seed: int, count: int) -> Counter[str]:
    r, seen = Random(seed), Counter[str]()
    cases = [a_case(r) for _ in range(count)]
    for case, (have, gas) in zip(cases, batch.decide_and_cost(cases).tolist(), strict=True):
        total, _, _, kind, _, b = case
        assert gas <= WORST_GAS, case
        want = decided(case)
        assert have == want, f"{case}: {have:#x} for {want:#x}"
        assert isinstance(total, int)
        nearest = bits_of(to_grid(total, 1, -UNIT, b, Toward.NEAREST))
        seen[f"kind {kind}, {'followed' if want != nearest else 'nearest'}"] += 1
        seen[f"b {b}"] += 1
        seen["infinite"] += want & INFINITE == INFINITE
        seen["subnormal"] += 0 < want & (SIGN - 1) < 1 << 23
        seen["zero"] += want == 0
    return seen


def check_spread(seen: Counter[str], count: int) -> None:
    """Check that no kind of case was missing."""
    kinds = [f"kind {k}, {what}" for k in (DOWN, UP, WRITTEN) for what in ("followed", "nearest")]
    for name in [
        *kinds,
        "kind 1, nearest",
        *(f"b {b}" for b in BITS),
        "infinite",
        "subnormal",
        "zero",
    ]:
        assert seen[name] >= count // 200, (name, seen)


def test_decisions(batch: Batch) -> None:
    check_spread(check_decisions(batch, 1, 6000), 6000)


@pytest.mark.slow
def test_two_hundred_thousand_decisions(batch: Batch) -> None:
    seen: Counter[str] = Counter()
    for seed in range(100, 122):
        seen += check_decisions(batch, seed, 10_000)
    check_spread(seen, 220_000)


def test_decisions_as_fractions(batch: Batch) -> None:
    r = Random(2)
    cases = [a_case(r) for _ in range(1500)]
    for case, have in zip(cases, batch.decide(cases).tolist(), strict=True):
        total, magnitude, fraction, kind, value, b = case
        exact, radius = Fraction(total) / 2**UNIT, Fraction(*fraction) * Fraction(magnitude, 2**UNIT)
        assert have == bits_of(follow_entry(exact, radius, kind, value_of(value), b)), case


def test_no_entry_counts_where_a_sum_is_not_finite(batch: Batch) -> None:
    cases: list[Case] = []
    for total in (math.inf, -math.inf, math.nan):
        cases += [(total, 1 << 400, (1, 1 << 53), kind, 0x3F800000, 29) for kind in range(4)]
    assert batch.decide(cases).tolist() == [INFINITE] * 4 + [INFINITE | SIGN] * 4 + [0x7FC00000] * 4


def test_sums_on_the_grid(batch: Batch) -> None:
    r = Random(3)
    for _ in range(300):
        total, *_, b = a_case(r)
        assert isinstance(total, int)
        want = [bits_of(to_grid(total, 1, -UNIT, b, way)) for way in Toward]
        assert list(batch.to_grid(total, b)) == want, (total, b)


@pytest.mark.parametrize("bounds", Bounds)
def test_radii(batch: Batch, bounds: Bounds) -> None:
    r = Random(4)
    squares = [k * k + d for k in (2, 3, 255, 256, 46339, 46340) for d in (-1, 0, 1)]
    counts = [*TERMS, *squares, *range(70), *(r.randrange(MAX_TERMS) for _ in range(500))]
    assert batch.gamma(counts, bounds == Bounds.PROBABLE) == [gamma(n, bounds) for n in counts]
    with pytest.raises(InvalidInput):
        gamma(MAX_TERMS + 1, bounds)
    with pytest.raises(AssertionError, match="revert"):
        batch.gamma([MAX_TERMS + 1], bounds == Bounds.PROBABLE)


# ---------------------------------------------------------------------- binary64


def doubles(r: Random, count: int) -> np.ndarray:
    """Return random bits, and bits of midpoints, of values of the grid and of their neighbours."""
    found = [r.randrange(1 << 64) for _ in range(count)]
    for _ in range(count):
        b = r.choice(BITS)
        x = math.ldexp(a_midpoint(r, b) if r.random() < 0.8 else units(a_place(r, b)), -UNIT)
        (bits,) = struct.unpack("<Q", struct.pack("<d", x))
        found.append(max(bits + r.randrange(-2, 3), 0) | r.randrange(2) << 63)
    ends = [0, 1, (1 << 52) - 1, 1 << 52, 0x7FF << 52, (0x7FF << 52) - 1, (0x7FF << 52) + 1, (1 << 63) - 1]
    return np.array([*found, *ends, *(v | 1 << 63 for v in ends)], dtype=np.uint64).view(np.float64)


def test_results_of_one_operation(batch: Batch) -> None:
    x = doubles(Random(5), 4000)
    for b in BITS:
        with np.errstate(invalid="ignore", over="ignore"):
            want = rnd(x, b).astype(np.float32).view(np.uint32)
        want = np.where(np.isnan(x), np.uint32(0x7FC00000), want)
        have = batch.round_bits64(x, b)
        wrong = np.flatnonzero(have != want)
        assert not wrong.size, f"{x[wrong[0]].hex()} at b = {b} is {have[wrong[0]]:#x}"


@np.errstate(all="ignore")
def test_at_32_bits_it_is_the_operation_in_binary32(batch: Batch) -> None:
    rng = np.random.default_rng(6)
    a, c = (rng.integers(0, 1 << 32, 6000, dtype=np.uint32) for _ in range(2))
    near = rng.integers(0x3F000000, 0x41000000, 3000, dtype=np.uint32)
    small = rng.integers(0, 0x01000000, 3000, dtype=np.uint32)
    a, c = np.concatenate([a, near, small]), np.concatenate([c, near[::-1], near])
    x, y = a.view(np.float32), c.view(np.float32)
    for operation in (np.add, np.subtract, np.multiply, np.divide, lambda p, _: np.sqrt(p)):
        narrow = operation(x, y)
        want = np.where(np.isnan(narrow), np.uint32(0x7FC00000), narrow.view(np.uint32))
        have = batch.round_bits64(operation(x.astype(np.float64), y.astype(np.float64)), 32)
        assert (have == want).all()


# ---------------------------------------------------------------------- elementary functions


def arguments(r: Random, name: str) -> list[float]:
    def any_size() -> float:
        return value_of(r.randrange(0x00000001, 0x7F800000)) * r.choice((1, -1))

    x = any_size() if r.random() < 0.3 else float(np.float32(r.gauss(0, 1) * 10 ** r.randrange(-3, 3)))
    if name in ("log", "rsqrt", "pow"):
        x = abs(x) or 1.0
    if name == "log1p":
        x = abs(x) if x <= -1 else x
    if name == "rsqrt" and r.random() < 0.3:
        x = float(r.randrange(1, 64) ** -2)
        x = float(np.float32(x))
    if name == "pow":
        return [x, r.choice((2.0, 3.0, 0.5, -1.0, float(np.float32(r.gauss(0, 4)))))]
    return [x]


def check_functions(batch: Batch, seed: int, count: int) -> None:
    r, wanted = Random(seed), []
    cases: list[Any] = []
    names = ("exp", "log", "log1p", "erf", "tanh", "sin", "cos", "pow", "rsqrt")
    while len(cases) < count:
        name, b = r.choice(names), r.randrange(26, 33)
        x = arguments(r, name)
        around = elementary.bracket(name, x, elementary.PRECISION)
        if isinstance(around, float):
            continue
        low, high, exponent = around
        nearest = to_grid(low + high, 1, exponent - 1, b, Toward.NEAREST)
        kind, value = an_entry(r, b, bits_of(nearest))
        cases.append((low, high, exponent, kind, value, b))
        wanted.append(bits_of(elementary._decide(name, x, kind, value_of(value), b)))
    for case, have, want in zip(cases, batch.decide_bracket(cases).tolist(), wanted, strict=True):
        assert have == want, f"{case}: {have:#x} for {want:#x}"


def test_elementary_functions(batch: Batch) -> None:
    check_functions(batch, 7, 3000)


@pytest.mark.slow
def test_many_elementary_functions(batch: Batch) -> None:
    for seed in range(200, 206):
        check_functions(batch, seed, 10_000)


def a_bracket(r: Random) -> tuple[int, int, int, int, int, int]:
    """Return a bracket of any width around a midpoint, a value of the grid, or an end of a ball that is a midpoint."""
    b = r.randrange(26, 33)
    centre = Fraction(a_midpoint(r, b) if r.random() < 0.8 else units(a_place(r, b)), 1 << UNIT)
    if not centre:
        centre = Fraction(1, 1 << 150)
    centre /= r.choice((1, 1, 1 - Fraction(1, 1 << 50), 1 + Fraction(1, 1 << 50)))
    width = r.choice((1, 2, 1 << r.randrange(1, 12)))
    exponent = centre.numerator.bit_length() - centre.denominator.bit_length() - r.choice((60, 100, 128, 150))
    middle = round(centre / Fraction(2) ** exponent)
    lo = middle + r.choice((0, 0, -width, 1, r.randrange(-width, width + 1)))
    hi = lo + r.choice((0, width))
    if r.random() < 0.5:
        lo, hi = -hi, -lo
    nearest = to_grid(lo + hi, 1, exponent - 1, b, Toward.NEAREST)
    return lo, hi, exponent, *an_entry(r, b, bits_of(nearest)), b


def check_brackets(batch: Batch, seed: int, count: int) -> None:
    r, undecided = Random(seed), 0
    cases = [a_bracket(r) for _ in range(count)]
    for case, have in zip(cases, batch.decide_bracket(cases).tolist(), strict=True):
        lo, hi, exponent, kind, value, b = case
        scale, crumb = Fraction(2) ** exponent, Fraction(1, 1 << 2000)
        low, high = (lo * scale + crumb, hi * scale - crumb) if lo < hi else (lo * scale, hi * scale)
        values = [
            bits_of(follow_entry(x, abs(x) / 2**50 + Fraction(1, 2**1022), kind, value_of(value), b))
            for x in (low, (low + high) / 2, high)
        ]
        if have == UNDECIDED:
            undecided += 1
            # With a midpoint inside, the contract decides nothing, though for some entries all values are equal.
            nearest = {round_exact(low, b), round_exact(high, b)}
            assert len(set(values)) > 1 or len(nearest) > 1, f"{case} is decided: {values[0]:#x}"
        else:
            assert set(values) == {have}, f"{case}: {have:#x} for {[hex(v) for v in values]}"
    assert count // 50 < undecided < count // 2, f"{undecided} of {count} undecided"


def test_brackets(batch: Batch) -> None:
    check_brackets(batch, 8, 3000)


@pytest.mark.slow
def test_many_brackets(batch: Batch) -> None:
    for seed in range(300, 306):
        check_brackets(batch, seed, 10_000)
