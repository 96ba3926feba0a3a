"""The state of a user who audits is in a folder of the test run; a published run with a lie, and a receipt about it."""

from __future__ import annotations

import random

import pytest
from eth_account import Account

from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt_file import Signed

from .runs import opened, publish, signed


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PublishedRun:
    """Six intervals of five steps, the last one short; step 13 lies."""
    folder = tmp_path_factory.mktemp("run")
    return opened(publish(folder / "run", 28, 5, lie=13), folder / "cache")


@pytest.fixture
def good(run: PublishedRun) -> Signed:
    return signed(run, Account.create(), random.randint(1, 6))
