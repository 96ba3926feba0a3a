"""The chains of tc16 give what whole blocks give, in every contraction, and the recorded results of a device."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from repops.opset import F32
from repops.tensors import canonical

from referee_py.element import Case, evaluate, rule_of, tensor
from referee_py.element.native import native_chain
from referee_py.program import TensorType
from referee_py.program.modes import TC16, USUAL
from tests.referee_py.trial.narrow import narrow_call

from .operands import bits_of, cases_of, reader
from .tensor_block import block
from .tensor_data import KINDS, SPECIAL, SPECIAL_ROWS, products, recorded, special_rows
from .tensor_reference import execute

CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
LENGTHS = (0, 1, 15, 16, 17, 511, 512, 513, 1100)


def by_steps(a: list[int], b: list[int], c: int) -> int:
    """Return a block's result, pair by pair."""
    e, flags = tensor.opened(c)
    for x, y in zip(a, b, strict=True):
        e, flags = tensor.widen(e, flags, x, y)
    total = tensor.begun(e, 0, c)
    for x, y in zip(a, b, strict=True):
        total = tensor.accumulate(e, total, x, y)
    return tensor.rounded(e, flags, total)


def test_blocks_are_the_device_s() -> None:
    for a, b, c, result in recorded():
        assert by_steps(a, b, c) == result, (a, b, c)


def test_the_special_rows_that_contracts_are_tested_with_are_the_rule_s() -> None:
    assert SPECIAL_ROWS.read_text() == special_rows()


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_any_length_are_the_rule_s(kind: str) -> None:
    rng = np.random.default_rng([*kind.encode()])
    for _ in range(1_000):
        count = int(rng.integers(0, 17))
        a, b = (KINDS[kind](rng, count).tolist() for _ in "ab")
        wide = int(rng.integers(0, 1 << 32))
        c = (wide, int(KINDS[kind](rng, 1)[0]) << 16, wide & 0x807FFFFF, block(a, b, 0))[rng.integers(0, 4)]
        assert by_steps(a, b, c) == block(a, b, c), (a, b, c)


@pytest.mark.parametrize("k", LENGTHS)
def test_chains_of_any_length_give_the_sum_of_their_chunks(k: int) -> None:
    for kind in KINDS:
        case, inputs = products(kind, k)
        assert rule_of(case).length(case) == 2 * k
        assert evaluate(case, reader(inputs)) == bits_of(execute("mm", inputs, {}), case.element)


def test_a_contraction_of_nothing_is_plus_zero() -> None:
    case, inputs = products("ordinary", 0)
    assert evaluate(case, reader(inputs)) == 0
    assert evaluate(replace(case, mode=USUAL.byte), reader(inputs)) == 0x8000


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_every_contraction_has_the_places_of_its_definition(name: str) -> None:
    """Strides, padding, dilation, groups; special values now and then."""
    rng = np.random.default_rng([*name.encode()])
    for number in range(12):
        inputs, attrs = narrow_call(name, f"tc16/{number}")
        inputs = [np.asarray(array, order="C").copy() for array in inputs]
        if number % 3 == 0:
            for array in inputs:
                flat = array.reshape(-1).view(np.uint16)
                flat[rng.random(flat.size) < 0.1] = rng.choice(SPECIAL)
        result = canonical(execute(name, inputs, attrs))
        for found in cases_of(name, inputs, attrs, (0.0, 1.0, *rng.random(4))):
            case = replace(found, mode=TC16.byte)
            assert evaluate(case, reader(inputs)) == bits_of(result, case.element), case


def test_taps_begin_blocks_and_padding_counts_in_chunks() -> None:
    """17 channels and 40 taps: two blocks a tap, the second with one term; a chunk ends inside tap 16."""
    types = (
        TensorType.of(np.zeros((1, 17, 40, 1), ml_dtypes.bfloat16)),
        TensorType.of(np.zeros((1, 17, 40, 1), ml_dtypes.bfloat16)),
    )
    attrs = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    case = Case("conv2d", types, (TensorType.of(np.zeros((1, 1, 1, 1), ml_dtypes.bfloat16)),), attrs, 0, 0, 3)
    turns = [tensor.turn_of(case, t) for t in range(rule_of(case).length(case))]
    assert len(turns) == 2 * 17 * 40
    widened, added = ([turn.term for turn in turns if turn.accumulates is which] for which in (False, True))
    assert widened == added == [c * 40 + tap for tap in range(40) for c in range(17)]
    assert [t for t, turn in enumerate(turns) if turn.opens] == [
        34 * tap + at for tap in range(40) for at in (0, 32)
    ]
    assert [t for t, turn in enumerate(turns) if turn.opens_chunk] == [0, 34 * 16, 34 * 32]
    assert [t for t, turn in enumerate(turns) if turn.ends] == [
        34 * tap + at for tap in range(40) for at in (31, 33)
    ]


def test_only_contractions_of_bf16_differ_from_repops_f32() -> None:
    for name in CONTRACTIONS:
        for found in cases_of(name, *narrow_call(name, "other"), (0.5,)):
            wide = tuple(TensorType(F32, one.shape) for one in found.inputs)
            outputs = tuple(TensorType(F32, one.shape) for one in found.outputs)
            narrow, f32 = replace(found, mode=TC16.byte), replace(found, inputs=wide, outputs=outputs)
            assert isinstance(rule_of(narrow), tensor.TensorContraction)
            assert rule_of(replace(f32, mode=TC16.byte)) is rule_of(replace(f32, mode=USUAL.byte))


def test_a_walk_takes_the_steps_of_the_rule() -> None:
    case, inputs = products("special", 40)
    walk, rule = native_chain(case, inputs), rule_of(case)
    state = walk.advance(walk.advance(rule.begin(case), 0, 33), 33, walk.length)
    assert rule.finish(case, state) == evaluate(case, reader(inputs))
    f32 = [np.ones((1, 2), np.float32), np.full((2, 1), 3, np.float32)]
    (other,) = cases_of("mm", f32, {}, (0,))
    plain = native_chain(replace(other, mode=TC16.byte), f32)
    begin = rule_of(other).begin(other)
    assert plain.advance(begin, 0, 2) == native_chain(other, f32).advance(begin, 0, 2)
