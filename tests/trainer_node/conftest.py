"""Chains to send transactions to, and endpoints of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from web3 import Web3

from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from trainer_node.chain import connect

from .liar import Liar
from .outbox_bench import Bench


@pytest.fixture
def bench(anvil, tmp_path: Path) -> Bench:
    return Bench(anvil.url, anvil.keys[0], tmp_path)


@pytest.fixture
def slow(start_anvil, tmp_path: Path) -> Bench:
    """A chain that mines only on command."""
    chain = start_anvil("--no-mining")
    return Bench(chain.url, chain.keys[0], tmp_path)


@pytest.fixture
def liar(module_anvil: Anvil) -> Iterator[Liar]:
    with Liar(module_anvil.url) as liar:
        yield liar


@pytest.fixture
def three(module_anvil: Anvil, liar: Liar) -> Iterator[Web3]:
    """A connection over three endpoints, of which the first one lies."""
    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        yield connect([liar.url, first.url, second.url], 31337, timeout_s=2.0)
