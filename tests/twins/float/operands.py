"""Operands of float arithmetic, as bits: ordinary operands, and those at which implementations fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from .formats import F64, Bits, Format

Rows = list[Bits]  # one array an operand


def special(form: Format) -> list[int]:
    """Return zeros, both ends of the subnormal and of the normal numbers, infinities, NaNs of all kinds, small
    numbers, and the exponents at which the contracts' ordinary cases end."""
    p, bias = form.fraction, form.bias
    ones = (1 << p) - 1
    values = [0, 1, 2, ones // 2 + 1, ones, 1 << p, (1 << p) + 1, form.infinity - 1, form.infinity]
    values += [form.infinity + 1, form.nan, form.nan + 1, form.sign - 1]
    edges = (
        (49, 50, 63, 64, 127, 190, 191, 228, 229) if form.width == 32 else (511, 512, 1023, 1534, 1535, 1536)
    )
    values += [e << p for e in edges] + [(e << p) | ones for e in edges]
    values += [
        (bias << p) + 1,
        (bias - 1) << p,
        (bias << p) | 1 << (p - 1),
        (bias + p) << p,
        (bias + p + 1) << p,
    ]
    values = sorted(set(values))
    return values + [value | form.sign for value in values]


def special_tuples(form: Format, operands: int) -> Rows:
    """Return all pairs, triples ... of special values."""
    tuples = np.array(list(itertools.product(special(form), repeat=operands)), np.uint64)
    return list(tuples.T)


class Operands:
    """Tuples of ``operands`` numbers for an operation; each method returns ``count`` tuples of one kind."""

    def __init__(self, form: Format, operands: int, seed: str) -> None:
        self.form, self.operands = form, operands
        self.random = np.random.default_rng([form.width, operands, *seed.encode()])

    def tuples(self, count: int) -> Rows:
        """Return at least ``count`` tuples: an equal part of each kind, and all special ones."""
        kinds: list[Callable[[int], Rows]] = [
            self.any_bits,
            self.normal,
            self.cancelling,
            self.short,
            self.at_the_bottom,
            self.at_the_top,
            self.far_apart,
            self.at_the_limits,
        ]
        if self.operands == 3:
            kinds.append(self.remainders)
        parts = [kind(-(-count // len(kinds))) for kind in kinds] + [special_tuples(self.form, self.operands)]
        return [np.concatenate(rows) for rows in zip(*parts, strict=True)]

    def any_bits(self, count: int) -> Rows:
        high = np.uint64((1 << self.form.width) - 1)
        return [self.random.integers(0, high, count, np.uint64, endpoint=True) for _ in range(self.operands)]

    def normal(self, count: int) -> Rows:
        """Return N(0, 1) numbers."""
        dtype = f"f{self.form.width // 8}"
        return [
            self.form.bits(self.random.standard_normal(count).astype(dtype)) for _ in range(self.operands)
        ]

    def cancelling(self, count: int) -> Rows:
        """Make the last operand nearly cancel the others: a and -a, a b and -(a b), some last-place units apart."""
        rows = self.normal(count)
        if self.operands < 2:
            return self.short(count)
        with np.errstate(all="ignore"):
            product = self.form.floats(rows[0])
            for row in rows[1:-1]:
                product = product * self.form.floats(row)
        apart = np.round(self.random.standard_normal(count) * 2.0 ** self.random.integers(-2, 6, count))
        rows[-1] = (self.form.bits(product).astype(np.int64) + apart.astype(np.int64)).astype(np.uint64)
        rows[-1] = self._limited(rows[-1] ^ np.uint64(self.form.sign))
        return rows

    def short(self, count: int) -> Rows:
        """Return numbers of few significant bits and similar exponents: exact results and ties."""
        p = self.form.fraction
        rows = [self._with_exponents(self.random.integers(-p, p + 1, count)) for _ in range(self.operands)]
        for row in rows:
            kept = self.random.integers(0, p // 2 + 3, count).astype(np.uint64)
            row &= ~(np.uint64((1 << p) - 1) >> kept)
        return rows

    def at_the_bottom(self, count: int) -> Rows:
        """Return products, quotients and operands near the smallest numbers."""
        return self._near(count, 1 - self.form.bias)

    def at_the_top(self, count: int) -> Rows:
        """Return products, quotients and operands near the largest numbers."""
        return self._near(count, self.form.bias)

    def far_apart(self, count: int) -> Rows:
        """Return exponents as far apart as the ways of adding distinguish, and farther."""
        return [self._with_exponents(self.random.integers(-180, 181, count)) for _ in range(self.operands)]

    def at_the_limits(self, count: int) -> Rows:
        """Return exponents up to two from where the contracts' short ways end (docs/float.md, section 1)."""
        single, bias = self.form.width == 32, self.form.bias
        low, high, middle, end = (50, 190, 189, 230) if single else (512, 1535, 1135, 200)
        beside = self.random.integers(-2, 3, (2, count))
        last = self.random.choice([low, high], count) + beside[0]
        place = self.random.choice([0, end], count) + beside[1]
        if self.operands == 3:
            product = last + middle - place
            first = product // 2 + self.random.integers(-9, 10, count)
            exponents = [first, product - first, last]
        else:
            # A sum in binary64: 100 places apart.
            exponents = [last + self.random.choice([-100, 100], count) + beside[1], last][-self.operands :]
        return [self._with_exponents(e - bias) for e in exponents]

    def remainders(self, count: int) -> Rows:
        """Return operands of (1 + j u) (1 +- k u) - (1 + (j +- k) u), u a unit of the last place: the least remainder,
        j k u^2, scaled so that it is an ordinary number, or just not."""
        form, p = self.form, np.uint64(self.form.fraction)
        j, k = self.random.integers(1, 4, (2, count)).astype(np.uint64)
        above = self.random.integers(0, 2, count).astype(bool) | (j < k)
        one = np.uint64(form.bias) << p
        a, b = one + j, np.where(above, one + k, one - 2 * k)
        c = np.where(above, one + j + k, one + j - k) | np.uint64(form.sign)
        scale = self.random.integers(2 * form.fraction - 6, 2 * form.fraction + 7, count) - form.bias
        first = self.random.integers(-form.bias // 2, 1, count)
        shifts = (first, scale - first, scale)
        return [
            (x.astype(np.int64) + (e << form.fraction)).astype(np.uint64)
            for x, e in zip((a, b, c), shifts, strict=True)
        ]

    def _near(self, count: int, exponent: int) -> Rows:
        p = self.form.fraction
        around = exponent + self.random.integers(-p - 3, p + 4, count)
        first = self.random.integers(1 - self.form.bias, self.form.bias + 1, count)
        # A third each: all operands near the exponent, their product, their quotient.
        kind = self.random.integers(0, 3, count)
        second = np.select([kind == 0, kind == 1], [around, around - first], first - around)
        first = np.where(kind == 0, exponent + self.random.integers(-3, 4, count), first)
        rows = [self._with_exponents(first), self._with_exponents(second)]
        rows += [self._with_exponents(around + self.random.integers(-3, 4, count))]
        return rows[: self.operands] if self.operands > 1 else [self._with_exponents(around)]

    def _with_exponents(self, exponents: np.ndarray) -> Bits:
        """Any sign and fraction; an exponent below the range gives a subnormal number, above it infinity or NaN."""
        form = self.form
        e = np.clip(exponents + form.bias, 0, form.top).astype(np.uint64)
        bits = self.random.integers(0, 1 << (form.fraction + 1), len(e)).astype(np.uint64)
        sign = (bits & np.uint64(1)) << np.uint64(form.width - 1)
        fraction = bits >> np.uint64(1)
        # Subnormal numbers of every size.
        shift = self.random.integers(0, form.fraction, len(e)).astype(np.uint64)
        fraction = np.where(e == 0, fraction >> shift, fraction)
        return sign | e << np.uint64(form.fraction) | fraction

    def _limited(self, bits: Bits) -> Bits:
        return bits if self.form is F64 else bits & np.uint64(0xFFFFFFFF)
