"""A tick costs the same number of requests, however long the chain is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import Anvil
from trainer_node.daemon.service import IDLE_POLLS
from trainer_node.local.bundle import Bundle
from trainer_node.settings.settings import load_settings

from .counting import requests_of

LOG_RANGE = 100


def test_requests_do_not_grow_with_the_chain(
    start_anvil: Callable[..., Anvil], tmp_path: Path, bundle: Bundle
) -> None:
    short, long = (
        requests_of(start_anvil(), tmp_path / str(length), bundle, length, LOG_RANGE)
        for length in (1_000, 1_000_000)
    )
    assert short == long
    rounds = 60 / (load_settings().poll_s * IDLE_POLLS)
    assert rounds * short["idle, new block"].total() <= 20, "requests a minute of an idle node"
    assert all(made.total() > 3 for made in short.values()), short
    assert short["idle"]["eth_getLogs"] == 0
    assert short["idle, new block"]["eth_getLogs"] == 1, "in which jobs something has happened"
    assert short["open match"]["eth_getLogs"] > 0
    assert short["open match, new block"]["eth_getLogs"] == short["open match"]["eth_getLogs"] + 1
    assert short["open match"]["eth_getBlockByNumber"] == 2
