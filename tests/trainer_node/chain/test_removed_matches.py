"""A reorganisation removes a match that was seen in the newest block (an explorer reads there): for as long as the
process lasts, whoever asks for the job's matches gets it, and cannot read it. So its page is "Not here", its row
unchecked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Anvil, undone
from trainer_node.monitor.rounds import Monitor

from .test_client import Town


@pytest.fixture
def town(module_anvil: Anvil, tmp_path: Path) -> Town:
    return Town(module_anvil.url, module_anvil.keys[:4], tmp_path)


def test_a_match_that_a_reorganisation_has_removed_hides_no_job(town: Town) -> None:
    job_id = town.post()
    monitor = Monitor(town.client)
    with undone(town.web3):
        town.claim_two(job_id)
        assert not monitor.round().unchecked
        (removed,) = town.client.snapshot().matches_of(job_id)
    for _ in range(3):
        unchecked = monitor.round().unchecked
    snapshot = town.client.snapshot()
    assert (snapshot.matches_of(job_id), unchecked) == ([], {}), f"{removed:#x} is asked for still"
