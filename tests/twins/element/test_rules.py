"""Every rule of repops-f32 gives the states, and the elements, of the Python twin."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from repops.opset import F32, OPS, OPSET_VERSION
from repops.random_calls import SPECIAL_F32, Scale, random_call

from referee_py.element import Case, Read, lanes, rule_of, scalar
from referee_py.program import TensorType
from tests.referee_py.element.operands import cases_of, reader
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.contracts import RULES, TABLES

from .chain import Given, Rules, decode, encode_call, refused
from .checks import PIECE, Checks, add_call
from .large import anywhere, large_cases
from .mutations import Mutations
from .twin import cut, piece, whole

CODE_SIZE_LIMIT = 20_000  # of EIP-170's 24,576
WINDOW = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
CHAINS = (
    *("sum", "amax", "argmax", "mm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"),
    *("max_pool2d", "scatter_add"),
)

quick_and_slow = pytest.mark.parametrize(
    "count", [pytest.param(40, id="quick"), pytest.param(1_000, id="slow", marks=pytest.mark.slow)]
)
every_operator = pytest.mark.parametrize("name", [op.name for op in OPS])


@quick_and_slow
@every_operator
def test_every_step_is_the_twin_s(name: str, count: int, rules: Rules) -> None:
    checks = Checks(rules)
    rng = np.random.default_rng([count, *name.encode()])
    calls = number = 0
    while calls < count:
        scale: Scale = "usual" if number % 20 == 7 else "tiny"
        inputs, attrs = random_call(name, f"rule/{count}/{number}", scale)
        calls += add_call(checks, rng, name, inputs, attrs) > 0
        number += 1
    checks.done()


# ---------------------------------------------------------------------------------------------------- long chains


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("mm", [(2, 1300), (1300, 3)], {}),
        ("bmm", [(2, 1, 1024), (2, 1024, 2)], {}),
        ("conv2d", [(1, 130, 4, 4), (2, 65, 3, 3)], {**WINDOW, "groups": 2}),
        ("conv2d_input_grad", [(1, 130, 2, 2), (130, 1, 3, 3)], {**WINDOW, "groups": 2, "input_hw": (4, 4)}),
        (
            "conv2d_weight_grad",
            [(160, 2, 2, 2), (160, 2, 4, 4)],
            {**WINDOW, "groups": 2, "kernel_hw": (3, 3)},
        ),
        ("amax", [(3, 700)], {"dims": (1,), "keepdim": 0}),
        ("argmax", [(700, 3)], {"dim": 0, "keepdim": 1}),
        ("max_pool2d", [(1, 1, 20, 20)], {**WINDOW, "kernel": (30, 17), "padding": (9, 3)}),
        ("sum", [(1, 3, 90)], {"dims": (1, 2), "keepdim": 1}),
    ],
)
def test_long_chains(name: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], rules: Rules) -> None:
    """Every step of chains of more than one chunk of 512."""
    rng = np.random.default_rng(len(name))
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    checks = Checks(rules)
    for case in cases_of(name, inputs, attrs, (0.0, 0.6)):
        chain = whole(case, reader(inputs))
        checks.ends(case, chain)
        checks.piece(case, chain)
    checks.done()
    assert checks.steps > 500


def test_a_row_that_many_positions_add_to(rules: Rules) -> None:
    rng = np.random.default_rng(3)
    base, source = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 2), (1_200, 2)))
    index = rng.integers(-1, 6, 1_200)
    checks = Checks(rules)
    for case in cases_of("scatter_add", [base, index, source], {}, (0.0, 1.0)):
        chain = whole(case, reader([base, index, source]))
        checks.ends(case, chain)
        checks.piece(case, chain)
    checks.done()


def test_a_sum_of_two_blocks(rules: Rules) -> None:
    """5,000 elements: pieces at the ends of lanes, of both blocks and so of the sum."""
    values = np.random.default_rng(5).standard_normal((5_000, 2)).astype(np.float32)
    (case,) = cases_of("sum", [values], {"dims": (0,), "keepdim": 0}, (1.0,))
    chain = whole(case, reader([values]))
    length = len(chain.opened)
    places = [0, 120, 2_040, 4_080, 4_115, 4_550, length - PIECE]
    checks = Checks(rules)
    checks.ends(case, chain)
    for steps in cut(chain, PIECE, places):
        checks.piece(case, steps)
    checks.done()


@pytest.mark.parametrize("items", [4096**2 + 3, 5 * 4096**2 + 4097, 1 << 30])
def test_steps_of_a_sum_that_nobody_computes(items: int, rules: Rules) -> None:
    """From any state: at ends of lanes, of blocks and of blocks of blocks, around the last block, and at random."""
    rng = np.random.default_rng(items)
    case = Case(
        "sum", (TensorType(F32, (items,)),), (TensorType(F32, ()),), {"dims": (0,), "keepdim": 0}, 0, 0
    )
    rule = rule_of(case)
    length, size = rule.length(case), len(rule.begin(case))

    def read(place: int, element: int) -> int:
        assert place == 0
        assert 0 <= element < items
        return int(SPECIAL_F32[element % len(SPECIAL_F32)]) if element % 3 else 0x3F800000 + element % 1000

    units = (128, 4096, 128 * 4096, 4096**2)
    last = [k * unit - 1 for unit in units for k in (1, 2, 16, 31, 32) if k * unit <= length]
    # The last block, at any place, may have a single item.
    start, few = lanes.before(items)[0] * 4096, (items - 1) % 4096 + 1
    around = [t for at in (start, start + few) for t in range(at - 3, at + 3) if 0 <= t < length]
    places = [0, length - 1, *last, *around, *rng.integers(0, length, 200).tolist()]
    checks = Checks(rules)
    for t in places:
        state = some_floats(rng, size // 4).astype(">u4").tobytes()
        checks.piece(case, piece(case, canonical_read(read), t, state, 1))
    checks.done()


def canonical_read(read: Read) -> Read:
    return lambda place, element: scalar.canonical(read(place, element))


def some_floats(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return ordinary and special values, NaNs of any payload, as bits."""
    special = SPECIAL_F32[rng.integers(0, len(SPECIAL_F32), count)]
    ordinary = rng.standard_normal(count).astype(np.float32).view(np.uint32)
    return np.where(rng.random(count) < 0.3, special, ordinary)


# ------------------------------------------------------------------------------------------------- large tensors


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="quick"), pytest.param(500, id="slow", marks=pytest.mark.slow)]
)
def test_steps_of_tensors_that_nobody_stores(count: int, rules: Rules, subtests: pytest.Subtests) -> None:
    """Dimensions up to 2^40: one step of one element, whose operands depend on their places."""
    for name in (op.name for op in OPS):
        with subtests.test(name):
            check_large(name, count, rules)


def check_large(name: str, count: int, rules: Rules) -> None:
    mutations, checks = Mutations(f"large/{name}/{count}"), Checks(rules)
    for case, t in large_cases(name, mutations, count):
        size = len(rule_of(case).begin(case))
        state = some_floats(mutations.random, size // 4).astype(">u4").tobytes()
        checks.piece(case, piece(case, anywhere(case), t, state, 1))
    checks.done()


# --------------------------------------------------------------------------------------------------- any state


@pytest.mark.parametrize("name", [*CHAINS, "take", "mul"])
def test_a_step_is_defined_for_states_that_no_chain_reaches(name: str, rules: Rules) -> None:
    """A party may post any bytes: the contract treats them like the twin, in every step and at the end."""
    rng = np.random.default_rng([9, *name.encode()])
    checks = Checks(rules)
    ends = list[tuple[Case, bytes, int]]()
    for number in range(60):
        inputs, attrs = random_call(name, f"state/{number}", "tiny")
        for case in cases_of(name, inputs, attrs, (rng.random(),)):
            rule = rule_of(case)
            length, size = rule.length(case), len(rule.begin(case))
            state = rng.bytes(size) if number % 2 else some_floats(rng, size // 4).astype(">u4").tobytes()
            ends.append((case, state, rule.finish(case, state)))
            for t in {0, length - 1, int(rng.integers(0, length))} if length else ():
                checks.piece(case, piece(case, reader(inputs), t, state, 1))
    checks.done()
    calls = [rules.ends_call(Given.of(case), state) for case, state, _ in ends]
    for (case, state, bits), found in zip(ends, rules.calls(calls), strict=True):
        assert decode(["uint64", "bytes", "uint64"], found)[2] == bits, (case, state.hex())


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFFC00000, 0xFFABCDEF])
def test_every_nan_is_read_as_the_one_that_is_committed(bits: int, rules: Rules) -> None:
    scalar_f32 = ((1, ()),)
    given = Given(70, scalar_f32, scalar_f32, bytes([0]))
    assert rules.step(given, 0, bytes(8), [(0, 0, bits)]) == bytes.fromhex("000000007fc00000")
    chosen = Given(29, ((3, ()), (1, ()), (1, ())), scalar_f32)
    assert rules.step(chosen, 0, bytes(8), [(0, 0, 1), (1, 0, bits), (2, 0, 0)])[4:].hex() == "7fc00000"


# ------------------------------------------------------------------------------------------- opset and deployment


def test_the_opset_names_the_family_of_each_operator(rules: Rules) -> None:
    plain, exact, rounded, tc16 = (
        [f"0x{kind}{i:039x}" for i in range(len(TABLES[0]))] for kind in (1, 2, 3, 4)
    )
    opset = rules.deploy(plain, exact, rounded, tc16)
    known = {op.id for op in OPS}
    for op in (*range(300), 2**16 - 1):
        if op in known:
            family = plain.index(rules.rule(op, 1, opset))
            assert rules.rule(op, 2, opset) == exact[family]
            assert rules.rule(op, 3, opset) == tc16[family]
            assert rules.rule(op, 0x80, opset) == rules.rule(op, 0x9E, opset) == rounded[family]
            assert rules.rule(op) == rules.addresses[TABLES[0][family]]
        else:
            refused(partial(lambda op: rules.rule(op, 1, opset), op), "NoRule", op, 1)
    for mode in (0, 4, 0x7F, 0x87, 0xC0, 0xFF):
        refused(partial(lambda mode: rules.rule(1, mode, opset), mode), "NoRule", 1, mode)
    bare = rules.deploy(plain)
    for mode in (2, 3, 0x80):
        refused(partial(lambda mode: rules.rule(1, mode, bare), mode), "NoRule", 1, mode)
    (version,) = rules.calls([(opset, encode_call("version", [], []))])
    assert decode(["uint32"], version) == (OPSET_VERSION,)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_can_be_deployed(name: str) -> None:
    assert 0 < len(load_artifact(name).runtime) <= CODE_SIZE_LIMIT
