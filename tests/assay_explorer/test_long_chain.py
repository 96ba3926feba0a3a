"""Pages about a chain of a million blocks: the index follows it in pieces, and no page asks for more because of it."""

from __future__ import annotations

import time

import httpx

from assay_explorer.chain import Chain, IndexedClient
from assay_explorer.index import Index
from tests.e2e.counting import Gap
from trainer_node.chain import connect
from trainer_node.chain.events import Event

from .conftest import Played, served
from .test_strangers import MAX_PAGE

BLOCKS = 1_000_000


def test_a_million_blocks_before_the_job(tried: Played) -> None:
    anvil, client, index = tried.arena._anvil, tried.arena.client, Index(None)
    web3 = connect(anvil.url, anvil.chain_id)
    gap = Gap(web3.provider, tried.arena._posted_block - 1, BLOCKS)
    chain = Chain(IndexedClient(web3, client.deployment, cache=index, log_range=10_000), index)
    began = time.monotonic()
    chain.tick()
    assert chain.problem is None
    assert index.through == client.block().number + BLOCKS
    print(f"followed in {time.monotonic() - began:.1f} s, {gap.made.total()} requests")
    near = tried.chain()
    assert [(name, event.args) for name, event in events(chain)] == [
        (name, event.args) for name, event in events(near)
    ]
    with served(tried.pages(chain=chain)) as address, httpx.Client(base_url=address, timeout=60) as http:
        for path in ("/", f"/job/{tried.arena.job_id}", tried.path):
            http.get(path)
            gap.made.clear()
            began = time.monotonic()
            page = http.get(path)
            print(f"{path}: {time.monotonic() - began:.3f} s, {dict(gap.made)}")
            assert page.status_code == 200
            assert len(page.content) < MAX_PAGE
            assert gap.made["eth_getLogs"] == 0
            assert gap.made.total() < 100


def events(chain: Chain) -> list[tuple[str, Event]]:
    look = chain.look()
    blocks = [number for (number,) in chain.index._rows.execute("select distinct block from events")]
    return chain.index.events_in(look.client, blocks)
