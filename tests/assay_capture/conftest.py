"""Tests run in parallel, one per core: more threads in each would only wait for one another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from repops.host import cpu


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = cpu.get_num_threads(), torch.get_num_threads()
    cpu.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    cpu.set_num_threads(before[0])
    torch.set_num_threads(before[1])
