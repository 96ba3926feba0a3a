"""Chains to send transactions to."""

from __future__ import annotations

from pathlib import Path

import pytest

from .outbox_bench import Bench


@pytest.fixture
def bench(anvil, tmp_path: Path) -> Bench:
    return Bench(anvil.url, anvil.keys[0], tmp_path)


@pytest.fixture
def slow(start_anvil, tmp_path: Path) -> Bench:
    """A chain that mines only on command."""
    chain = start_anvil("--no-mining")
    return Bench(chain.url, chain.keys[0], tmp_path)
