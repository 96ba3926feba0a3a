"""The contracts' binary32 and binary64 against this machine's processor, bit for bit, and against fractions.

`-m slow` runs a million tuples of operands for each operation. docs/float.md records results and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from . import formats
from .chain import ANVIL_OPTIONS, Contract
from .formats import F32, F64, Bits, Format
from .operands import Operands, special, special_tuples

QUICK, FULL = 21_000, 1_000_000
PIECE = 20_000  # tuples a call
WORST_GAS = 2_600

Reference = Callable[..., Any]

# Operations that the processor computes in the operands' format.
ARITHMETIC: dict[str, tuple[int, Reference]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "div": (2, np.divide),
    "sqrt": (1, np.sqrt),
    "neg": (1, np.negative),
}
COMPARISONS: dict[str, Reference] = {"eq": np.equal, "lt": np.less, "le": np.less_equal}
# Functions of FloatGeneral, which the functions above use only for rare operands.
GENERAL = {"generalFma": 3, "generalDiv": 2, "generalSqrt": 1}
NAMES = [*ARITHMETIC, "fma", *COMPARISONS, "key", "maximum", "minimum", *GENERAL]


def expected(name: str, form: Format, operands: list[Bits]) -> Bits:
    """Return the processor's result."""
    name = {"generalFma": "fma", "generalDiv": "div", "generalSqrt": "sqrt"}.get(name, name)
    if name == "fma":
        return formats.fma(form, *operands)
    if name == "key":
        return formats.key(form, operands[0]).astype(np.uint64) & np.uint64(2 * form.sign - 1)
    if name in ("maximum", "minimum"):
        a, b = operands
        first = (formats.key(form, a) >= formats.key(form, b)) == (name == "maximum")
        unordered = form.is_nan(a) | form.is_nan(b)
        return np.where(unordered, np.uint64(form.nan), np.where(first, a, b))
    with np.errstate(all="ignore"):
        floats = [form.floats(x) for x in operands]
        if name in COMPARISONS:
            return COMPARISONS[name](*floats).astype(np.uint64)
        return form.bits(ARITHMETIC[name][1](*floats))


def operand_count(name: str) -> int:
    counts = {"fma": 3, "key": 1} | GENERAL | {name: count for name, (count, _) in ARITHMETIC.items()}
    return counts.get(name, 2)


class Chain(Contract):
    """FloatBatch, over arrays."""

    def values(self, name: str, operands: list[Bits], bits_in: int, bits_out: int) -> Bits:
        return self._pieces("values", name, operands, bits_in, bits_out)

    def gas(self, name: str, operands: list[Bits], bits_in: int) -> Bits:
        """Return the gas of each tuple, and of finding the function: 500 to 700 that do not depend on operands."""
        return self._pieces("gas", name, operands, bits_in, 32)

    def _pieces(self, function: str, name: str, operands: list[Bits], bits_in: int, bits_out: int) -> Bits:
        rows = np.stack(operands, axis=1).astype(f">u{bits_in // 8}")
        answers = [
            self.call(function, name, rows[k : k + PIECE].tobytes()) for k in range(0, len(rows), PIECE)
        ]
        return np.frombuffer(b"".join(answers), f">u{bits_out // 8}").astype(np.uint64)


@pytest.fixture(scope="module")
def chain(start_module_anvil: Callable[..., Any]) -> Chain:
    # A library that flushes subnormal numbers to zero would make the processor an unreliable witness.
    assert np.float32(2.0**-149) * np.float32(0.75) == np.float32(2.0**-149)
    return Chain(start_module_anvil(*ANVIL_OPTIONS).url, "FloatBatch")


def assert_same(name: str, operands: list[Bits], have: Bits, want: Bits) -> None:
    wrong = np.flatnonzero(have != want)
    if len(wrong):
        k = wrong[0]
        terms = ", ".join(hex(int(x[k])) for x in operands)
        pytest.fail(
            f"{len(wrong)} of {len(have)}: {name}({terms}) = {int(have[k]):#x}, not {int(want[k]):#x}"
        )


def compare(chain: Chain, name: str, form: Format, count: int, seed: str) -> int:
    operands = Operands(form, operand_count(name), seed + name).tuples(count)
    bits_out = 8 if name in COMPARISONS else form.width
    have = chain.values(f"{name}{form.width}", operands, form.width, bits_out)
    assert_same(name, operands, have, expected(name, form, operands))
    return len(have)


@pytest.mark.parametrize("form", [F32, F64], ids=["binary32", "binary64"])
def test_results_expect_the_processors(chain: Chain, form: Format) -> None:
    for name in NAMES:
        assert compare(chain, name, form, QUICK, "quick") >= QUICK


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", [F32, F64], ids=["binary32", "binary64"])
def test_a_million_results_expect_the_processors(chain: Chain, form: Format, name: str) -> None:
    count = compare(chain, name, form, FULL, "full")
    print(f"{name}{form.width}: {count} tuples, 0 mismatches")
    assert count >= FULL


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_root_of_two_binades_expect_the_processors(chain: Chain) -> None:
    """All significands, with an even and with an odd exponent: other normal numbers have the same roots, scaled."""
    checked = 0
    for start in range(127 << 23, 129 << 23, 1 << 18):
        operands = [np.arange(start, start + (1 << 18), dtype=np.uint64)]
        have = chain.values("sqrt32", operands, 32, 32)
        assert_same("sqrt", operands, have, expected("sqrt", F32, operands))
        checked += len(have)
    assert checked == 1 << 24


def conversions(count: int, seed: str) -> Iterator[tuple[str, int, int, Bits, Bits]]:
    """Yield (name, bits of operands and of results, operands, results of the processor)."""
    random = np.random.default_rng(list(seed.encode()))
    # Integers of every size, and integers that binary32 or binary64 must round: halves of a last place.
    integers = random.integers(-(1 << 63), 1 << 63, count, np.int64) >> random.integers(0, 64, count)
    ties = random.integers(1 << 24, 1 << 26, count) << random.integers(0, 38, count)
    ties = (ties + random.integers(-1, 2, count)) * random.choice([-1, 1], count)
    ends = np.array(
        [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 - (1 << 63), (1 << 53) + 1, (1 << 24) + 1], np.int64
    )
    integers = np.concatenate([integers, ties, ends])
    for form in (F32, F64):
        to = integers.astype(np.float32 if form is F32 else np.float64)
        yield f"i64ToF{form.width}", 64, form.width, integers.astype(np.uint64), form.bits(to)

    singles = Operands(F32, 1, seed).tuples(count)[0]
    sized = (singles & np.uint64(0x807FFFFF)) | random.integers(120, 192, len(singles)).astype(
        np.uint64
    ) << np.uint64(23)
    both = np.concatenate([singles, sized])
    with np.errstate(all="ignore"):
        wide = F32.floats(both).astype(np.float64)
        inside = np.abs(wide) < 2.0**63
        cut = np.where(inside, wide, 0).astype(np.int64)
    limit = np.where(wide >= 2.0**63, np.int64((1 << 63) - 1), np.int64(-(1 << 63)))
    whole = np.where(np.isnan(wide), 0, np.where(inside, cut, limit))
    yield "f32ToI64", 32, 64, both, whole.astype(np.uint64)
    yield "f32ToF64", 32, 64, both, F64.bits(wide)

    doubles = Operands(F64, 1, seed).tuples(count)[0]
    near = F64.bits(F32.floats(both[~F32.is_nan(both)]).astype(np.float64))
    # Numbers of binary32, halves of their last place, also of subnormal numbers, and their neighbours.
    halves = np.uint64(1) << random.integers(28, 53, len(near)).astype(np.uint64)
    halves = np.where(random.integers(0, 2, len(near)), halves, np.uint64(1 << 28))
    near = near + halves + random.integers(-1, 2, len(near)).astype(np.uint64)
    doubles = np.concatenate([doubles, near])
    with np.errstate(all="ignore"):
        narrow = F64.floats(doubles).astype(np.float32)
    yield "f64ToF32", 64, 32, doubles, F32.bits(narrow)


def convert(chain: Chain, count: int, seed: str) -> None:
    for name, bits_in, bits_out, operands, want in conversions(count, seed):
        assert len(operands) >= count
        assert_same(name, [operands], chain.values(name, [operands], bits_in, bits_out), want)
        print(f"{name}: {len(operands)} operands, 0 mismatches")


def test_conversions_expect_the_processors(chain: Chain) -> None:
    convert(chain, QUICK, "quick")


@pytest.mark.slow
def test_a_million_conversions_expect_the_processors(chain: Chain) -> None:
    convert(chain, FULL, "full")


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def exactly(name: str, form: Format, operands: tuple[int, ...]) -> int | None:
    """Return the result by fractions; None unless it rounds a number other than 0."""
    if any(x & (form.sign - 1) >= form.infinity for x in operands):
        return None
    terms = [form.value(x) for x in operands]
    if name == "sqrt":
        if terms[0] <= 0:
            return None
        # 2^600 times the root, cut off, and a bit that is set if anything remains.
        scaled = terms[0] * 4**600
        root = math.isqrt(int(scaled))
        return form.nearest(Fraction(2 * root + (root * root != scaled), 2**601))
    if name == "div" and terms[1] == 0:
        return None
    value = EXACT[name](*terms)
    return form.nearest(value) if value else None


@pytest.mark.parametrize("name", [*EXACT, "sqrt"])
@pytest.mark.parametrize("form", [F32, F64], ids=["binary32", "binary64"])
def test_processor_expect_fractions(form: Format, name: str) -> None:
    """Check the witness itself: also that the C library's fma rounds once."""
    operands = Operands(form, operand_count(name), "fractions").tuples(2_000)
    chosen = np.random.default_rng(1).permutation(len(operands[0]))[:4_000]
    operands = [x[chosen] for x in operands]
    have = expected(name, form, operands)
    checked = 0
    for k, terms in enumerate(zip(*(x.tolist() for x in operands), strict=True)):
        want = exactly(name, form, terms)
        if want is not None:
            assert int(have[k]) == want, f"{name}{tuple(map(hex, terms))}"
            checked += 1
    assert checked >= 700


@pytest.mark.parametrize("form", [F32, F64], ids=["binary32", "binary64"])
def test_gas_expect_a_bound_whatever_the_operands(chain: Chain, form: Format) -> None:
    for name in [*ARITHMETIC, "fma", *COMPARISONS, "maximum", "minimum"]:
        operands = Operands(form, operand_count(name), "gas").tuples(QUICK)
        assert_bounded(chain, f"{name}{form.width}", operands, form.width)
    for name, bits_in, _, numbers, _ in conversions(QUICK // 2, "gas"):
        assert_bounded(chain, name, [numbers], bits_in)


def assert_bounded(chain: Chain, name: str, operands: list[Bits], bits_in: int) -> None:
    gas = chain.gas(name, operands, bits_in)
    k = int(np.argmax(gas))
    spread = f"{gas[k]} gas, {gas[k] - gas.min()} above the least"
    print(f"{name}: {spread}, at {', '.join(hex(int(x[k])) for x in operands)}")
    assert 0 < gas[k] <= WORST_GAS


def test_special_values_are_what_they_are_called() -> None:
    """The lists above have all they should: zeros, both ends, infinities, NaNs of all kinds."""
    for form in (F32, F64):
        values = np.array(special(form), np.uint64)
        floats = form.floats(values)
        assert len(values) == len(set(values.tolist()))
        assert np.isnan(floats).sum() == 8
        assert np.isinf(floats).sum() == 2
        assert (floats == 0).sum() == 2
        assert len(special_tuples(form, 2)[0]) == len(values) ** 2
