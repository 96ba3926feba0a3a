"""A machine stands still for an hour (a virtual machine that is moved, a full swap) while a reading is computed: what
/readyz and /metrics show after it must not be that of then for most of a day."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trainer_node.network import shared_reading
from trainer_node.network.shared_reading import SharedReading

from ..slow import Hand


def test_a_reading_that_once_took_long_is_computed_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ready = Hand(), [True]

    def compute() -> bool:
        if not clock():
            clock.on(3600.0)
        return ready[0]

    monkeypatch.setattr(shared_reading, "time", SimpleNamespace(monotonic=clock))
    reading = SharedReading(compute)
    assert reading()
    ready[0] = False
    clock.on(600.0)
    assert not reading(), "a monitor is told that the node is ready, for twenty hours"
