"""Limits of moves about a node. tests/playability shows with really encoded calls that they are bounds."""

from __future__ import annotations

import pytest
from repops.opset import F32

from referee_py.errors import Unplayable
from referee_py.program import Kind, Operand, Skeleton, Structure, TensorType, validate
from referee_py.program.playable import MAX_BYTES, MAX_GAS, check_playable, fitting, loads, transaction_gas

DEEP = TensorType(F32, (1,) * 7 + (2,))
OPERANDS = [Operand(Kind.CONSTANT, k) for k in range(255)]


def widest() -> Structure:
    """Return the operator with the most inputs, of the highest rank."""
    return Structure.make("cat", OPERANDS, [TensorType(F32, (1,) * 7 + (510,))], dim=7)


def test_the_widest_operator_is_playable() -> None:
    validate(Skeleton((widest(),), (), (DEEP,) * 255, ()))
    worst = loads(widest(), [DEEP] * 255)
    assert max(load.bytes for load in worst) <= MAX_BYTES
    assert max(load.gas for load in worst) <= MAX_GAS


def test_what_does_not_fit_is_refused_by_name_value_limit_and_remedy() -> None:
    with pytest.raises(
        Unplayable, match=r"node 3: cat of 2000 inputs: .* may take .* a transaction may take .*; use"
    ):
        check_playable("node 3", widest(), [DEEP] * 2_000)


def test_more_moves_than_fit_are_sent_in_several_transactions() -> None:
    assert fitting([], 2) == 0
    assert fitting([("descend", 2_000)] * 3, 2) == 3
    assert fitting([("compare", 40_000)] * 3, 2) == 2, "too many bytes"
    moves = [("judge", 1_000)] * 9
    count = fitting(moves, 255)
    assert 0 < count < 9
    assert transaction_gas(moves[:count], 255) <= MAX_GAS < transaction_gas(moves[: count + 1], 255), (
        "too much gas"
    )
    assert fitting([("post", 10 * MAX_BYTES), ("post", 1)], 1) == 1, (
        "one at least, so that somebody says why it fails"
    )
