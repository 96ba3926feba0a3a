"""Elements of bf16: casts, and contractions that round to it, in the twin and in the contracts, from tables of bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from repops.opset import BF16, F32, I64, Dtype

from referee_py.element import Case, scalar
from referee_py.program import TensorType
from referee_py.program.modes import EXACT, REPOPS_F32, Bounds, Rounding

from .chain import Given, Rules, decode, refused
from .twin import Piece, finished, whole

MODES = {
    "repops-f32": REPOPS_F32.byte,
    "exact": EXACT.byte,
    "26 bits": Rounding(26).mode,
    "32 bits": Rounding(32, Bounds.PROBABLE).mode,
}
each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
SIGN = 0x80000000

NEAREST = {
    0x3F800000: 0x3F80,  # 1
    0x3F807FFF: 0x3F80,  # below a tie
    0x3F808000: 0x3F80,  # a tie, to even
    0x3F808001: 0x3F81,  # above a tie
    0x3F818000: 0x3F82,  # a tie, to even
    0x3FFF8000: 0x4000,  # a tie, into the next binade
    0x00000000: 0x0000,
    0x00008000: 0x0000,  # half of the smallest subnormal
    0x00008001: 0x0001,
    0x00018000: 0x0002,
    0x007F7FFF: 0x007F,  # the largest subnormal
    0x007F8000: 0x0080,  # the smallest normal value
    0x7F7F7FFF: 0x7F7F,  # the largest value
    0x7F7F8000: 0x7F80,  # 2^128 - 2^119: infinity
    0x7F7FFFFF: 0x7F80,
    0x7F800000: 0x7F80,
}
"""Casts of f32 without sign."""

TOWARDS = [
    (0x3F800000, 0xFFFF, 0x3F80),  # nothing is cut off
    (0x3F800001, 0xFFFE, 0x3F80),
    (0x3F800001, 0xFFFF, 0x3F81),
    (0x3F80FFFF, 0x0000, 0x3F80),
    (0x3F80FFFF, 0x0001, 0x3F81),
    (0x3F808000, 0x7FFF, 0x3F80),
    (0x3F808000, 0x8000, 0x3F81),
    (0x3F808000, 0x10000, 0x3F80),  # only 16 bits of r count
    (0x3F808000, (1 << 64) - 1, 0x3F81),
    (0x3F808000, (1 << 64) - 0x10000, 0x3F80),
    (0x00000001, 0xFFFF, 0x0001),  # subnormal
    (0x007FFFFF, 0x0001, 0x0080),
    (0x7F7F0001, 0xFFFE, 0x7F7F),
    (0x7F7F0001, 0xFFFF, 0x7F80),  # it becomes infinite
    (0x7F800000, 0xFFFF, 0x7F80),  # infinity stays
]
"""f32 without sign, r, the stochastic cast."""

NANS = (0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFC00000, 0xFFFF8000)


def case_of(name: str, inputs: tuple[Dtype, ...], output: Dtype, mode: int) -> Case:
    """Return the only element of an operator on tensors of one element, or of one product."""
    shape = (1, 1) if name == "mm" else ()
    types = tuple(TensorType(dtype, shape) for dtype in inputs)
    return Case(
        name, types, (TensorType(output, shape),), {"dtype": output} if name == "cast" else {}, 0, 0, mode
    )


def elements(rules: Rules, case: Case, operands: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the element for each of these operands: the twin's, which is the contract's."""

    def chain(bits: tuple[int, ...]) -> Piece:
        return whole(case, lambda place, _: scalar.canonical(bits[place], case.inputs[place].dtype))

    pieces = list(map(chain, operands))
    calls = [rules.steps_call(Given.of(case), 0, piece.states, piece.opened) for piece in pieces]
    calls += [rules.ends_call(Given.of(case), piece.states[-1]) for piece in pieces]
    answers = rules.calls(calls)
    for bits, found in zip(operands, answers[: len(pieces)], strict=True):
        assert decode(["uint256", "bytes"], found)[0] == 1, (case, bits)
    want = [finished(case, piece) for piece in pieces]
    ends = answers[len(pieces) :]
    assert [decode(["uint64", "bytes", "uint64"], found)[2] for found in ends] == want
    return want


@each_mode
def test_a_cast_rounds_to_nearest_and_ties_to_even(mode: int, rules: Rules) -> None:
    case = case_of("cast", (F32,), BF16, mode)
    given = [*NEAREST, *(bits | SIGN for bits in NEAREST)]
    want = [*NEAREST.values(), *(bits | SIGN >> 16 for bits in NEAREST.values())]
    assert elements(rules, case, [(bits,) for bits in given]) == want
    assert elements(rules, case, [(bits,) for bits in NANS]) == [0x7FC0] * len(NANS)


def test_a_cast_of_any_bits_is_the_library_s(rules: Rules) -> None:
    import ml_dtypes

    bits = np.random.default_rng(1).integers(0, 1 << 32, 2_000, dtype=np.uint32)
    with np.errstate(all="ignore"):
        want = bits.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    nan = bits & 0x7FFFFFFF > 0x7F800000
    found = elements(rules, case_of("cast", (F32,), BF16, 1), [(int(one),) for one in bits])
    assert found == np.where(nan, 0x7FC0, want).tolist()


@each_mode
def test_a_cast_back_is_exact(mode: int, rules: Rules) -> None:
    case = case_of("cast", (BF16,), F32, mode)
    given = [0, 0x8000, 1, 0x807F, 0x3F80, 0x7F7F, 0xFF80]
    assert elements(rules, case, [(bits,) for bits in given]) == [bits << 16 for bits in given]
    assert elements(rules, case, [(0x7F81,), (0xFFFF,)]) == [0x7FC00000] * 2


@each_mode
def test_a_stochastic_cast_at_its_limits(mode: int, rules: Rules) -> None:
    """Away from zero if what is cut off and the last 16 bits of r add up to 2^16 or more."""
    case = case_of("cast_stochastic", (F32, I64), BF16, mode)
    given = [(a | sign, r) for sign in (0, SIGN) for a, r, _ in TOWARDS]
    want = [found | sign >> 16 for sign in (0, SIGN) for _, _, found in TOWARDS]
    assert elements(rules, case, given) == want
    assert elements(rules, case, [(bits, r) for bits in NANS for r in (0, 0xFFFF)]) == [0x7FC0] * 10


PRODUCTS = [
    (0x3F81, 0x3F81, 0x3F82),  # 1 + 2^-6 + 2^-14
    (0x3F88, 0x3F88, 0x3F90),  # (1 + 2^-4)^2 = 1 + 2^-3 + 2^-8: a tie, to even
    (0x3F98, 0x3F88, 0x3FA2),  # 1 + 2^-2 + 2^-7 + 2^-8: a tie, to even
    (0x7F00, 0x4000, 0x7F80),  # 2^128
    (0x7F7F, 0x3F80, 0x7F7F),
    (0x7F7F, 0x3F81, 0x7F80),
    (0x5F35, 0x5FB5, 0x7F80),  # below 2^128, above 2^128 - 2^119
    (0x0001, 0x3F80, 0x0001),  # subnormals
    (0x0001, 0x3F00, 0x0000),
    (0x0003, 0x3F00, 0x0002),
    (0x0080, 0x3F00, 0x0040),
    (0x0001, 0x0001, 0x0000),
    (0x7F80, 0x3F80, 0x7F80),
    (0xFF80, 0x3F80, 0xFF80),
    (0x7F80, 0x0000, 0x7FC0),
    (0x7FC0, 0x3F80, 0x7FC0),
    (0xFFFF, 0x3F80, 0x7FC0),
]
"""Factors of bf16, and their product."""


@each_mode
def test_a_product_is_rounded_to_bf16(mode: int, rules: Rules) -> None:
    case = case_of("mm", (BF16, BF16), BF16, mode)
    assert elements(rules, case, [(a, b) for a, b, _ in PRODUCTS]) == [want for *_, want in PRODUCTS]


def test_only_in_repops_f32_a_sum_is_rounded_twice(rules: Rules) -> None:
    """1 + 2^-8 + 2^-40 is above a tie of bf16; in f32 it is the tie."""
    shapes = TensorType(BF16, (1, 3)), TensorType(BF16, (3, 1))
    case = Case("mm", shapes, (TensorType(BF16, (1, 1)),), {}, 0, 0)
    for mode in MODES.values():
        one = replace(case, mode=mode)
        chain = whole(one, lambda place, at: 0x3F80 if place else (0x3F80, 0x3B80, 0x2B80)[at])
        (found,) = rules.calls([rules.ends_call(Given.of(one), chain.states[-1])])
        want = 0x3F80 if mode == REPOPS_F32.byte else 0x3F81
        assert finished(one, chain) == decode(["uint64", "bytes", "uint64"], found)[2] == want


NO_CASES = [
    ("logical_and", (BF16, BF16), BF16),
    ("logical_not", (BF16,), BF16),
    ("add", (BF16, BF16), BF16),
    ("neg", (BF16,), BF16),
    ("eq", (BF16, BF16), Dtype.BOOL),
    ("exp", (BF16,), BF16),
    ("cast", (BF16,), I64),
    ("cast", (I64,), BF16),
    ("cast", (BF16,), Dtype.BOOL),
    ("cast_stochastic", (BF16, I64), BF16),
    ("cast_stochastic", (F32, F32), BF16),
    ("cast_stochastic", (F32, I64), F32),
    ("mm", (BF16, F32), BF16),
    ("mm", (F32, BF16), F32),
    ("mm", (BF16, BF16), F32),
    ("mm", (F32, F32), BF16),
    ("mm", (I64, I64), I64),
]


@each_mode
def test_operators_that_do_not_take_bf16_refuse_it(mode: int, rules: Rules) -> None:
    for name, inputs, output in NO_CASES:
        given = Given.of(case_of(name, inputs, output, mode))
        refused(partial(rules.begin, given), "NotMine", given.op, mode)
        refused(partial(rules.finish, given, b""), "NotMine", given.op, mode)


def test_there_are_no_random_numbers_of_bf16(rules: Rules) -> None:
    seed = (2, ())
    for dtype in (3, 4, 5):
        given = Given(82, (seed, seed), ((dtype, (1,)),), bytes([1, *bytes(7), 1, dtype, *bytes(8)]))
        refused(partial(rules.begin, given), "NotMine", 82, 1)


@pytest.mark.parametrize("bits", [0x7F81, 0x7FFF, 0xFFC0, 0xFFFF])
def test_every_nan_is_read_as_the_one_that_is_committed(bits: int, rules: Rules) -> None:
    narrow = ((4, ()),)
    given = Given(70, narrow, narrow, bytes([0]))
    assert rules.step(given, 0, bytes(8), [(0, 0, bits)]).hex() == "0000000000007fc0"
    full = Given(80, (), narrow, bytes([0, 4]) + bits.to_bytes(8, "big"))
    assert rules.step(full, 0, bytes(8), []).hex() == "0000000000007fc0"
    wide = Given(80, (), narrow, bytes([0, 4]) + (1 << 16).to_bytes(8, "big"))
    refused(partial(rules.begin, wide), "AttributeUnfit", 10)
