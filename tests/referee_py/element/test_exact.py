"""Elements of the mode exact as chains are the real sum of their terms, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from repops import reference
from repops.opset import F32, OPS, Arithmetic
from repops.random_calls import random_call

from referee_py.element import Case, Read, evaluate, exact_sum, rule_of, scalar, states
from referee_py.element.positions import digits
from referee_py.errors import InvalidInput
from referee_py.program import TensorType
from referee_py.program.modes import EXACT, MAX_BITS
from referee_py.rounding.grid import UNIT
from tests.referee_py.rounding import exact, operators

from .logged import entries
from .operands import bits_of, cases_of, reader

SUMS = [op.name for op in OPS if op.arithmetic is Arithmetic.SUM]


def in_mode(cases: Sequence[Case]) -> list[Case]:
    return [replace(case, mode=EXACT.byte) for case in cases]


@pytest.mark.parametrize(
    "count", [pytest.param(3, id="quick"), pytest.param(60, id="slow", marks=pytest.mark.slow)]
)
def test_hard_sums_are_what_fractions_say(count: int) -> None:
    """On and near midpoints, cancelling, subnormal, infinite and NaN; no entry counts."""
    rng, looked = np.random.default_rng(count), 0
    for call in operators.cases(rng, MAX_BITS):
        if call.name not in SUMS:
            continue
        for case in in_mode(cases_of(call.name, call.inputs, call.attrs, rng.random(count))):
            rule, read = rule_of(case), reader(call.inputs)
            state = rule.begin(case)
            for t in range(rule.length(case)):
                state = rule.step(case, t, state, read)
            index = tuple(digits(case.element, case.shape))
            want = value_of(exact.terms_of(call.name, call.inputs, call.attrs, index), state)
            got = rule.finish(case, state)
            assert got == scalar.to_bits(want), (str(call), case.element)
            assert {rule.finish(case, state, entry) for entry in entries(case, got, rng)} == {got}
            looked += 1
    assert looked > 60 * count


def value_of(terms: Sequence[exact.Term], state: bytes) -> float:
    """Return the value of these terms; check that the state is their sum."""
    total = exact_sum.decode(state)
    if not all(math.isfinite(v) for term in terms for v in term):
        assert not exact_sum.is_finite(total)
        return sum((a * b for a, b in terms), 0.0)
    assert Fraction(total, 2**UNIT) == exact.exact_value(terms)
    return exact.round_exact(exact.exact_value(terms), MAX_BITS)


@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_every_element_has_the_reference_s_bits(name: str) -> None:
    rng, looked = np.random.default_rng(len(name)), 0
    for number in range(30):
        inputs, attrs = random_call(name, f"exact/{number}", "tiny" if number % 10 else "usual")
        outputs = reference.execute_exact(name, inputs, attrs)
        for case in in_mode(cases_of(name, inputs, attrs, (0.0, 1.0, rng.random()))):
            got = evaluate(case, reader(inputs))
            assert got == bits_of(outputs[case.output], case.element), (number, case)
            looked += 1
    assert looked > 20


ONE, HALF_ULP, ULP = 0x3F800000, 0x33800000, 0x34000000  # 1, 2^-24, 2^-23
LARGEST, HALF_ABOVE = 0x7F7FFFFF, 0x73000000  # half a quantum above the largest value: 2^103
INF, NAN, MINUS = 0x7F800000, 0x7FC00000, 0x80000000
TABLE = [
    ([], 0),
    ([MINUS], 0),
    ([ONE, ONE | MINUS], 0),
    ([ONE, HALF_ULP], ONE),  # a tie, to even
    ([ONE, ULP, HALF_ULP], ONE + 2),  # a tie, to even
    ([ONE, HALF_ULP, 1], ONE + 1),  # a crumb above a tie
    ([ONE, HALF_ULP, 1 | MINUS], ONE),
    ([LARGEST, HALF_ABOVE], INF),
    ([LARGEST, HALF_ABOVE, 1 | MINUS], LARGEST),
    ([LARGEST, LARGEST, LARGEST | MINUS], LARGEST),  # no partial sum overflows
    ([LARGEST | MINUS, LARGEST | MINUS], INF | MINUS),
    ([0x00800000, 1 | MINUS], 0x007FFFFF),  # the largest subnormal
    ([0x7F7FFFFF, 1, 0xFF7FFFFF], 1),  # everything cancels but the smallest subnormal
    ([INF, LARGEST, 1 | MINUS], INF),
    ([INF | MINUS, INF | MINUS], INF | MINUS),
    ([INF, INF | MINUS], NAN),
    ([NAN, INF], NAN),
]


@pytest.mark.parametrize(("values", "want"), TABLE)
def test_values_in_every_order(values: list[int], want: int) -> None:
    """Every order of the terms gives the same state and element, as a sum and as products with 1."""
    size, scalar_f32 = len(values), TensorType(F32, ())
    added = Case(
        "sum", (TensorType(F32, (size,)),), (scalar_f32,), {"dims": (0,), "keepdim": 0}, 0, 0, EXACT.byte
    )
    row, column = TensorType(F32, (1, size)), TensorType(F32, (size, 1))
    product = Case("mm", (row, column), (TensorType(F32, (1, 1)),), {}, 0, 0, EXACT.byte)
    found = set()
    for case in (added, product):
        for some in permutations(values):
            *_, last = [rule_of(case).begin(case), *states(case, reading(some), 0, rule_of(case).begin(case))]
            found.add((last, rule_of(case).finish(case, last)))
    ((_, element),) = found
    assert element == want


def reading(values: Sequence[int]) -> Read:
    """Return a reader of these values; those of a second operand are 1."""
    return lambda place, element: ONE if place else values[element]


def test_a_product_below_every_value_still_decides_a_tie() -> None:
    """2^-149 times 2^-149 is the unit of sums."""
    kinds = TensorType(F32, (1, 3)), TensorType(F32, (3, 1))
    case = Case("mm", kinds, (TensorType(F32, (1, 1)),), {}, 0, 0, EXACT.byte)
    factors = [(ONE, HALF_ULP, 1), (ONE, ONE, 1)]
    assert evaluate(case, lambda place, element: factors[place][element]) == ONE + 1
    assert (
        evaluate(case, lambda place, element: factors[place][element] ^ (MINUS if place else 0))
        == ONE + 1 | MINUS
    )
    factors[0] = (ONE, HALF_ULP, 1 | MINUS)
    assert evaluate(case, lambda place, element: factors[place][element]) == ONE


def test_states_that_no_terms_give_are_refused() -> None:
    (case,) = in_mode(cases_of("sum", [np.ones(3, np.float32)], {"dims": (0,), "keepdim": 0}, (0.0,)))
    rule = rule_of(case)
    for word in (1 << 585, (1 << 766) + 1, -(1 << 585) - 1, (1 << 767) - 1):
        state = word.to_bytes(96, "big", signed=True)
        with pytest.raises(InvalidInput):
            rule.step(case, 0, state, lambda *_: ONE)
        with pytest.raises(InvalidInput):
            rule.finish(case, state)
    for word, want in (
        ((1 << 585) - 1, INF),
        (-(1 << 585), INF | MINUS),
        (1 << 766, INF),
        (-(1 << 767), NAN),
    ):
        state = word.to_bytes(96, "big", signed=True)
        assert rule.finish(case, state) == want
        # The next state of the largest one is a sum that is refused: no honest party has either.
        assert len(rule.step(case, 0, state, lambda *_: ONE)) == 96
