"""The builder leaves out unneeded nodes, merges equal ones, and numbers nodes by the order of calls."""

from __future__ import annotations

import numpy as np
import pytest
from repops.opset import F32

from assay_capture.capture.builder import Builder, Ref
from assay_capture.capture.errors import CaptureError
from referee_py.program import validate

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def b() -> Builder:
    return Builder()


def names(b: Builder) -> list[str]:
    skeleton = b.finish().skeleton
    validate(skeleton)
    return [node.name for node in skeleton.nodes]


def slot_plus(b: Builder, value: Ref) -> None:
    """Make a value live by adding it to a slot."""
    slot = b.slot("s", np.zeros(value.shape, np.float32))
    b.update(slot, b.op("add", slot, value))


def test_equal_expressions_become_one_node(b: Builder) -> None:
    x = b.constant("x", X)
    assert b.op("exp", b.op("neg", x)) == b.op("exp", b.op("neg", x))
    assert b.op("sum", x, dims=(0,), keepdim=0) != b.op("sum", x, dims=(0,), keepdim=1)


def test_dead_nodes_and_unread_constants_are_left_out(b: Builder) -> None:
    b.constant("unused", X)
    x = b.constant("x", X)
    b.op("log", x)
    slot_plus(b, b.op("exp", x))
    built = b.finish().build()
    assert [node.name for node in built.program.nodes] == ["exp", "add"]
    assert built.labels.constants == ["x"]


def test_no_ops_make_no_node(b: Builder) -> None:
    x = b.constant("x", X)
    one = b.full(1.0)
    for same in (
        b.op("reshape", x, shape=(2, 3)),
        b.op("expand", x, shape=(2, 3)),
        b.op("permute", x, dims=(0, 1)),
        b.op("permute", b.op("permute", x, dims=(1, 0)), dims=(1, 0)),
        b.op("reshape", b.op("reshape", x, shape=(6,)), shape=(2, 3)),
        b.op("cast", x, dtype=F32),
        b.op("mul", x, one),
        b.op("mul", one, x),
        b.op("div", x, one),
    ):
        assert same == x


def test_arithmetic_on_known_scalars_is_done_now_and_in_f32(b: Builder) -> None:
    third = b.op("div", b.full(1.0), b.full(3.0))
    assert b.scalar_value(third) == np.float32(1) / np.float32(3)
    assert third == b.full(1 / 3), "one rounding either way"
    assert b.scalar_value(b.op("sub", b.full(0.1), b.full(0.1))) == 0


def test_a_sum_that_is_reshaped_drops_its_dimensions_at_once(b: Builder) -> None:
    x = b.constant("x", X)
    slot_plus(b, b.op("reshape", b.op("sum", x, dims=(0,), keepdim=1), shape=(3,)))
    assert names(b) == ["sum", "add"]


def test_an_unchanged_slot_is_copied_by_a_node(b: Builder) -> None:
    b.slot("frozen", X)
    assert names(b) == ["reshape"]


def test_a_slot_may_become_another_slot(b: Builder) -> None:
    old, older = b.slot("old", X), b.slot("older", X + 1)
    b.update(older, old)
    built = b.finish().build()
    assert [node.name for node in built.program.nodes] == ["reshape"]
    assert built.program.slots[0] == built.program.slots[1]


def test_an_update_must_have_the_slots_type(b: Builder) -> None:
    slot = b.slot("weight", X)
    with pytest.raises(CaptureError, match=r"slot weight is f32\[2, 3\]; it cannot become f32\[6\]"):
        b.update(slot, b.op("reshape", slot, shape=(6,)))


def test_metrics_keep_their_nodes_alive(b: Builder) -> None:
    x = b.constant("x", X)
    b.metric("loss", b.op("sum", x, dims=(0, 1), keepdim=0))
    built = b.finish().build()
    assert built.labels.metrics["loss"].node == 0


def test_later_writes_to_an_array_do_not_reach_the_program(b: Builder) -> None:
    mine = X.copy()
    slot_plus(b, b.constant("x", mine))
    mine[:] = 0
    built = b.finish().build()
    np.testing.assert_array_equal(built.constants[0], X)
