"""One dispute that goes all the way, from two run roots to one step of one element; played once for all tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from assay_explorer.chain import Chain, IndexedClient
from assay_explorer.index import Index
from assay_explorer.pages import Pages
from assay_explorer.rendering import Place
from assay_explorer.shown_commands import chain_flags
from assay_explorer.web import AnyPages, create_app
from assay_lab.faults import Fault
from tests.conftest import _chains
from tests.e2e.arena import Arena, Outcome
from tests.e2e.conftest import bundle as small_bundle  # noqa: F401 # a fixture
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.settings.settings import load_settings
from trainer_node.storage.store import Store

MM = 5
"""A matrix product of 64 terms in the program of the tests."""
MAX_BYTES = 44_000
"""Weight of a page at most, without what it loads."""


@dataclass(frozen=True)
class Played:
    """A job that is over, with its servers still up."""

    arena: Arena
    outcome: Outcome
    bundle: Bundle
    folder: Path

    @property
    def match(self) -> int:
        snapshot = self.arena.client.snapshot()
        snapshot.job(self.arena.job_id)
        return snapshot.matches_of(self.arena.job_id)[0]

    @property
    def path(self) -> str:
        return f"/job/{self.arena.job_id}/dispute/{self.match:#066x}"

    def chain(self, index: Index | None = None) -> Chain:
        """Return a chain that was followed to its head."""
        index = index or Index(None)
        client = self.arena.client
        chain = Chain(IndexedClient(client.web3, client.deployment, cache=index), index)
        chain.tick()
        assert chain.problem is None
        return chain

    def pages(
        self, *, static: bool = False, chain: Chain | None = None, trainers: Sequence[str] = ()
    ) -> Pages:
        fetcher = Fetcher(Store(self.folder / "explorer"), attempts=1, timeout_s=5, budget_s=60)
        told, place = chain or self.chain(), Place(static=static)
        return Pages(
            *(told, fetcher, self.folder),
            bundles=[self.bundle],
            place=place,
            flags=self.flags,
            trainers=trainers,
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of commands that name this chain."""
        settings = load_settings(rpc_url=self.arena._anvil.url, chain_id=self.arena._anvil.chain_id)
        return chain_flags(settings)


def play(arena: Arena, bundle: Bundle, folder: Path) -> Played:
    return Played(arena, arena.play(), bundle, folder)


@contextmanager
def served(pages: AnyPages, tick: Callable[[], None] | None = None) -> Iterator[str]:
    """Serve pages on a free port; give their address."""
    app = create_app(pages, tick, 0.2)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="package")
def tried(
    tmp_path_factory: pytest.TempPathFactory,
    small_bundle: Bundle,  # noqa: F811
) -> Iterator[Played]:
    """An operator that verifiers and, on appeal, the court have judged."""
    folder = tmp_path_factory.mktemp("tried")
    lies: Any = {"trainers": [Fault.NONE, Fault.WRONG_OP_OUTPUT], "appeals": True, "fault_node": MM}
    with _chains() as start, Arena(start(), folder, small_bundle, **lies) as arena:
        yield play(arena, small_bundle, folder)


@pytest.fixture(scope="package")
def site(tried: Played) -> Iterator[str]:
    """The address of pages about that dispute; everything that they fetch is there."""
    pages = tried.pages()
    while pages.fetching(tried.arena.job_id, hex(tried.match)):
        time.sleep(0.1)
    with served(pages, None) as address:
        yield address
