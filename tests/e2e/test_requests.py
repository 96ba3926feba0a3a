"""A tick costs the same number of requests, however long the chain is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import Anvil
from trainer_node.bundle import Bundle

from .counting import LOG_RANGE, requests_of


def test_requests_do_not_grow_with_the_chain(
    start_anvil: Callable[..., Anvil], tmp_path: Path, bundle: Bundle
) -> None:
    short, long = (
        requests_of(start_anvil(), tmp_path / str(length), bundle, length)
        for length in (LOG_RANGE // 2, 20 * LOG_RANGE)
    )
    assert short == long
    assert short["idle"]["eth_getLogs"] == 0
