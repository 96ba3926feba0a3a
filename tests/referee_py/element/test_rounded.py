"""Elements of rounded-f64 as chains have the defined value under any log."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from repops.opset import BF16, F32, OPS
from repops.random_calls import random_call

from referee_py.element import Case, Entry, evaluate, exact_sum, rule_of, scalar
from referee_py.element.positions import digits
from referee_py.element.rounded import Sums, rounded_rule
from referee_py.errors import InvalidInput, UnknownVersion
from referee_py.program import TensorType
from referee_py.rounding import Bounds, Rounding, decide_exactly
from referee_py.rounding.additions import ADDITIONS
from referee_py.rounding.backend import Rounded
from referee_py.rounding.entries import Entries
from referee_py.rounding.evaluate import ELEMENTARY
from referee_py.rounding.grid import UNIT
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.narrow import as_f32
from tests.referee_py.rounding import exact

from .logged import ROUNDINGS, entries, logged_elements
from .operands import bits_of, cases_of, reader

ELEMENTS = 30


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
@pytest.mark.parametrize(
    "count", [pytest.param(2, id="quick"), pytest.param(40, id="slow", marks=pytest.mark.slow)]
)
def test_what_has_a_log_is_what_the_definition_says(rounding: Rounding, count: int) -> None:
    """Under every kind of entry: compared with fractions, and with an auditor's decision."""
    rng = np.random.default_rng([rounding.mode, count])
    followed = looked = 0
    for call, case in logged_elements(rng, rounding, count):
        rule = rule_of(case)
        index = tuple(digits(case.element, case.shape))
        inputs = [as_f32(array) for array in call.inputs]
        grid = rounding.of_bf16 if case.dtype == BF16 else rounding
        ball = exact.ball_of_element(case.name, inputs, case.attrs, index, grid)
        state = rule.begin(case)
        for t in range(rule.length(case)):
            state = rule.step(case, t, state, reader(call.inputs))
        if case.name not in ELEMENTARY:
            check_state(case, inputs, index, state)
        nearest = rule.finish(case, state)
        for entry in entries(case, nearest, rng):
            got = rule.finish(case, state, entry)
            said = entry.kind, scalar.to_float(entry.written)
            want = ball if isinstance(ball, float) else exact.follow_entry(*ball, *said, grid.bits)
            assert got == scalar.narrowed(scalar.to_bits(want), case.dtype), (str(call), case.element, entry)
            entry_of = Entries(np.array([said[0]], dtype=np.uint8), np.array([said[1]]))
            decided = decide_exactly(case.name, inputs, call.attrs, np.array([case.element]), entry_of, grid)
            bits = scalar.to_bits(float(decided[0]))
            assert got == scalar.narrowed(bits, case.dtype), (str(call), case.element, entry)
            followed += got != nearest
            looked += 1
    assert looked > 1_000
    assert followed > looked // 100


def check_state(case: Case, inputs: Sequence[np.ndarray], index: tuple[int, ...], state: bytes) -> None:
    """Check that sum and magnitude are exact, absent taps are not terms, and the smallest term is that of values."""
    terms = exact.terms_of(case.name, inputs, case.attrs, index)
    sums = Sums.decode(state, case.name in ADDITIONS)
    assert sums.terms == len(terms)
    if not exact_sum.is_finite(sums.total):
        return
    assert Fraction(sums.total, 2**UNIT) == exact.exact_value(terms)
    assert Fraction(sums.magnitude, 2**UNIT) == sum(abs(Fraction(a) * Fraction(b)) for a, b in terms)
    smallest = min((abs(a) for a, _ in terms if a), default=0.0) if case.name in ADDITIONS else 0.0
    assert scalar.to_float(sums.smallest) == smallest


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_every_operator_gives_what_a_program_executes(rounding: Rounding, subtests: pytest.Subtests) -> None:
    """All operators, those without a log too, with the entries of an honest trainer."""
    for op in OPS:
        with subtests.test(op.name):
            check_operator(op.name, rounding)


def check_operator(name: str, rounding: Rounding) -> None:
    from trainer_node.rounded.evaluators import NumpyEvaluator

    rng = np.random.default_rng([rounding.mode, *name.encode()])
    looked = number = 0
    while looked < ELEMENTS:
        inputs, attrs = random_call(name, f"rounded/{rounding.mode}/{number}", "tiny")
        backend = Rounded(rounding, MemoryLogs(), NumpyEvaluator())
        backend.begin(0)
        outputs = backend.execute(0, name, inputs, attrs)
        backend.end()
        written = backend.log_source.get(0)
        assert written is not None
        for case in cases_of(name, inputs, attrs, (0.0, 1.0, rng.random())):
            elements = outputs[case.output].size
            said = written.entries(0, elements).at(np.array([case.element]))
            entry = Entry(int(said.kinds[0]), bits_of(said.values.astype(np.float32), 0))
            got = evaluate(replace(case, mode=rounding.mode), reader(inputs), entry)
            assert got == bits_of(outputs[case.output], case.element), (number, case)
            looked += 1
        number += 1


@pytest.mark.parametrize("operands", [(0x80000000, 0x3F800000), (0x80000001, 0x00000001), (0, 0x80000000)])
def test_the_sign_of_a_zero_is_kept_by_an_operation_and_lost_by_a_sum(operands: tuple[int, int]) -> None:
    """-0 * 1, -2^-149 * 2^-149 and 0 * -0 are -0; as a sum of one product they are +0."""

    def bits(name: str, shapes: list[tuple[int, ...]]) -> int:
        kinds = tuple(TensorType(F32, shape) for shape in shapes)
        case = Case(name, kinds[:2], kinds[2:], {}, 0, 0, Rounding(29).mode)
        return evaluate(case, lambda place, _: operands[place])

    assert bits("mul", [(), (), ()]) == 0x80000000
    assert bits("mm", [(1, 1), (1, 1), (1, 1)]) == 0


def a_sum(rounding: Rounding) -> Case:
    types = (TensorType(F32, (3,)),), (TensorType(F32, ()),)
    return Case("sum", *types, {"dims": (0,), "keepdim": 0}, 0, 0, rounding.mode)


def test_states_that_no_terms_give_are_refused() -> None:
    case = a_sum(Rounding(32))
    rule = rule_of(case)
    words = [1 << 585, (1 << 766) + 1, -(1 << 585) - 1, (1 << 767) - 1]
    for word in words:
        for place in (0, 96):
            state = bytearray(rule.begin(case))
            state[place : place + 96] = word.to_bytes(96, "big", signed=True)
            refuses(case, bytes(state))
    infinite, negative = ((1 << 766) * sign for sign in (1, -1))
    for total, magnitude in ((infinite, 0), (0, infinite), (infinite, negative), (0, -1)):
        sums = b"".join(word.to_bytes(96, "big", signed=True) for word in (total, magnitude))
        refuses(case, sums + bytes(12))
    refuses(case, bytes(200) + struct.pack(">I", 0x7F800000))


def refuses(case: Case, state: bytes) -> None:
    rule = rule_of(case)
    with pytest.raises(InvalidInput):
        rule.step(case, 0, state, lambda *_: 0x3F800000)
    with pytest.raises(InvalidInput):
        rule.finish(case, state)


@pytest.mark.parametrize("bounds", Bounds)
def test_more_terms_than_radii_are_stated_for_are_refused(bounds: Bounds) -> None:
    case = a_sum(Rounding(32, bounds))
    state = bytearray(rule_of(case).begin(case))
    state[192:200] = struct.pack(">Q", 1 << 31)
    assert rule_of(case).finish(case, bytes(state)) == 0
    state[192:200] = struct.pack(">Q", (1 << 31) + 1)
    with pytest.raises(InvalidInput, match="2147483649 terms"):
        rule_of(case).finish(case, bytes(state))


def test_kinds_and_modes_that_there_are_not_are_refused() -> None:
    case = a_sum(Rounding(26))
    with pytest.raises(InvalidInput, match="kind 4"):
        rule_of(case).finish(case, rule_of(case).begin(case), Entry(4))
    with pytest.raises(UnknownVersion):
        rounded_rule(replace(case, mode=0x87))
