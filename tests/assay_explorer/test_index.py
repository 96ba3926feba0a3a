"""The index holds what a fresh reading would give, whatever becomes of the chain."""

from __future__ import annotations

from pathlib import Path

import pytest
from web3 import Web3

from assay_explorer.cli import opened
from assay_explorer.index import Index
from tests.conftest import undone
from trainer_node.chain.events import Query
from trainer_node.errors import AlreadyRunning
from trainer_node.settings.settings import load_settings
from trainer_node.storage.process import exclusive

from .conftest import Played

DEPTH = 12


def rows(index: Index) -> list[tuple[object, ...]]:
    found = index._rows.execute("select * from events order by block, place").fetchall()
    named = index._rows.execute("select * from named order by block, place, word").fetchall()
    return found + named


def tell(tried: Played, uri: str) -> None:
    """Have a verifier move its server, in a block of its own: one event."""
    client, verifier = tried.arena.client, tried.arena.address("verifier-0")
    data = client.contracts.registry.encode_abi("move", [uri])
    sent = {"from": verifier, "to": client.deployment.addresses["VerifierRegistry"], "data": data}
    sent_as = client.web3.provider.make_request("eth_sendTransaction", [sent])["result"]  # type: ignore[arg-type]
    # NOTE: anvil answers before it has mined; a look right after would miss the last block on a busy machine.
    client.web3.eth.wait_for_transaction_receipt(sent_as)


def told(tried: Played, index: Index) -> list[str]:
    query = Query(tried.arena.client.contracts.registry, (), ("Moved",))
    found = index.read(query, 0, index.through or 0, lambda _: b"", lambda *_: [])
    return [event.args["uri"] for event in found]


def test_a_second_process_is_told_how_it_has_a_folder_of_its_own(tmp_path: Path) -> None:
    settings = load_settings(chain_id=31337, data_dir=tmp_path)
    with (
        exclusive(tmp_path / "explorer" / "lock", "it"),
        pytest.raises(AlreadyRunning, match="another folder with --data-dir"),
        opened(settings, None),
    ):
        pass


def test_a_reorganisation_while_watching(tried: Played, tmp_path: Path) -> None:
    web3: Web3 = tried.arena.web3
    index = Index(tmp_path / "index.sqlite3")
    chain = tried.chain(index)
    before = len(told(tried, index))
    with undone(web3):
        for number in range(DEPTH):
            tell(tried, f"http://first.example/{number}")
            chain.tick()
        assert len(told(tried, index)) == before + DEPTH
    with undone(web3):
        for number in range(DEPTH + 1):
            tell(tried, f"http://second.example/{number}")
        chain.tick()
        assert chain.problem is None
        assert [uri for uri in told(tried, index) if "first" in uri] == []
        assert len(told(tried, index)) == before + DEPTH + 1
        fresh = Index(None)
        tried.chain(fresh)
        assert rows(index) == rows(fresh)
        assert any(len(row) == 3 for row in rows(index)), "what the events name is kept with them"
        page = tried.pages(chain=chain)
        assert f"block {chain.look().block.number:,}" in page.home()
    chain.tick()
    assert len(told(tried, index)) == before, "a chain that has become shorter, too"


def test_it_goes_on_where_it_was(tried: Played, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    first = Index(path)
    tried.chain(first)
    known = rows(first)
    first.close()
    again = Index(path)
    again.belong_to(tried.arena.client.identity())
    assert again.through is not None
    assert rows(again) == known
    again.belong_to("another chain")
    assert again.through is None
    assert rows(again) == []


def test_events_that_contradict_a_view_are_read_again(tried: Played) -> None:
    index = Index(None)
    chain = tried.chain(index)
    known = rows(index)
    index._rows.execute("delete from events where name = 'Descended'")
    page = tried.pages(chain=chain).dispute(tried.arena.job_id, hex(tried.match))
    assert "Decision" in page
    assert rows(index) == known
