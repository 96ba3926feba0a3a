"""Whole elements as the contracts decide them, from operands to bits, against `referee_py.rounding.decide_exactly`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from referee_py.program.modes import Bounds, Rounding
from referee_py.rounding.additions import ADDITIONS
from referee_py.rounding.bounds import gamma
from referee_py.rounding.decide_exactly import decide_exactly
from referee_py.rounding.entries import Entries
from tests.conftest import Anvil
from tests.referee_py.rounding.exact import terms_of

from . import elementary
from .chain import ANVIL_OPTIONS
from .elementary_inputs import any_bits, samples
from .exact import U32, Batch, bits_of, value_of, write_terms
from .test_grid import SIGN, an_entry

CANONICAL = np.uint32(0x7FC00000)


@pytest.fixture(scope="module")
def batch(start_module_anvil: Callable[..., Anvil]) -> Batch:
    return Batch(start_module_anvil(*ANVIL_OPTIONS).url)


@pytest.fixture(scope="module")
def brackets(start_module_anvil: Callable[..., Anvil]) -> elementary.Batch:
    """Another chain: the contracts of both have the same address."""
    return elementary.Batch(start_module_anvil(*ANVIL_OPTIONS).url)


def bits(values: np.ndarray) -> U32:
    """Return the bits of the binary32 values in a float64 array, with one NaN."""
    narrow = values.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(values), CANONICAL, narrow)


def entries_near(r: Random, nearest: U32, b: int) -> Entries:
    drawn = [an_entry(r, b, int(v)) for v in nearest]
    with np.errstate(invalid="ignore"):
        values = np.array([value_of(v) for _, v in drawn])
    return Entries(np.array([kind for kind, _ in drawn], dtype=np.uint8), values)


# ---------------------------------------------------------------------- sums


def near_midpoints(r: Random, b: int, rows: int, n: int) -> np.ndarray:
    """Return terms of sums that end near midpoints: a value of the grid, half a step, crumbs, cancelling terms; now
    and then a term that is infinite or NaN."""

    def row() -> list[float]:
        field = r.randrange(60, 190)
        centre = value_of((field << 23) + (r.randrange(1 << 23) & -(1 << (32 - b))))
        half = 2.0 ** (field - 127 - (b - 8))
        large = centre * 2.0 ** r.randrange(40)
        crumbs = [half * r.randrange(-9, 10) * 2.0 ** -r.randrange(20, 60) for _ in range(n - 4)]
        terms = [centre, half, *crumbs, *r.choice(((large, -large), (0.0, 0.0)))][:n]
        if r.random() < 0.05:
            terms[r.randrange(n)] = r.choice((np.inf, -np.inf, np.nan))
        r.shuffle(terms)
        return terms

    signs = np.array([[r.choice((1.0, -1.0))] for _ in range(rows)])
    return (np.array([row() for _ in range(rows)]) * signs).astype(np.float32)


def operands(r: Random, name: str, b: int) -> tuple[list[np.ndarray], dict, tuple[int, ...]]:
    """Return inputs, attributes, and the output's shape."""
    n = r.choice((1, 2, 4, 7, 20))
    terms = near_midpoints(r, b, 12, n)
    if name == "mm":
        factors = np.array([[2.0 ** r.randrange(-3, 4) * r.choice((1, -1))] * n for _ in range(2)]).T
        return [terms, factors.astype(np.float32)], {}, (12, 2)
    if name == "sum":
        return [terms], {"dims": [1], "keepdim": False}, (12,)
    indices = np.repeat(np.arange(12), n - 1)
    return [terms[:, 0].copy(), indices.astype(np.int64), terms[:, 1:].reshape(-1).copy()], {}, (12,)


@pytest.mark.parametrize("name", ["mm", "sum", "scatter_add"])
def test_sums(batch: Batch, name: str) -> None:
    r, changed, exact = Random(name), 0, set()
    for _ in range(40):
        rounding = Rounding(r.randrange(26, 33), r.choice(list(Bounds)))
        inputs, attrs, shape = operands(r, name, rounding.bits)
        positions = np.arange(np.prod(shape), dtype=np.int64)
        nearest = decide_exactly(name, inputs, attrs, positions, Entries.none(positions.size), rounding)
        entries = entries_near(r, bits(nearest), rounding.bits)
        want = bits(decide_exactly(name, inputs, attrs, positions, entries, rounding))
        cases = []
        for i in positions.tolist():
            terms = terms_of(name, inputs, attrs, tuple(int(k) for k in np.unravel_index(i, shape)))
            factors = np.array(terms, dtype=np.float32).reshape(-1, 2).view(np.uint32)
            packed = write_terms(factors[:, 0], factors[:, 1])
            total, magnitude = batch.sums(packed)
            fraction = gamma(len(terms), rounding.bounds)
            size = magnitude if isinstance(magnitude, int) else 0
            if name in ADDITIONS:
                exact.add(rigid := batch.is_added_exactly(batch.steps(packed)[1], size))
                fraction = (0, 1) if rigid else fraction
            cases.append(
                (total, size, fraction, int(entries.kinds[i]), bits_of(entries.values[i]), rounding.bits)
            )
        have = batch.decide(cases)
        assert (have == want).all(), (name, rounding, cases[int(np.flatnonzero(have != want)[0])])
        changed += int((want != bits(nearest)).sum())
    assert changed > 20, "entries counted"
    assert exact == ({False, True} if name in ADDITIONS else set())


# ---------------------------------------------------------------------- elementary functions


def check_function(batch: Batch, brackets: elementary.Batch, name: str, count: int, seed: int) -> None:
    r, rng = Random(seed), np.random.default_rng(seed)
    if name == "pow":
        a, b = any_bits(rng, count), any_bits(rng, count)
        a[::2], b[::2] = np.abs(rng.normal(size=(2, (count + 1) // 2)) * 3).astype(np.float32).view(np.uint32)
        b[::4] = np.round(b[::4].view(np.float32)).view(np.uint32)
        given = [a, b]
    else:
        given = [samples(name, count, seed)]
    inputs, found = [v.view(np.float32) for v in given], brackets.brackets(name, *given)
    positions = np.arange(given[0].size, dtype=np.int64)
    for bits_kept in (26, 29, 31):
        rounding = Rounding(bits_kept)
        nearest = decide_exactly(name, inputs, {}, positions, Entries.none(positions.size), rounding)
        entries = entries_near(r, bits(nearest), bits_kept)
        want = bits(decide_exactly(name, inputs, {}, positions, entries, rounding))
        cases, where = [], []
        for i, (low, high, exponent, sign) in enumerate(found):
            if high == 0:  # a value of a table; zeros have no sign
                tabled = low if low & (SIGN - 1) else 0
                assert tabled == want[i], f"{name} of {[hex(v[i]) for v in given]} is in a table: {tabled:#x}"
                continue
            ends = (-high, -low) if sign else (low, high)
            where.append(i)
            value = bits_of(entries.values[i])
            cases.append((*ends, exponent, int(entries.kinds[i]), value, bits_kept))
        have = batch.decide_bracket(cases)
        wrong = np.flatnonzero(have != want[where])
        assert not wrong.size, (
            f"{name}, {cases[int(wrong[0])]}: {have[wrong[0]]:#x}, {want[where][wrong[0]]:#x}"
        )


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", elementary.FUNCTIONS)
def test_elementary_functions(batch: Batch, brackets: elementary.Batch, name: str, count: int) -> None:
    """Never undecided."""
    check_function(batch, brackets, name, count, 10 + count)
