"""A job that takes all memory and waits behind one that takes next to none: the rest is not to lie idle."""

from __future__ import annotations

import pytest

from tests.trainer_node.desk import until
from trainer_node.run.tensors import Takes

from .test_siege import INTERVAL, Siege, siege  # noqa: F401

HOUR = 3600.0


@pytest.mark.parametrize("waits", [False, True])
def test_a_small_interval_is_checked_while_a_large_one_waits(siege: Siege, waits: bool) -> None:  # noqa: F811
    """The attack: two posted jobs with right claims keep a lie that is served at once from being checked."""
    large, real = siege.job(2, (siege.run.root, siege.quick.uri)), siege.job(1, siege.lie)
    node, tensors, found = siege.node, siege.node._tensors, list[int]()
    siege.prepared(large, real)
    tensors.of(2, Takes(step=tensors.limit))
    tensors.of(1, Takes(step=tensors.limit // 1000))
    tensors.of(3, Takes(step=1024))
    with tensors.lent(3, beside=True):  # an interval of many small steps
        if waits:
            siege.check(large)
            until(lambda: siege.check(large) and siege.delayed(2))

        def look() -> list[int]:
            if waits:
                siege.check(large)
            siege.clock.on(60.0)
            return siege.check(real)[0]

        while siege.clock() < 10 * HOUR and not (found := look()):
            until(lambda: not node._checks[1].busy)
        assert found == [INTERVAL]
        assert not waits or node.found(2) == []
        assert tensors.used < tensors.limit
