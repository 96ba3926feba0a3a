"""The contract's elementary functions against the kernels of repops, which are checked for all inputs, and MPFR."""

from __future__ import annotations

from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
from repops.host import cpu

from referee_py.rounding import elementary as exactly
from referee_py.rounding.grid import Toward, to_grid
from tests.conftest import Anvil
from tests.kernels.test_elementary import SPECIAL, by_mpfr, pairs
from tests.support.solidity import compiled

from .chain import ANVIL_OPTIONS
from .elementary import FUNCTIONS, U32, Batch, Bracket
from .elementary_inputs import hard_cases, samples

ROUNDED = [name for name in FUNCTIONS if name not in ("pow", "rsqrt")]
NAN = 0x7FC00000
BITS = 300  # of MPFR, for brackets
EXPONENTS = 4000  # added, because a negative exponent would require a division
PROMISED = 100
CODE_SIZE_LIMIT = 24_576  # EIP-170
# On any grid: up, to nearest or down; and both ends of the admissible values of an entry.
TOWARD = (Toward.BELOW, Toward.NEAREST, Toward.ABOVE)

quick_and_slow = pytest.mark.parametrize(
    "count", [pytest.param(4_000, id="quick"), pytest.param(200_000, id="slow", marks=pytest.mark.slow)]
)


@pytest.fixture(scope="module")
def batch(start_module_anvil: Callable[..., Anvil]) -> Batch:
    return Batch(start_module_anvil(*ANVIL_OPTIONS).url)


def bits_of(values: np.ndarray) -> U32:
    """Return bits, with the committed NaN for every NaN."""
    return np.where(np.isnan(values), np.uint32(NAN), values.view(np.uint32)).astype(np.uint32)


def by_kernels(name: str, *operands: U32) -> U32:
    (values,) = cpu.execute(name, [v.view(np.float32) for v in operands], {})
    return bits_of(values)


def check(batch: Batch, name: str, *operands: U32) -> None:
    got, want = batch.values(name, *operands), by_kernels(name, *operands)
    for i in np.flatnonzero(got != want).tolist()[:1]:
        given = ", ".join(f"{v[i]:#010x}" for v in operands)
        pytest.fail(f"{name}({given}) is {got[i]:#010x}, should be {want[i]:#010x}")


# ------------------------------------------------------------------------------------------------- values


@quick_and_slow
@pytest.mark.parametrize("name", ROUNDED)
def test_values_are_correctly_rounded(name: str, count: int, batch: Batch) -> None:
    check(batch, name, samples(name, count, seed=count))


@pytest.mark.parametrize("name", ROUNDED)
def test_hardest_inputs(name: str, batch: Batch) -> None:
    x = hard_cases(name)
    got = batch.values(name, x)
    assert len(x) > 0
    assert (got == bits_of(by_mpfr(name, x.view(np.float32)))).all()


@quick_and_slow
def test_powers_are_correctly_rounded(count: int, batch: Batch) -> None:
    """Any bits, exact and half-way powers and roots, near one, at both ends of the range."""
    step = max(1, 200_000 // count)
    with np.errstate(all="ignore"):
        for a, b in pairs().values():
            few = [v[::step].astype(np.float32).view(np.uint32) for v in (a, b)]
            check(batch, "pow", *few)


def test_powers_of_all_special_pairs(batch: Batch) -> None:
    a, b = (grid.ravel().copy() for grid in np.meshgrid(SPECIAL, SPECIAL))
    got = batch.values("pow", a.view(np.uint32), b.view(np.uint32))
    assert (got == bits_of(by_mpfr("pow", a, b))).all()


def test_powers_that_are_ties_go_to_even(batch: Batch) -> None:
    """4097^2 = 2^24 + 2^13 + 1 and 4099^2 lie between two floats, 2^-150 and 9 2^-150 between two subnormal numbers."""
    a = np.array([4097, 4099, 2.0**-75, 3 * 2.0**-75], np.float32)
    b = np.full(4, 2, np.float32)
    want = np.array([4097**2 - 1, 4099**2 - 1, 0, 4 * 2.0**-149], np.float32)
    assert (batch.values("pow", a.view(np.uint32), b.view(np.uint32)) == want.view(np.uint32)).all()


# ----------------------------------------------------------------------------------------------- brackets


def check_bracket(name: str, around: Bracket, operands: list[float], value: int) -> None:
    low, high, exponent, sign = around
    if high == 0:
        assert low == value, "a value of a table"
        return
    assert 1 << 100 <= low <= high < 1 << 200
    assert sign in (0, 1 << 31)
    down, up = directed(name, operands)
    assert bool(sign) == gmpy2.is_signed(down)
    if sign:
        down, up = -up, -down
    if abs(exponent) == 2000:
        assert down > 2.0**369 if exponent > 0 else up < 2.0**-369
        return
    scaled = [gmpy2.mul_2exp(v, EXPONENTS) for v in (down, up)]
    ends = [gmpy2.mul_2exp(gmpy2.mpfr(m), exponent + EXPONENTS) for m in (low, high)]
    assert ends[0] <= scaled[0]
    assert scaled[1] <= ends[1]
    if low < high:
        assert down < up  # so the value is strictly between the ends
        assert (high - low) << PROMISED <= low
        # No number of 25 bits strictly between the ends.
        cut = max(low.bit_length() - 25, 0)
        assert ((low >> cut) + 1) << cut >= high


def directed(name: str, operands: list[float]) -> list[gmpy2.mpfr]:
    """Return the value rounded down and up: MPFR rounds correctly."""
    ends = []
    for toward in (gmpy2.RoundDown, gmpy2.RoundUp):
        with gmpy2.context(precision=BITS, round=toward):
            ends.append(function(name)(*map(gmpy2.mpfr, operands)))
    return ends


def function(name: str) -> Callable[..., gmpy2.mpfr]:
    if name == "pow":
        return gmpy2.mpfr.__pow__
    return getattr(gmpy2, "rec_sqrt" if name == "rsqrt" else name)


def operands_of_brackets(name: str, count: int) -> list[U32]:
    if name != "pow":
        return [np.concatenate([samples(name, count, seed=count + 1), hard_cases(name)])]
    with np.errstate(all="ignore"):
        few = [[v[:: 1_100_000 // count].astype(np.float32) for v in kind] for kind in pairs().values()]
    return [np.concatenate(v).view(np.uint32) for v in zip(*few, strict=True)]


def rows_of(operands: list[U32]) -> list[list[float]]:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.stack([v.view(np.float32).astype(np.float64) for v in operands], axis=1).tolist()


@pytest.mark.parametrize(
    "count", [pytest.param(2_000, id="quick"), pytest.param(20_000, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_brackets_hold_the_value(name: str, count: int, batch: Batch) -> None:
    operands = operands_of_brackets(name, count)
    values = by_kernels(name, *operands).tolist()
    rows = rows_of(operands)
    with gmpy2.context(precision=BITS):  # low, high and the results of `directed` are exact in it
        for around, row, value in zip(batch.brackets(name, *operands), rows, values, strict=True):
            check_bracket(name, around, row, value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_brackets_round_to_any_grid(name: str, batch: Batch) -> None:
    """Compare roundings in every direction, and ends of the admissible values, with MPFR brackets of 256 bits."""
    operands = operands_of_brackets(name, 1_000)
    rows = rows_of(operands)
    decided = 0
    for around, row in zip(batch.brackets(name, *operands), rows, strict=True):
        want = None if around.high == 0 else exactly.bracket(name, row, 256)
        if want is None or isinstance(want, float):
            continue
        low, high, exponent, sign = around
        got = (-high, -low, exponent) if sign else (low, high, exponent)
        for b in range(26, 33):
            for toward in TOWARD:
                assert to_grid(got[0] + got[1], 1, exponent - 1, b, toward) == to_grid(
                    want[0] + want[1], 1, want[2] - 1, b, toward
                ), (name, row, b, toward)
            for end in (-1, 1):
                ends = {exactly._end(m, place, end, b) for *ms, place in (got, want) for m in ms}
                assert len(ends) == 1, (name, row, b, end)
        decided += 1
    assert decided > 300


# --------------------------------------------------------------------------------------------------- size


def test_it_can_be_deployed() -> None:
    """Including the functions of the tests."""
    assert (
        len(compiled("tests/contracts/float/ElementaryBatch.sol", "ElementaryBatch").runtime)
        <= CODE_SIZE_LIMIT
    )
