"""The rule of contractions in tc16 gives the states and the elements of the Python twin; other operators those of
repops-f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from repops.opset import BF16, OPS
from repops.random_calls import random_call
from repops.tensors import Array

from referee_py.element import Case, Read, rule_of, scalar
from referee_py.element.tensor import STATE_BYTES, State, TensorContraction, rounded
from referee_py.program import TensorType
from referee_py.program.modes import TC16
from tests.referee_py.element.operands import reader
from tests.referee_py.element.tensor_data import KINDS, SPECIAL, recorded
from tests.referee_py.element.test_tensor import CONTRACTIONS, LENGTHS, products
from tests.referee_py.trial.narrow import narrow_call

from .chain import Given, Rules, decode, refused
from .checks import Checks, add_call
from .large import anywhere, large_cases
from .mutations import Mutations
from .twin import finished, piece, whole

Rng = np.random.Generator


def add_whole(checks: Checks, case: Case, inputs: list[Array]) -> None:
    chain = whole(case, reader(inputs))
    checks.ends(case, chain)
    if chain.opened:
        checks.piece(case, chain)


def factors_from(pairs: Sequence[tuple[int, int]], first: int) -> Read:
    """Return a reader of the factors of terms ``first``, ``first + 1`` ..., with NaN in its committed form."""
    return lambda place, k: scalar.canonical(pairs[k - first][place], BF16)


def special(inputs: tuple[Array, ...] | list[Array], rng: Rng) -> list[Array]:
    """Return the tensors with special values among the others."""
    made = [np.asarray(array, order="C").copy() for array in inputs]
    for array in made:
        flat = array.reshape(-1).view(np.uint16)
        flat[rng.random(flat.size) < 0.2] = rng.choice(SPECIAL)
    return made


@pytest.mark.parametrize("k", LENGTHS)
def test_every_step_of_chains_of_all_kinds_of_data(k: int, rules: Rules) -> None:
    checks = Checks(rules)
    for kind in KINDS:
        add_whole(checks, *products(kind, k))
    checks.done()
    assert checks.steps == 2 * k * len(KINDS)


def test_every_step_of_the_recorded_blocks_of_a_device(rules: Rules) -> None:
    """As the second block of a chunk, whose accumulator is any c."""
    types = TensorType(BF16, (1, 32)), TensorType(BF16, (32, 1))
    case = Case("mm", types, (TensorType(BF16, (1, 1)),), {}, 0, 0, TC16.byte)
    checks = Checks(rules)
    for a, b, c, result in recorded():
        chain = piece(case, factors_from([*zip(a, b, strict=True)], 16), 32, State(c=c).encode(), 32)
        assert State.decode(chain.states[-1]) == State(c=result), (a, b, c)
        checks.piece(case, chain)
    checks.done()
    assert checks.steps == 32 * 2_496


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="quick"), pytest.param(300, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_every_step_and_element_is_the_twin_s(name: str, count: int, rules: Rules) -> None:
    """Strides, padding, dilation, groups, batches."""
    checks, rng = Checks(rules), np.random.default_rng([count, *name.encode()])
    for number in range(count):
        inputs, attrs = narrow_call(name, f"tensor/{number}")
        add_call(checks, rng, name, special(inputs, rng) if number % 2 else list(inputs), attrs, TC16.byte)
    checks.done()
    assert checks.followed == 0


@pytest.mark.parametrize(
    "count", [pytest.param(4, id="quick"), pytest.param(60, id="slow", marks=pytest.mark.slow)]
)
def test_other_operators_are_those_of_repops_f32(count: int, rules: Rules, subtests: pytest.Subtests) -> None:
    for op in OPS:
        with subtests.test(op.name):
            checks, rng = Checks(rules), np.random.default_rng([count, *op.name.encode()])
            calls = number = 0
            while calls < count:
                inputs, attrs = random_call(op.name, f"tensor/{number}", "tiny")
                calls += add_call(checks, rng, op.name, inputs, attrs, TC16.byte) > 0
                number += 1
            checks.done()
            own = op.name in CONTRACTIONS
            assert (rules.rule(op.id) == rules.rule(op.id, TC16.byte)) == (not own)


@pytest.mark.parametrize(
    "count", [pytest.param(40, id="quick"), pytest.param(1_000, id="slow", marks=pytest.mark.slow)]
)
def test_any_step_of_contractions_that_nobody_computes(count: int, rules: Rules) -> None:
    """Dimensions up to 2^40."""
    for name in CONTRACTIONS:
        mutations, checks = Mutations(f"tensor/{name}/{count}"), Checks(rules)
        for found, _ in large_cases(name, mutations, count, TC16.byte):
            types = tuple(TensorType(BF16, one.shape) for one in found.inputs)
            case = replace(found, inputs=types, outputs=(TensorType(BF16, found.shape),))
            length = rule_of(case).length(case)
            t = int(mutations.random.integers(0, length))
            checks.piece(case, piece(case, anywhere(case), t, mutations.random.bytes(STATE_BYTES), 1))
        checks.done()
        assert checks.steps == count


# ------------------------------------------------------------------------------------------------ hostile states


def _any(rng: Rng) -> State:
    return State.decode(rng.bytes(STATE_BYTES))


def _sane(rng: Rng) -> State:
    """Return a state whose words are each in the range of a chain, whatever stands beside them."""
    size = int(rng.integers(0, 1 << 33)) >> int(rng.integers(0, 34))
    total, c = rng.integers(0, 1 << 32, 2).tolist()
    return State(
        total,
        c,
        int(rng.integers(121, 509)),
        int(rng.integers(0, 8)),
        (-size if rng.random() < 0.5 else size) & (1 << 40) - 1,
    )


def _edge(rng: Rng) -> State:
    """Return a state with each word at an end of its range."""
    total, c = (int(bits) << 16 | int(rng.choice((0, 1, 0xFFFF))) for bits in rng.choice(SPECIAL, 2))
    e = int(rng.choice((*range(120, 132), *range(150, 156), 381, 382, 407, 408, 409, 508, 0, 1, 0xFFFF)))
    flags = int(rng.choice((0, 0, 0, 1, 2, 4, 6, 8, 0xF8, 0xFF)))
    value = (1 << int(rng.choice((0, 1, 23, 24, 33, 39, 40)))) - int(rng.integers(0, 3)) & (1 << 40) - 1
    return State(total, c, e, flags, value)


@pytest.mark.parametrize(
    "count", [pytest.param(1_500, id="quick"), pytest.param(30_000, id="slow", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("made", [_any, _sane, _edge])
def test_every_state_has_the_twin_s_next_one_and_element(
    made: Callable[[Rng], State], count: int, rules: Rules
) -> None:
    """A party may post any 16 bytes. Each has one next state and one element, the same in the contract and in the twin:
    nothing is refused, so nobody is stuck; and a state that is not the chain's is not stepped to."""
    rng = np.random.default_rng([count, *made.__name__.encode()])
    checks = Checks(rules)
    calls, wanted = list[Any](), list[int]()
    for number in range(count):
        k = LENGTHS[1 + number % (len(LENGTHS) - 1)]
        types = TensorType(BF16, (1, k)), TensorType(BF16, (k, 1))
        case = Case("mm", types, (TensorType(BF16, (1, 1)),), {}, 0, 0, TC16.byte)
        kind = [*KINDS.values()][number % len(KINDS)]
        a, b = kind(rng, 2).tolist()
        # The ends of blocks and of chunks, and any step.
        t = int(
            rng.choice([0, 2 * k - 1, min(16, k), min(31, k), 1024 % (2 * k), int(rng.integers(0, 2 * k))])
        )
        one = piece(case, factors_from([(a, b)] * k, 0), t, made(rng).encode(), 1)
        checks.piece(case, one)
        calls.append(rules.elements_call(Given.of(case), one.states[0], [(1, 0), (2, 0), (3, 5)]))
        wanted.append(finished(case, replace(one, states=one.states[:1])))
    checks.done()
    for want, got in zip(wanted, rules.calls(calls), strict=True):
        assert decode(["uint64[]"], got) == ((want,) * 3,)


def test_a_block_s_end_is_a_state_of_a_block_that_begins(rules: Rules) -> None:
    """What stands in a state where a block begins does not count: two states that differ there alone have one end."""
    case, inputs = products("ordinary", 40)
    clean = State(0x3F800000, 0xC0490FDB)
    dirty = State(clean.total, clean.c, 0xFFFF, 0xFF, (1 << 40) - 1)
    for t in (0, 32, 64):
        (one, other) = (piece(case, reader(inputs), t, state.encode(), 1) for state in (clean, dirty))
        assert (
            one.states[1] == other.states[1] == rules.step(Given.of(case), t, dirty.encode(), other.opened[0])
        )
    assert finished(case, whole(case, reader(inputs))) == rule_of(case).finish(
        case, replace(State.decode(whole(case, reader(inputs)).states[-1]), e=7, flags=7, sum=7).encode()
    )


# ------------------------------------------------------------------------------------------------ refusals


def test_what_is_no_step_of_the_chain_is_refused(rules: Rules) -> None:
    case, inputs = products("ordinary", 17)
    given, chain = Given.of(case), whole(case, reader(inputs))
    assert isinstance(rule_of(case), TensorContraction)
    for t in (34, 35, (1 << 64) - 1):
        refused(partial(rules.step, given, t, chain.states[0], chain.opened[0]), "NoSuchStep", t, 34)
    for size in (0, 8, 15, 17, 32):
        refused(partial(rules.step, given, 0, bytes(size), chain.opened[0]), "BadState", size, STATE_BYTES)
        refused(partial(rules.finish, given, bytes(size)), "BadState", size, STATE_BYTES)
    refused(
        partial(rules.step, given, 0, chain.states[0], chain.opened[1]), "NotOpened", *chain.opened[0][0][:2]
    )
    refused(partial(rules.step, given, 0, chain.states[0], [*chain.opened[0], (0, 0, 0)]), "NotTaken", 3, 2)
    wide = [(0, chain.opened[0][0][1], 1 << 16), chain.opened[0][1]]
    refused(partial(rules.step, given, 0, chain.states[0], wide), "NotOfDtype", *wide[0])
    for mode in (0, 1, 2, 4, 0x83):
        rules.of_operator[given.op, mode] = rules.rule(given.op, TC16.byte)
        refused(partial(rules.begin, replace(given, mode=mode)), "NotMine", given.op, mode)


def test_only_factors_of_one_dtype_give_a_result_of_that_dtype(rules: Rules) -> None:
    case, _ = products("ordinary", 2)
    given = Given.of(case)
    shapes = [dims for _, dims in (*given.inputs, *given.outputs)]
    for dtypes in ((4, 1, 4), (1, 4, 1), (4, 4, 1), (1, 1, 4), (2, 2, 2), (3, 3, 3), (5, 5, 5)):
        a, b, out = zip(dtypes, shapes, strict=True)
        refused(partial(rules.begin, replace(given, inputs=(a, b), outputs=(out,))), "NotMine", given.op, 3)


def test_a_chain_may_have_two_steps_for_each_of_2_to_the_30_terms(rules: Rules) -> None:
    def of(k: int) -> Given:
        return Given(50, ((4, (1, k)), (4, (k, 1))), ((4, (1, 1)),), mode=TC16.byte)

    assert rules.begin(of(1 << 30)) == (1 << 31, bytes(STATE_BYTES))
    refused(partial(rules.begin, of((1 << 30) + 1)), "ChainTooLong", (1 << 30) + 1)


def test_the_twin_s_sum_is_rounded_as_in_the_contract_whatever_its_exponent() -> None:
    """A number of 40 bits far below every exponent of a block is nothing, and far above it is infinite."""
    assert rounded(0, 0, 1 << 38) == 0
    assert rounded(0xFFFF, 0, (1 << 40) - 1) == 0xFF800000
