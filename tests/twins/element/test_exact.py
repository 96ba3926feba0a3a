"""Every rule of the mode exact gives the states and the elements of the Python twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from repops.opset import OPS, Arithmetic
from repops.random_calls import random_call

from referee_py.element import rule_of
from referee_py.element.exact_sum import INFINITE, NAN
from referee_py.errors import InvalidInput
from referee_py.program.modes import EXACT, MAX_BITS
from tests.referee_py.element.logged import entries
from tests.referee_py.element.operands import cases_of, reader
from tests.referee_py.rounding import operators

from .chain import Given, Refusal, Rules, decode
from .checks import Checks, add_call
from .large import anywhere, large_cases
from .mutations import Mutations
from .twin import finished, piece, whole

SUMS = [op.name for op in OPS if op.arithmetic is Arithmetic.SUM]


@pytest.mark.parametrize(
    "count", [pytest.param(18, id="quick"), pytest.param(300, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_every_step_and_element_is_the_twin_s(name: str, count: int, rules: Rules) -> None:
    """Entries of a log count for nothing."""
    checks = Checks(rules)
    rng = np.random.default_rng([count, *name.encode()])
    calls = number = 0
    while calls < count:
        inputs, attrs = random_call(name, f"exact/{count}/{number}", "tiny")
        calls += add_call(checks, rng, name, inputs, attrs, EXACT.byte) > 0
        number += 1
    checks.done()
    assert checks.followed == 0


@pytest.mark.parametrize(
    "count", [pytest.param(4, id="quick"), pytest.param(60, id="slow", marks=pytest.mark.slow)]
)
def test_elements_where_rounding_is_hardest(count: int, rules: Rules) -> None:
    """Sums on and near midpoints, cancelling sums, subnormals; infinities and NaN."""
    rng = np.random.default_rng(count)
    checks, seen = Checks(rules), set[str]()
    for call in operators.cases(rng, MAX_BITS):
        if call.name not in SUMS:
            continue
        for found in cases_of(call.name, call.inputs, call.attrs, rng.random(count)):
            case = replace(found, mode=EXACT.byte)
            chain = whole(case, reader(call.inputs))
            checks.ends(case, chain)
            checks.piece(case, chain)
            checks.elements(case, chain, entries(case, finished(case, chain), rng))
            seen.add(case.name)
    checks.done()
    assert checks.followed == 0
    assert seen == set(SUMS)


def test_a_long_sum(rules: Rules) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 1300), (1300, 3))]
    checks = Checks(rules)
    for found in cases_of("mm", inputs, {}, (0.4,)):
        case = replace(found, mode=EXACT.byte)
        chain = whole(case, reader(inputs))
        checks.ends(case, chain)
        checks.piece(case, chain)
    checks.done()
    assert checks.steps == 1300


@pytest.mark.parametrize(
    "count", [pytest.param(40, id="quick"), pytest.param(1_000, id="slow", marks=pytest.mark.slow)]
)
def test_first_terms_of_sums_that_nobody_computes(
    count: int, rules: Rules, subtests: pytest.Subtests
) -> None:
    """Dimensions up to 2^40: one step from the first state, and the element of one term."""
    for name in SUMS:
        with subtests.test(name):
            mutations, checks = Mutations(f"exact/{name}/{count}"), Checks(rules)
            for case, t in large_cases(name, mutations, count, EXACT.byte):
                one = piece(case, anywhere(case), t, rule_of(case).begin(case), 1)
                checks.piece(case, one)
                checks.elements(case, one, entries(case, finished(case, one), mutations.random))
            checks.done()


# ------------------------------------------------------------------------------------------------ hostile states


def damaged(rng: np.random.Generator, state: bytes) -> bytes:
    """Turn a bit, or return what is not finite, values at and beyond the limit, small numbers, random bytes."""
    kind, found = rng.integers(0, 5), bytearray(state)
    if kind == 0:
        found[rng.integers(0, len(found))] ^= 1 << int(rng.integers(0, 8))
        return bytes(found)
    if kind == 1:
        return rng.bytes(len(found))
    if kind == 2:
        return rng.bytes(int(rng.integers(1, 40))).rjust(len(found), bytes([int(rng.choice((0, 0xFF)))]))
    limit = 1 << 585
    whole = (INFINITE, -INFINITE, NAN, limit - 1, limit, -limit, -limit - 1, INFINITE + 1, -1)
    return whole[rng.integers(0, len(whole))].to_bytes(len(found), "big", signed=True)


@pytest.mark.parametrize(
    "count", [pytest.param(150, id="quick"), pytest.param(3_000, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", ["sum", "mm", "conv2d", "scatter_add"])
def test_states_that_no_chain_reaches_are_refused_or_end_at_the_twin_s_element(
    name: str, count: int, rules: Rules
) -> None:
    """A party may post any bytes. Bytes that are no state are refused by a named error, in a step and at the end.
    Every other state has one next state and one element, the same in the contract and in the twin."""
    rng = np.random.default_rng([count, *name.encode()])
    calls, wanted = list[Any](), list[Any]()
    for number in range(count):
        inputs, attrs = random_call(name, f"damaged/{number}", "tiny")
        for found in cases_of(name, inputs, attrs, (rng.random(),)):
            case = replace(found, mode=EXACT.byte)
            rule = rule_of(case)
            if not case.inputs[0].dtype.is_float or not (length := rule.length(case)):
                continue
            t = int(rng.integers(0, length))
            chain = piece(case, reader(inputs), t, rule.begin(case), 1)
            state = damaged(rng, chain.states[-1])
            try:
                steps = piece(case, reader(inputs), t, state, 1)
                calls.append(rules.steps_call(Given.of(case), t, steps.states, steps.opened))
                wanted += [1, rule.finish(case, state)]
            except InvalidInput:
                calls.append(rules.steps_call(Given.of(case), t, [state, state], chain.opened))
                wanted += [None, None]
            calls.append(rules.elements_call(Given.of(case), state, [(1, 0)]))
    for i, (want, got) in enumerate(zip(wanted, rules.calls(calls), strict=True)):
        if want is None:
            assert isinstance(got, Refusal), calls[i]
            assert got.name == "NotASum", got
        elif i % 2 == 0:
            assert decode(["uint256", "bytes"], got)[0] == want
        else:
            assert decode(["uint64[]"], got) == ((want,),)
    assert count // 8 < wanted.count(None) // 2 < count * 7 // 8


def test_a_family_without_sums_has_the_rule_of_repops_f32(rules: Rules) -> None:
    for op in OPS:
        own = op.id in range(40, 43) or op.id in range(50, 55) or op.id in (60, 61)
        assert (rules.rule(op.id) == rules.rule(op.id, EXACT.byte)) == (not own), op.name
        assert not own or rules.rule(op.id, EXACT.byte) != rules.rule(op.id, 0x80)
