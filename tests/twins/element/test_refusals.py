"""Callers are hostile: operands, states, shapes and attributes that do not fit are refused by a named error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
from repops.opset import BY_NAME, OPS
from repops.random_calls import random_call

from referee_py.element import rule_of
from tests.referee_py.element.operands import cases_of, reader

from .chain import CASE, REPOPS_F32, Given, Opened, Refusal, Rules, decode, encode_call, refused
from .mutations import MANY, Mutations, sound
from .twin import whole

NAMES = [op.name for op in OPS]
EXACT = 2
TC16 = 3
ROUNDED = 0x80  # 26 bits
each_arithmetic = pytest.mark.parametrize(
    "mode",
    [
        pytest.param(REPOPS_F32, id="repops"),
        pytest.param(EXACT, id="exact", marks=pytest.mark.slow),
        pytest.param(ROUNDED, id="rounded"),
        pytest.param(TC16, id="tc16", marks=pytest.mark.slow),
    ],
)
NAMED = {
    *(
        "NotMine",
        "WrongCounts",
        "NoSuchElement",
        "RankTooHigh",
        "TooManyElements",
        "ShapesUnfit",
        "ChainTooLong",
    ),
    *("AttributesEnd", "AttributesFollow", "AttributeUnfit"),
}
"""Errors that may refuse a case. A panic, or a revert without a reason, is none of them."""


@cache
def one_step(name: str, mode: int = REPOPS_F32) -> OneStep:
    return OneStep(name, mode)


class OneStep:
    """A step of a random call, with as many operands as steps of the operator have."""

    def __init__(self, name: str, mode: int) -> None:
        best: tuple[int, Any] = (-1, None)
        for number in range(30):
            inputs, attrs = random_call(name, f"refusal/{number}", "tiny")
            for found in cases_of(name, inputs, attrs, (0.7,)):
                case = replace(found, mode=mode)
                chain = whole(case, reader(inputs))
                for t, opened in enumerate(chain.opened):
                    best = max(best, (len(opened), (case, t, chain)), key=lambda pair: pair[0])
        self.case, self.t, chain = best[1]
        self.given = Given.of(self.case)
        self.state, self.next = chain.states[self.t : self.t + 2]
        self.opened: list[Opened] = chain.opened[self.t]
        self.length = len(chain.opened)

    def run(self, rules: Rules, opened: list[Opened] | None = None, **changed: Any) -> bytes:
        given, t = changed.get("given", self.given), changed.get("t", self.t)
        return rules.step(
            given, t, changed.get("state", self.state), self.opened if opened is None else opened
        )


@each_arithmetic
def test_operands_are_those_that_the_step_reads_in_its_order(
    mode: int, rules: Rules, subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        with subtests.test(name):
            check_operands(one_step(name, mode), rules)


def check_operands(one: OneStep, rules: Rules) -> None:
    operands = one.opened
    assert one.run(rules) == one.next
    refused(lambda: one.run(rules, [*operands, (0, 0, 0)]), "NotTaken", len(operands) + 1, len(operands))
    for i, (place, element, bits) in enumerate(operands):
        wanted = "NotOpened", place, element
        refused(partial(lambda i: one.run(rules, operands[:i]), i), *wanted)
        others = [
            (place, element + 1, bits),
            (place, element + MANY, bits),
            (place + 1, element, bits),
        ]
        for other in others:
            refused(
                partial(lambda i, o: one.run(rules, [*operands[:i], o, *operands[i + 1 :]]), i, other),
                *wanted,
            )
        width = {1: 32, 2: 64, 3: 1, 4: 16}[one.given.inputs[place][0]]
        if width < 64:
            wide = [*operands[:i], (place, element, bits | 1 << width), *operands[i + 1 :]]
            refused(partial(lambda w: one.run(rules, w), wide), "NotOfDtype", *wide[i])
    if len(operands) > 1:
        assert operands[0][:2] != operands[1][:2]
        refused(lambda: one.run(rules, operands[::-1]), "NotOpened", *operands[0][:2])


@each_arithmetic
def test_steps_and_states_are_those_of_the_chain(mode: int, rules: Rules, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name):
            check_steps_and_states(one_step(name, mode), rules)


def check_steps_and_states(one: OneStep, rules: Rules) -> None:
    for t in (one.length, one.length + 1, (1 << 64) - 1):
        refused(partial(lambda t: one.run(rules, t=t), t), "NoSuchStep", t, one.length)
    size = len(one.state)
    for state in (b"", one.state[:-1], one.state + b"\0", one.state * 2):
        refused(partial(lambda s: one.run(rules, state=s), state), "BadState", len(state), size)
        refused(partial(lambda s: rules.finish(one.given, s), state), "BadState", len(state), size)


@each_arithmetic
def test_other_operators_modes_and_elements_are_refused(
    mode: int, rules: Rules, subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        with subtests.test(name):
            check_places(one_step(name, mode), rules)


def check_places(one: OneStep, rules: Rules) -> None:
    op, mode = one.given.op, one.given.mode
    home = rules.rule(op, mode)
    families = [address for label, address in rules.addresses.items() if label != "RuleBatch"]
    for address in families:
        rules.of_operator[op, mode] = address
        if address != home:
            refused(lambda: rules.begin(one.given), "NotMine", op, mode)
    rules.of_operator[op, mode] = home
    others = [other for other in (REPOPS_F32, EXACT, TC16, ROUNDED) if rules.rule(op, other) != home]
    for wrong in (0, 4, 0x87, 0xFF, *others):
        other = replace(one.given, mode=wrong)
        rules.of_operator[op, wrong] = home
        for call in calls_of(rules, other, one):
            refused(call, "NotMine", op, wrong)
    count = math.prod(one.case.shape)
    outputs = len(one.case.outputs)
    for output, element in (
        (one.given.output, count),
        (one.given.output, (1 << 64) - 1),
        (outputs, 0),
        (255, 0),
    ):
        other = replace(one.given, output=output, element=element)
        for call in calls_of(rules, other, one):
            refused(call, "NoSuchElement", output, element)
    rules.of_operator.clear()


def calls_of(rules: Rules, given: Given, one: OneStep) -> list[Callable[[], object]]:
    """Return a call of every function of a rule."""
    return [
        lambda: rules.begin(given),
        lambda: one.run(rules, given=given),
        lambda: rules.finish(given, one.state),
    ]


# ----------------------------------------------------------------------------------------------- unsound cases


@pytest.mark.parametrize(
    ("count", "mode"),
    [
        pytest.param(150, 1, id="quick"),
        pytest.param(60, EXACT, id="exact"),
        pytest.param(60, 0x9E, id="rounded"),
        pytest.param(60, TC16, id="tc16"),
        pytest.param(1_500, 1, id="slow", marks=pytest.mark.slow),
        pytest.param(1_500, EXACT, id="slow-exact", marks=pytest.mark.slow),
        pytest.param(1_500, 0x80, id="slow-rounded", marks=pytest.mark.slow),
        pytest.param(1_500, TC16, id="slow-tc16", marks=pytest.mark.slow),
    ],
)
def test_a_case_is_taken_if_and_only_if_the_operator_table_takes_it(
    count: int, mode: int, rules: Rules, subtests: pytest.Subtests
) -> None:
    """Sound cases with an error: wrong ranks, any sizes, huge and zero, attributes cut off."""
    for name in NAMES:
        with subtests.test(name):
            check_mutations(name, count, mode, rules)


def check_mutations(name: str, count: int, mode: int, rules: Rules) -> None:
    mutations = Mutations(f"{name}/{count}")
    cases = list[Given]()
    number = 0
    while len(cases) < count:
        inputs, attrs = random_call(name, f"hostile/{number}", "tiny")
        number += 1
        right = [Given.of(case) for case in cases_of(name, inputs, attrs, (mutations.random.random(),))]
        cases += [mutations.of(replace(given, mode=mode)) for given in right for _ in range(5)]
    home = rules.rule(BY_NAME[name].id, mode)
    answers = rules.calls([(home, encode_call("begin", [CASE], [given.words])) for given in cases])
    refusals = 0
    for given, answer in zip(cases, answers, strict=True):
        case = sound(given)
        if isinstance(answer, Refusal):
            refusals += 1
            assert answer.name in NAMED, (answer, given)
            # A mutation may turn it into a case of another family.
            assert case is None or rules.rule(given.op, given.mode) != home, (answer, given)
        else:
            assert case is not None, given
            assert decode(["uint64", "bytes"], answer)[0] == rule_of(case).length(case), given
    assert refusals > count // 4


def test_steps_of_hostile_cases_are_refused_as_their_lengths_are(rules: Rules) -> None:
    mutations = Mutations("steps")
    looked = 0
    for name in NAMES:
        one = one_step(name)
        home = rules.rule(one.given.op)
        cases = [mutations.of(one.given) for _ in range(12)]
        lengths = rules.calls([(home, encode_call("begin", [CASE], [given.words])) for given in cases])
        for given, found in zip(cases, lengths, strict=True):
            if not isinstance(found, Refusal):
                continue
            looked += 1
            rules.of_operator[given.op, given.mode] = home
            for call in calls_of(rules, given, one):
                refused(call, found.name, *found.values)
        rules.of_operator.clear()
    assert looked > 200
