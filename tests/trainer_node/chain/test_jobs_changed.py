"""The jobs in which something has happened since a block, by the events of one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Anvil, undone

from .test_client import Town


@pytest.fixture
def town(module_anvil: Anvil, tmp_path: Path) -> Iterator[Town]:
    made = Town(module_anvil.url, module_anvil.keys[:4], tmp_path)
    with undone(made.web3):
        yield made


def test_the_jobs_in_which_something_has_happened_are_read_in_one_request(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, two = town.post(), town.post()
    before = town.client.snapshot().block.number
    assert town.client.snapshot().jobs_changed(before) == []
    town.claim_two(two)
    snapshot, asked = town.client.snapshot(), []
    endpoint: Any = town.client.endpoints.serving
    send = endpoint.request

    def listen(method: str, params: object) -> Any:
        asked.append(method)
        return send(method, params)

    monkeypatch.setattr(endpoint, "request", listen)
    assert snapshot.jobs_changed(before) == [two]
    assert snapshot.jobs_changed(None) == [two], "to post costs gas alone"
    assert asked == ["eth_getLogs"] * 2
    assert snapshot.jobs_changed(snapshot.block.number) == []
