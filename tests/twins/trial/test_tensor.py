"""Trials in tc16 on a local chain: contractions of bf16 with one element wrong by one ulp, in chains of several blocks
and chunks, and with false states in each of a state's words."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from repops.opset import Attrs
from repops.tensors import Array

from referee_py.element.tensor import STATE_BYTES
from referee_py.program.modes import TC16
from tests.referee_py.element.tensor_data import KINDS
from tests.referee_py.trial.parties import Liar, Setting

from .stand import Stand

WINDOW: Attrs = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
CALLS: dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], Attrs]] = {
    "mm": (((3, 1100), (1100, 2)), {}),
    "bmm": (((2, 2, 530), (2, 530, 3)), {}),
    # 17 channels take two blocks of each of the nine taps.
    "conv2d": (((1, 34, 5, 4), (4, 17, 3, 3)), WINDOW),
    "conv2d_input_grad": (((1, 36, 3, 4), (36, 2, 3, 3)), {**WINDOW, "input_hw": (5, 4)}),
    "conv2d_weight_grad": (((3, 4, 3, 4), (3, 6, 5, 4)), {**WINDOW, "kernel_hw": (3, 3)}),
}
WORDS = {"total": 0, "c": 4, "e": 9, "flags": 10, "sum": 15}
"""A byte of each word of a state."""


def dispute(name: str, kind: str, place: float, honest: int, turn: int, word: str) -> Setting:
    rng = np.random.default_rng([turn, *name.encode(), *kind.encode()])
    shapes, attrs = CALLS[name]
    inputs: list[Array] = [
        KINDS[kind](rng, int(np.prod(shape))).view(ml_dtypes.bfloat16).reshape(shape) for shape in shapes
    ]
    setting = Setting.of(name, inputs, attrs, place, honest, turn, TC16.byte)
    assert setting is not None
    sides = [replace(side, byte=WORDS[word]) if isinstance(side, Liar) else side for side in setting.sides]
    return Setting(setting.dispute, (sides[0], sides[1]), honest)


@pytest.mark.parametrize("name", CALLS)
def test_one_ulp_wrong_loses_wherever_the_states_become_false(name: str, stand: Stand) -> None:
    """In both passes of a block, at its end, and at a chunk's; the honest party is either side."""
    last = 2 * 1100
    for number, (turn, word) in enumerate(
        [(0, "e"), (9, "flags"), (17, "sum"), (31, "c"), (150, "total"), (last, "sum")]
    ):
        kind = [*KINDS][(number + len(name)) % len(KINDS)]
        setting = dispute(name, kind, 0.13 * number + 0.2, number % 2, turn, word)
        result = stand.play(setting, served=number % 3 > 0)
        assert (result.losers, result.late) == (2 - setting.honest, False), (turn, word, kind)
        assert result.state.state_bytes == STATE_BYTES


@pytest.mark.parametrize("kind", ["special", "any bits", "overflow", "subnormal results", "few infinities"])
def test_one_ulp_wrong_loses_where_nothing_is_ordinary(kind: str, stand: Stand) -> None:
    for honest in (0, 1):
        setting = dispute("mm", kind, 0.9, honest, 40, "flags")
        result = stand.play(setting, served=True)
        assert (result.losers, result.late) == (2 - honest, False)


def test_a_contraction_of_nothing_needs_no_step(stand: Stand) -> None:
    empty = np.zeros((2, 0), ml_dtypes.bfloat16)
    for honest in (0, 1):
        setting = Setting.of("mm", [empty, empty.reshape(0, 2)], {}, 0.9, honest, 0, TC16.byte)
        assert setting is not None
        result = stand.play(setting, served=True)
        assert (result.losers, result.state.steps) == (2 - honest, 0)
