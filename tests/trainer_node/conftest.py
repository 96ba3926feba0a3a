"""Chains to send transactions to and endpoints of them; a node's clock and database; a court room for a verifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from web3 import Web3

from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from trainer_node.chain import connect
from trainer_node.compute import outcomes
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.roles.verifier import Verifier
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .chain.liar import Liar
from .chain.outbox_bench import Bench
from .courtroom import Court, publish
from .desk import put_package
from .slow import Hand


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
        yield connect([liar.url, first.url, second.url], 31337)


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def database() -> Iterator[Database]:
    """In memory."""
    made = Database(None)
    yield made
    made.close()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Database]:
    """A database in a file."""
    made = Database(tmp_path / "node.sqlite3")
    yield made
    made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again at once."""
    monkeypatch.setattr(outcomes, "RETRY_S", 0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ArtifactServer]:
    """A client's, with the tiny job."""
    client = Store(tmp_path / "client", sync=False)
    put_package(client)
    with ArtifactServer(client) as made:
        yield made


@pytest.fixture
def court(tmp_path: Path, server: ArtifactServer, clock: Hand) -> Iterator[Court]:
    """A verifier with time of its own; everything is served."""
    made = Court(tmp_path, server.uri)
    publish(made)
    made.start(Verifier(made.node, clock))
    yield made
    made.node.stop.set()
