"""Exact sums of the contracts against Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.conftest import Anvil
from tests.referee_py.rounding.exact import added_exactly

from .chain import ANVIL_OPTIONS
from .exact import U32, Batch, Sum, write_terms

UNIT = 298
ONE = np.uint32(0x3F800000)
SPECIAL = np.array(
    # +-0, the ends of subnormals and normals, 1, 2^24 - 1, the largest value
    [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F800001, 0x4B7FFFFF, 0x7F000000, 0x7F7FFFFF],
    dtype=np.uint32,
)
SPECIAL = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)])
NOT_FINITE = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF], dtype=np.uint32)
Pair = tuple[U32, U32]


@pytest.fixture(scope="module")
def batch(start_module_anvil: Callable[..., Anvil]) -> Batch:
    return Batch(start_module_anvil(*ANVIL_OPTIONS).url)


def exactly(a: U32, b: U32) -> tuple[Sum, Sum]:
    """Return sum and sum of magnitudes, in units of 2^-298, or the IEEE-754 results if these are not finite."""
    with np.errstate(invalid="ignore"):
        terms = a.view(np.float32).astype(np.float64) * b.view(np.float32).astype(np.float64)
        finite = np.isfinite(terms)
        if not finite.all():
            return float(terms[~finite].sum()), float(np.abs(terms[~finite]).sum())
    units = [int(v) for v in np.ldexp(terms, UNIT).tolist()]
    return sum(units), sum(map(abs, units))


def same(have: Sum, want: Sum) -> bool:
    return type(have) is type(want) and (have == want or (math.isnan(have) and math.isnan(want)))


def finite_bits(rng: np.random.Generator, n: int) -> U32:
    bits = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    return np.where((bits >> 23) & 0xFF == 0xFF, bits & np.uint32(0xBFFFFFFF), bits)


def kinds_of_data(rng: np.random.Generator, n: int) -> Iterator[Pair]:
    """Yield normal, arbitrary finite, subnormal, far apart, special, cancelling and only growing terms."""
    normal = rng.standard_normal((2, n)).astype(np.float32).view(np.uint32)
    yield normal[0], normal[1]
    yield finite_bits(rng, n), finite_bits(rng, n)
    signs = rng.integers(0, 2, n, dtype=np.uint32) << np.uint32(31)
    yield rng.integers(0, 1 << 23, n, dtype=np.uint32) | signs, finite_bits(rng, n)
    yield (
        (rng.integers(1, 255, n, dtype=np.uint32) << np.uint32(23)) | signs,
        (rng.integers(1, 255, n, dtype=np.uint32) << np.uint32(23)),
    )
    yield rng.choice(SPECIAL, n), rng.choice(SPECIAL, n)
    a, b = finite_bits(rng, n // 2), finite_bits(rng, n // 2)
    order = rng.permutation(2 * (n // 2))
    crumb = np.array([1], dtype=np.uint32)
    yield (
        np.concatenate([np.concatenate([a, a ^ np.uint32(1 << 31)])[order], crumb]),
        np.concatenate([np.concatenate([b, b])[order], crumb]),
    )
    largest = np.full(n, 0x7F7FFFFF, dtype=np.uint32)
    yield largest, largest
    yield largest, largest | np.uint32(1 << 31)


def compare(batch: Batch, seed: int, n: int, piece: int) -> int:
    rng, terms = np.random.default_rng(seed), 0
    for a, b in kinds_of_data(rng, n):
        have, want = batch.sums(write_terms(a, b), piece), exactly(a, b)
        assert have == want, f"seed {seed}, {n} terms in pieces of {piece} bytes: {have} for {want}"
        terms += a.size
    return terms


def test_terms_in_pieces(batch: Batch) -> None:
    """All lengths of a first word; pieces are sums that are added."""
    for n in range(1, 13):
        compare(batch, n, n, 8 * (n % 5 + 1))
    compare(batch, 100, 2500, 8 * 617)


@pytest.mark.slow
def test_a_million_terms(batch: Batch) -> None:
    terms = sum(compare(batch, seed, 4001, 1 << 20) for seed in range(60))
    assert terms >= 10**6


def test_term_by_term(batch: Batch) -> None:
    """addProduct is addTerms of one; both are exact. The exponents are those of the first factors."""
    rng = np.random.default_rng(5)
    for a, b in kinds_of_data(rng, 300):
        total, exponents = batch.steps(write_terms(a, b))
        assert total == exactly(a, b)[0]
        sizes = a[(a & np.uint32(0x7FFFFFFF)) != 0]
        assert exponents == sum({1 << max(int(v >> 23 & 0xFF) - 1, 0) for v in sizes.tolist()})


def test_what_is_not_finite(batch: Batch) -> None:
    """Every kind of factor in every lane among ordinary terms, in one piece or split anywhere."""
    rng = np.random.default_rng(6)
    everything = np.concatenate([SPECIAL, NOT_FINITE])
    for trial in range(400):
        n = int(rng.integers(1, 14))
        a, b = finite_bits(rng, n), rng.choice(everything, n)
        for _ in range(int(rng.integers(0, 3))):
            a[rng.integers(n)] = rng.choice(NOT_FINITE[: 2 if trial % 2 else 5])
        want = exactly(a, b)
        for piece in (8, 24, 1 << 20):
            have = batch.sums(write_terms(a, b), piece)
            assert all(map(same, have, want)), f"trial {trial}, pieces of {piece}: {have} for {want}"
        assert same(batch.steps(write_terms(a, b))[0], want[0])


def test_every_pair_of_special_values(batch: Batch) -> None:
    everything = np.concatenate([SPECIAL, NOT_FINITE])
    for a in everything:
        for b in everything:
            pair = np.array([a]), np.array([b])
            have = batch.sums(write_terms(*pair))
            assert all(map(same, have, exactly(*pair))), f"{a:#x} times {b:#x} is {have}"


def test_sums_of_sums(batch: Batch) -> None:
    rng = np.random.default_rng(7)
    specials: list[Sum] = [0, 1, -1, math.inf, -math.inf, math.nan]
    specials += [s * (1 << k) - d for k in (255, 256, 511, 512, 584) for d in (0, 1) for s in (1, -1)]
    random = [int.from_bytes(rng.bytes(int(rng.integers(1, 74))), "big", signed=True) for _ in range(300)]
    everything = specials + random
    cases = [(a, b) for a in specials for b in specials]
    cases += [(everything[i], everything[j]) for i, j in rng.integers(0, len(everything), (2000, 2)).tolist()]
    cases += [(a, -a) for a in random]
    for (a, b), (total, opposite, size, order) in zip(cases, batch.pairs(cases), strict=True):
        assert same(total, a + b if type(a) is type(b) else (a if isinstance(a, float) else b)), (a, b)
        assert same(opposite, -a), a
        assert same(size, abs(a)), a
        if math.isnan(a) or math.isnan(b):
            assert order == math.isnan(b) - math.isnan(a)
        else:
            assert order == (a > b) - (a < b), (a, b)


def test_sums_that_no_order_changes(batch: Batch) -> None:
    """As in referee_py: 53 bits from the smallest term's last place to the magnitude, and one more."""
    rng, answers = np.random.default_rng(8), set()
    for _ in range(300):
        n, low = int(rng.integers(1, 6)), int(rng.integers(0, 200))
        fields = rng.integers(low, low + int(rng.integers(1, 56)), n).astype(np.uint32) << np.uint32(23)
        a = np.where(rng.random(n) < 0.1, 0, fields | rng.integers(0, 1 << 23, n).astype(np.uint32))
        a = a.astype(np.uint32) | (rng.integers(0, 2, n).astype(np.uint32) << np.uint32(31))
        terms = write_terms(a, np.full(n, ONE))
        _, magnitude = batch.sums(terms)
        assert isinstance(magnitude, int)
        answer = batch.is_added_exactly(batch.steps(terms)[1], magnitude)
        assert answer == added_exactly(a.view(np.float32).astype(np.float64).tolist()), a
        answers.add(answer)
    # 1, and 2^53 - 1 or 2^53 of its ulps besides
    assert answers == {False, True}
    assert batch.is_added_exactly(1 << 126, (2**53 - 1) << (126 + 149))
    assert not batch.is_added_exactly(1 << 126, 2**53 << (126 + 149))
