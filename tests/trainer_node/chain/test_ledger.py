"""The requests in a job and their fate, from events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from eth_abi.abi import encode

from referee_py.availability import Piece, Place
from referee_py.commit.structs import words
from trainer_node.chain import Contracts
from trainer_node.chain.codec.availability import Ledger, OpenRequest
from trainer_node.chain.events import Event
from trainer_node.errors import RpcCorrupt

from .endpoint import ADDRESS, Endpoint, result

JOB = 7
OTHER_JOBS = "0x" + "ab" * 20


def test_jobs_of_other_contracts_are_not_asked_for(endpoint: Endpoint) -> None:
    """A request of a job with the same number, in another Jobs contract, was closed."""
    client = endpoint.client()
    topic = Contracts(client.web3, client.deployment).data_availability.events.Closed().topic
    words = ["0x" + "00" * 12 + address.removeprefix("0x").lower() for address in (OTHER_JOBS, ADDRESS)]
    place = (2, 0, 0, 0, 0)
    body = encode(["bytes32", "(uint8,uint64,uint32,uint16,uint64)", "bool"], [bytes(32), place, False])
    log: dict[str, Any] = {
        "address": ADDRESS,
        "topics": [topic, "0x" + JOB.to_bytes(32, "big").hex(), words[0]],
        "data": "0x" + body.hex(),
        "blockNumber": "0x1",
        "blockHash": "0x" + "11" * 32,
        "transactionHash": "0x" + "33" * 32,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
    }
    block = {"number": "0x5", "hash": "0x" + "11" * 32, "timestamp": "0x1"}
    asked: list[list[Any]] = []

    def answer(request: dict) -> tuple[int, bytes]:
        if request["method"] == "eth_getBlockByNumber":
            return 200, result(request, block)
        asked.append(request["params"][0]["topics"])
        wanted = dict(enumerate(asked[-1]))
        return 200, result(request, [log] if wanted.get(2) in (None, words[0]) else [])

    endpoint.answer = answer
    job: Any = SimpleNamespace(id=JOB)
    assert not client.snapshot().ledger(job).open
    assert asked[0][1:] == [log["topics"][1], words[1]]


ROOT, PLACE = b"\5" * 32, Place(Piece.RECORD, 1, 2)


def event(name: str, **args: object) -> Event:
    return Event(name, {"root": ROOT, "place": words(PLACE), **args}, 1, b"", 0)


def requested(life: int) -> Event:
    return event("Requested", requester=ADDRESS, life=life, until=1000 * life, rank=0, price=10**9)


def test_a_request_keeps_the_life_that_it_was_made_in() -> None:
    assert Ledger.of([requested(3)]).open == {
        (ROOT, PLACE): OpenRequest(ROOT, PLACE, ADDRESS, 3, 3000, 0, 10**9)
    }


def test_a_place_of_a_former_life_is_closed_by_the_next_request_of_it() -> None:
    """In one transaction, in this order."""
    ledger = Ledger.of([requested(1), event("Closed", lost=False), requested(2)])
    assert [request.life for request in ledger.open.values()] == [2]
    assert not ledger.answered


def test_a_closing_of_what_was_never_requested_is_an_event_that_is_missing() -> None:
    with pytest.raises(RpcCorrupt, match="the endpoint lacks events of requests"):
        Ledger.of([event("Closed", lost=False), requested(2)])
