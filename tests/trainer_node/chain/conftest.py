"""An RPC endpoint whose answers a test chooses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .endpoint import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()
