"""The time that a kernel takes is that of its busiest thread, whichever that is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import repops
from repops.host import cpu
from repops.host.library import LIBRARY, thread_time
from repops.tensors import Array

SIZE = 1 << 20
EASY, HARD = 0.5, 1e30
"""sin reduces a large argument with many words of pi."""


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = cpu.get_num_threads()
    cpu.set_num_threads(2)
    yield
    cpu.set_num_threads(before)


def others(x: Array) -> float:
    """Return how much longer than this thread the other one works in some calls: seconds of processor time."""
    out = np.empty_like(x)
    repops.sin(x, out=out)
    own, counted = time.thread_time(), thread_time()
    for _ in range(8):
        repops.sin(x, out=out)
    return thread_time() - counted - (time.thread_time() - own)


def halves(first: float, second: float) -> Array:
    x = np.full(SIZE, first, np.float32)
    x[SIZE // 2 :] = second
    return x


def test_the_other_threads_work_counts_where_it_takes_longer() -> None:
    # NOTE: no bound on a time: the hard half takes some ten times as long as the other.
    assert others(halves(EASY, HARD)) > others(halves(HARD, EASY))


def test_with_one_thread_nobody_else_works() -> None:
    cpu.set_num_threads(1)
    before = LIBRARY.repops_others()
    others(halves(EASY, HARD))
    assert LIBRARY.repops_others() == before
