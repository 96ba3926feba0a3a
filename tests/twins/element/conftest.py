"""The rules on a chain that a module's tests share: they call, and leave nothing there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Anvil

from .chain import ANVIL_OPTIONS, Rules


@pytest.fixture(scope="module")
def _deployed(start_module_anvil: Callable[..., Anvil]) -> Rules:
    return Rules(start_module_anvil(*ANVIL_OPTIONS).url)


@pytest.fixture
def rules(_deployed: Rules) -> Rules:
    _deployed.of_operator.clear()
    return _deployed
