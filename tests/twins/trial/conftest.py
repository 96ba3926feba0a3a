"""A court on a chain that a module's tests share: each of them undoes what it does there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Anvil, undone

from .stand import Stand


@pytest.fixture(scope="module")
def _made(start_module_anvil: Callable[..., Anvil]) -> Stand:
    return Stand(start_module_anvil())


@pytest.fixture
def stand(_made: Stand) -> Iterator[Stand]:
    _made.trials = 0
    with undone(_made.web3):
        yield _made
