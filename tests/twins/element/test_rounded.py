"""Every rule of rounded-f64 gives the states of the Python twin, and its elements under any entry of a log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from repops.opset import BY_NAME, F32, OPS, Arithmetic
from repops.random_calls import random_call

from referee_py.element import Case, Entry, rule_of, scalar
from referee_py.element.exact_sum import INFINITE, NAN
from referee_py.errors import InvalidInput
from referee_py.program import TensorType
from referee_py.rounding import UP, Bounds, Rounding
from referee_py.rounding.evaluate import ELEMENTARY
from tests.referee_py.element.logged import ROUNDINGS, entries, logged_elements
from tests.referee_py.element.operands import cases_of, reader

from .chain import Given, Refusal, Rules, decode, refused
from .checks import Checks, add_call
from .large import anywhere, large_cases
from .mutations import Mutations
from .twin import finished, piece, whole

SUMS = ("sum", "mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad", "scatter_add")
NO_STATE = {"NotASum", "NotOfTerms", "TooManyTerms"}


@pytest.mark.parametrize(
    "count", [pytest.param(18, id="quick"), pytest.param(300, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_every_step_and_element_is_the_twin_s(name: str, count: int, rules: Rules) -> None:
    """Grids of 26, 29 and 32 bits, both bounds, in turn."""
    checks = Checks(rules)
    rng = np.random.default_rng([count, *name.encode()])
    calls = number = 0
    while calls < count:
        inputs, attrs = random_call(name, f"rounded/{count}/{number}", "tiny")
        calls += add_call(checks, rng, name, inputs, attrs, ROUNDINGS[calls % len(ROUNDINGS)].mode) > 0
        number += 1
    checks.done()


@pytest.mark.parametrize(
    "count", [pytest.param(1, id="quick"), pytest.param(30, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_elements_where_rounding_is_hardest(rounding: Rounding, count: int, rules: Rules) -> None:
    """Sums near midpoints, cancelling sums, sums that no order changes; functions near ties; infinities and NaN."""
    rng = np.random.default_rng([1, rounding.mode, count])
    checks = Checks(rules)
    for call, case in logged_elements(rng, rounding, count):
        chain = whole(case, reader(call.inputs))
        checks.ends(case, chain)
        checks.piece(case, chain)
        checks.elements(case, chain, entries(case, finished(case, chain), rng))
    checks.done()
    assert checks.followed > 10


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_a_long_sum(rounding: Rounding, rules: Rules) -> None:
    rng = np.random.default_rng(rounding.mode)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 1300), (1300, 3))]
    checks = Checks(rules)
    for found in cases_of("mm", inputs, {}, (0.4,)):
        case = replace(found, mode=rounding.mode)
        chain = whole(case, reader(inputs))
        checks.ends(case, chain)
        checks.piece(case, chain)
        checks.elements(case, chain, entries(case, finished(case, chain), rng))
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
            mutations, checks = Mutations(f"rounded/{name}/{count}"), Checks(rules)
            for case, t in large_cases(name, mutations, count, Rounding(29).mode):
                one = piece(case, anywhere(case), t, rule_of(case).begin(case), 1)
                checks.piece(case, one)
                checks.elements(case, one, entries(case, finished(case, one), mutations.random))
            checks.done()


# ------------------------------------------------------------------------------------------------ hostile states


def damaged(rng: np.random.Generator, state: bytes) -> bytes:
    """Turn bits, replace words of the encoding, or return random bytes."""
    kind, found = rng.integers(0, 5), bytearray(state)
    if kind == 0:
        found[rng.integers(0, len(found))] ^= 1 << int(rng.integers(0, 8))
    elif kind == 1:
        word = int(rng.choice(4))
        value = (INFINITE, -INFINITE, NAN, -1)[word].to_bytes(96, "big", signed=True)
        place = 96 * int(rng.integers(0, 2))
        found[place : place + 96] = value
    elif kind == 2:
        return rng.bytes(len(found))
    elif kind == 3:
        # Small numbers of either sign, so that sums and magnitudes are decoded.
        for place in (0, 96):
            small = int.from_bytes(rng.bytes(40), "big", signed=True)
            found[place : place + 96] = small.to_bytes(96, "big", signed=True)
    else:
        found[192:] = rng.bytes(len(found) - 192)
        found[192:196] = bytes(4)
    return bytes(found)


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
    taken = no_state = number = 0
    calls: list[Any] = []
    wanted: list[Any] = []
    while number < count:
        inputs, attrs = random_call(name, f"damaged/{number}", "tiny")
        number += 1
        rounding = ROUNDINGS[number % len(ROUNDINGS)]
        for found in cases_of(name, inputs, attrs, (rng.random(),)):
            case = replace(found, mode=rounding.mode)
            if not case.inputs[0].dtype.is_float:
                continue
            rule = rule_of(case)
            if not (length := rule.length(case)):
                continue
            t = int(rng.integers(0, length))
            chain = piece(case, reader(inputs), t, rule.begin(case), 1)
            state = damaged(rng, chain.states[-1])
            one = scalar.narrowed(0x3F800000, case.dtype)
            entry = entries(case, one, rng)[int(rng.integers(0, 10))]
            try:
                steps = piece(case, reader(inputs), t, state, 1)
                calls.append(rules.steps_call(Given.of(case), t, steps.states, steps.opened))
                wanted.append(1)
                taken += 1
            except InvalidInput:
                calls.append(rules.steps_call(Given.of(case), t, [state, state], chain.opened))
                wanted.append(None)
            try:
                wanted.append(rule.finish(case, state, entry))
            except InvalidInput:
                wanted.append(None)
                no_state += 1
            calls.append(rules.elements_call(Given.of(case), state, [(entry.kind, entry.written)]))
    for i, (want, got) in enumerate(zip(wanted, rules.calls(calls), strict=True)):
        if want is None:
            assert isinstance(got, Refusal), calls[i]
            assert got.name in NO_STATE, got
        elif i % 2 == 0:
            assert decode(["uint256", "bytes"], got)[0] == want
        else:
            assert decode(["uint64[]"], got) == ((want,),)
    assert taken > count // 6
    assert no_state > count // 6


@pytest.mark.parametrize("name", ELEMENTARY)
def test_a_function_is_decided_of_any_operands(name: str, rules: Rules) -> None:
    """A state of 8 bytes is two arbitrary binary32 values."""
    rng = np.random.default_rng([*name.encode()])
    inputs = [np.ones(1, dtype=np.float32)] * (2 if name == "pow" else 1)
    (found,) = cases_of(name, inputs, {}, (0.0,))
    calls, wanted = [], []
    for number in range(300):
        rounding = ROUNDINGS[number % 4]  # below 32 bits
        case, state = replace(found, mode=rounding.mode), rng.bytes(8)
        nearest = rule_of(case).finish(case, state)
        some = entries(case, nearest, rng)
        wanted.append([rule_of(case).finish(case, state, entry) for entry in some])
        calls.append(rules.elements_call(Given.of(case), state, [(e.kind, e.written) for e in some]))
    for want, got in zip(wanted, rules.calls(calls), strict=True):
        assert list(decode(["uint64[]"], got)[0]) == want


def test_kinds_of_entries_that_there_are_not_are_refused(rules: Rules) -> None:
    looked = 0
    for op in OPS:
        inputs, attrs = random_call(op.name, "kinds/0", "tiny")
        for found in cases_of(op.name, inputs, attrs, (0.5,)):
            case = replace(found, mode=Rounding(29).mode)
            first = case.inputs[0].dtype if case.inputs else None
            state = rule_of(case).begin(case)
            if op.arithmetic_of(first, case.attrs) in (Arithmetic.SUM, Arithmetic.ELEMENTARY):
                refused(
                    partial(lambda c, s: rules.finish(Given.of(c), s, (4, 0)), case, state), "UnknownEntry", 4
                )
                looked += 1
            else:
                want = rule_of(case).finish(case, state, Entry(4))
                assert rules.finish(Given.of(case), state, (4, 0)) == want
    assert looked >= 12


@pytest.mark.parametrize("bounds", Bounds)
def test_no_more_terms_than_radii_are_stated_for(bounds: Bounds, rules: Rules) -> None:
    types = (TensorType(F32, (3,)),), (TensorType(F32, ()),)
    case = Case("sum", *types, {"dims": (0,), "keepdim": 0}, 0, 0, Rounding(32, bounds).mode)
    state = rule_of(case).begin(case)

    def of(terms: int) -> bytes:
        return state[:192] + terms.to_bytes(8, "big") + bytes(4)

    assert rules.finish(Given.of(case), of(1 << 31), (UP, 0)) == 0
    for terms in ((1 << 31) + 1, (1 << 64) - 1):
        refused(partial(lambda n: rules.finish(Given.of(case), of(n)), terms), "TooManyTerms", terms)
    assert rules.step(Given.of(case), 0, of((1 << 64) - 1), [(0, 0, 0)]) == of(0)


def test_the_opset_names_rules_of_its_own_where_something_differs(rules: Rules) -> None:
    """A rule serves repops-f32 and rounded-f64 if nothing differs, or only the last decision."""
    for op in OPS:
        own = op.name in SUMS or BY_NAME[op.name].id in (1, 8, 11, 30)
        shared = rules.rule(op.id) == rules.rule(op.id, 0x86)
        assert not (own and shared)
        assert rules.rule(op.id, 0x80) == rules.rule(op.id, 0x9E)
