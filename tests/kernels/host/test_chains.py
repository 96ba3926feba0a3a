"""Native chains against the readable rules of referee_py/element: every state, continued from any earlier state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from repops.host.chains import KINDS, Chain
from repops.opset import F32, OpError, lookup
from repops.random_calls import SPECIAL_F32, random_call
from repops.tensors import canonical

from referee_py.element import Case, rule_of, states
from referee_py.element.native import native_chain
from referee_py.errors import UnknownVersion
from referee_py.program.modes import TC16
from referee_py.rounding import Bounds, Rounding
from tests.referee_py.element.operands import cases_of, reader
from tests.referee_py.element.tensor_data import KINDS as KINDS_OF_DATA
from tests.referee_py.element.tensor_data import SPECIAL, products
from tests.referee_py.trial.narrow import narrow_call

MODES = {"f32": 1, "exact": 2, "rounded": Rounding(32, Bounds.PROVEN).mode, "tc16": TC16.byte}
CALLS = 30
CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
FEW = 40
"""States of a long chain that are compared, besides the first and the last ones."""


def agree(case: Case, inputs: Sequence[np.ndarray], rng: np.random.Generator) -> int:
    """Compare every state by the rules and natively, each from the one before, and some from an earlier one."""
    rule, chain = rule_of(case), native_chain(case, inputs)
    before = rule.begin(case)
    assert (chain.length, chain.state_bytes) == (rule.length(case), len(before))
    kept = {0: before}
    for number, state in enumerate(states(case, reader(inputs), 0, before), 1):
        assert chain.advance(before, number - 1, number) == state, (case, number)
        if rng.random() < FEW / chain.length or number == chain.length:
            kept[number] = state
        before = state
    for number, state in kept.items():
        start = int(rng.choice([n for n in kept if n <= number]))
        assert chain.advance(kept[start], start, number) == state, (case, start, number)
    assert chain.advance(kept[0], 0, chain.length) == kept[chain.length]
    return chain.length


def sampled(
    case: Case, inputs: Sequence[np.ndarray], rng: np.random.Generator, near: Sequence[int] = ()
) -> None:
    """Compare some steps of a chain too long for the rules: the rules turn one native state into the next."""
    rule, chain = rule_of(case), native_chain(case, inputs)
    read, state, done = reader(inputs), rule.begin(case), 0
    assert (chain.length, chain.state_bytes) == (rule.length(case), len(state))
    around = [place + by for place in (0, chain.length, *near) for by in range(-3, 4)]
    places = [int(place) for place in rng.integers(0, chain.length, 200)] + around
    for t in sorted({place for place in places if 0 <= place < chain.length}):
        state, done = chain.advance(state, done, t), t
        assert chain.advance(state, t, t + 1) == rule.step(case, t, state, read), (case, t)


def in_mode(case: Case, mode: int) -> Case:
    return replace(case, mode=mode)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(
            name, mode, marks=[pytest.mark.slow] if name in ("amax", "sum") and mode != "rounded" else []
        )
        for name in KINDS
        for mode in MODES
        if mode != "tc16"  # NOTE: of f32, as in repops-f32
    ],
)
def test_every_state_of_random_calls(name: str, mode: str) -> None:
    rng, steps = np.random.default_rng(len(name)), 0
    for number in range(CALLS):
        inputs, attrs = random_call(name, f"chain/{number}", "tiny" if number % 5 else "usual")
        inputs = [canonical(array) for array in inputs]
        for case in cases_of(name, inputs, attrs, rng.random(2)):
            steps += agree(in_mode(case, MODES[mode]), inputs, rng)
    assert steps > 3 * CALLS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KINDS)
def test_some_states_of_long_calls(name: str, mode: str) -> None:
    rng = np.random.default_rng(len(name))
    for number in range(6):
        inputs, attrs = random_call(name, f"chain/{number}", "long")
        inputs = [canonical(array) for array in inputs]
        for case in cases_of(name, inputs, attrs, rng.random(2)):
            if rule_of(case).length(case):
                sampled(in_mode(case, MODES[mode]), inputs, rng)


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_every_state_of_contractions_of_bf16(name: str) -> None:
    """In tc16 a state is 16 bytes and a term two steps; special values in a third of the calls."""
    rng = np.random.default_rng([*name.encode()])
    for number in range(CALLS):
        inputs, attrs = narrow_call(name, f"chain/{number}")
        inputs = [np.asarray(array, order="C").copy() for array in inputs]
        if number % 3 == 0:
            for array in inputs:
                flat = array.reshape(-1).view(np.uint16)
                flat[rng.random(flat.size) < 0.2] = rng.choice(SPECIAL)
        for case in cases_of(name, inputs, attrs, rng.random(2)):
            for mode in MODES.values():
                agree(in_mode(case, mode), inputs, rng)


@pytest.mark.parametrize("kind", KINDS_OF_DATA)
def test_every_state_of_products_of_each_kind_of_data(kind: str) -> None:
    for k in (1, 16, 511, 530):
        case, inputs = products(kind, k)
        assert agree(case, inputs, np.random.default_rng(k)) == 2 * k


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_states_that_no_chain_reaches_have_the_rule_s_next_one(name: str) -> None:
    """A party may post any 16 bytes: each step from them is the rule's."""
    rng = np.random.default_rng([*name.encode(), 1])
    exponents = (0, 1, 120, 121, 129, 130, 131, 153, 193, 194, 510, 4095, 0xFFFF)
    for number in range(40):
        inputs, attrs = narrow_call(name, f"any/{number}")
        inputs = [np.asarray(array, order="C").copy() for array in inputs]
        for case in cases_of(name, inputs, attrs, (0.3,)):
            case = in_mode(case, TC16.byte)
            rule, chain, read = rule_of(case), native_chain(case, inputs), reader(inputs)
            for t in rng.integers(0, chain.length, 40).tolist() if chain.length else []:
                state = bytearray(rng.bytes(16))
                if rng.random() < 0.7:
                    state[8:10] = int(rng.choice(exponents)).to_bytes(2, "big")
                    state[10] = int(rng.choice((0, 0, 1, 2, 4, 6, 0xF8, 0xFF)))
                if rng.random() < 0.5:
                    state[4:8] = int(rng.choice(SPECIAL)).to_bytes(2, "big") + rng.bytes(2)
                after = chain.advance(bytes(state), t, t + 1)
                assert after == rule.step(case, t, bytes(state), read), (case, t, state.hex())


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((2**24 + 1,), (0,)),  # three levels, and a last block of one block of one item
        ((4096, 4096), (0, 1)),
        ((4096 * 33 + 5,), (0,)),
        ((3, 4097, 2, 4099), (1, 3)),
        ((2, 3) * 4, (0, 2, 4, 6)),  # no two dimensions join
        ((40, 1, 500, 3), (0, 2)),
    ],
)
def test_sums_of_several_levels(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    # NOTE: one block of values is repeated: a reference reads them one by one.
    x = np.resize(rng.standard_normal(65_537).astype(np.float32), shape)
    (case,) = cases_of("sum", [x], {"dims": dims, "keepdim": 0}, [0.7])
    for mode in MODES.values():
        near = [4096, 4096 * 4095, 4096 * 4096, 32, 127]
        sampled(in_mode(case, mode), [x], rng, near)


@pytest.mark.parametrize("mode", MODES)
def test_special_values_in_every_order(mode: str) -> None:
    """NaNs, infinities, zeros of both signs, subnormals and the largest numbers, a few at a time."""
    rng = np.random.default_rng(9)
    special = SPECIAL_F32.view(np.float32)  # NOTE: with NaNs that are not canonical
    for _ in range(40):
        few = rng.choice(special, int(rng.integers(1, 5)))
        a, b = (rng.choice(few, (1, 40)).astype(np.float32) for _ in range(2))
        sums = {"dims": (0, 1), "keepdim": 0}
        idx = rng.integers(-1, 2, 40)
        for name, inputs, attrs in (
            ("mm", [a, b.reshape(40, 1)], {}),
            ("sum", [a], sums),
            ("amax", [a], sums),
            ("argmax", [a], {"dim": 1, "keepdim": 0}),
            ("scatter_add", [b[0, :2].copy(), idx, a[0].copy()], {}),
        ):
            for case in cases_of(name, inputs, attrs, [0.0]):
                agree(in_mode(case, MODES[mode]), inputs, rng)


@pytest.mark.parametrize("name", ["conv2d", "conv2d_input_grad", "conv2d_weight_grad", "max_pool2d"])
def test_windows_that_are_mostly_or_wholly_padding(name: str) -> None:
    rng = np.random.default_rng(3)
    found = set()
    for _ in range(60):
        size, kernel, stride, dilation = (tuple(int(v) for v in rng.integers(1, 5, 2)) for _ in range(4))
        padding = tuple(int(v) for v in rng.integers(6, 13, 2))
        window = {"stride": stride, "padding": padding, "dilation": dilation}
        groups = int(rng.integers(1, 3))
        x, w = (rng.standard_normal((2, 2, *shape)).astype(np.float32) for shape in (size, kernel))
        w = w[:, : 2 // groups].copy()
        (_, out) = lookup("conv2d").infer([(F32, x.shape), (F32, w.shape)], {**window, "groups": groups})[0]
        dy = rng.standard_normal(out).astype(np.float32)
        grouped = {**window, "groups": groups}
        calls: dict[str, tuple[list[Any], dict[str, Any]]] = {
            "conv2d": ([x, w], grouped),
            "conv2d_input_grad": ([dy, w], {**grouped, "input_hw": size}),
            "conv2d_weight_grad": ([dy, x], {**grouped, "kernel_hw": kernel}),
            "max_pool2d": ([x], {**window, "kernel": kernel}),
        }
        inputs, attrs = calls[name]
        for case in cases_of(name, inputs, attrs, rng.random(3)):
            found.add(agree(case, inputs, rng))
            for mode in ("exact", "rounded"):
                agree(in_mode(case, MODES[mode]), inputs, rng)
    assert len(found) > 2
    assert name != "max_pool2d" or 0 in found, "a window without any element"


def test_refusals() -> None:
    x = np.ones((3, 4), np.float32)
    attrs = {"dims": (1,), "keepdim": 0}
    with pytest.raises(OpError, match="no such element"):
        Chain("sum", [x], attrs, 3)
    with pytest.raises(OpError, match="no such output"):
        Chain("sum", [x], attrs, 0, output=1)
    with pytest.raises(OpError, match="one step each"):
        Chain("neg", [x], {}, 0)
    with pytest.raises(OpError, match="contiguous"):
        Chain("sum", [x.T], attrs, 0)
    chain = Chain("sum", [x], attrs, 2)
    with pytest.raises(UnknownVersion):
        native_chain(in_mode(cases_of("sum", [x], attrs, [0.0])[0], 4), [x])
    for start, stop in ((-1, 2), (3, 2), (0, 5)):
        with pytest.raises(ValueError, match="chain of 4"):
            chain.advance(bytes(24), start, stop)
    with pytest.raises(ValueError, match="24"):
        chain.advance(bytes(23), 0, 1)


def test_bytes_that_are_no_state_do_no_harm() -> None:
    """No bytes of a state select what is read of an operand; a sanitizer would see it."""
    rng = np.random.default_rng(1)
    for name in KINDS:
        inputs, attrs = random_call(name, "state", "tiny")
        inputs = [canonical(array) for array in inputs]
        for case in cases_of(name, inputs, attrs, [0.0, 0.99]):
            for mode in MODES.values():
                chain = native_chain(in_mode(case, mode), inputs)
                for fill in (rng.bytes(chain.state_bytes), b"\xff" * chain.state_bytes):
                    assert len(chain.advance(fill, 0, chain.length)) == chain.state_bytes
