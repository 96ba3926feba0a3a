"""The requests that a claimant answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import repops
from web3 import Web3

from referee_py.availability import Piece, Place
from trainer_node.chain import Contracts, Group
from trainer_node.chain.codec.availability import Ledger, OpenRequest
from trainer_node.data_responder import DataResponder
from trainer_node.replay import Replay
from trainer_node.store import Store

from .desk import Remembered, Sent, job, tiny_package
from .endpoint import DEPLOYMENT

ME, LOGS = "0x" + "aa" * 20, b"\7" * 32
NOW = 500


class Claimant:
    """A party that has claimed its run in the root's third life."""

    def __init__(self, folder: Path) -> None:
        self.replay = Replay(tiny_package(), repops.backend("cpu"), Store(folder, sync=False), Remembered())
        self.group = Group(0, self.replay.train().root, b"", 0, 2, 2, 0, (0, 1, 2))
        self.contracts = Contracts(Web3(), DEPLOYMENT)
        self.sent = Sent()

    def attend(self, *requests: OpenRequest) -> list[Place]:
        """Return the places that it answers."""
        ledger = Ledger(open={(request.root, request.place): request for request in requests})
        snapshot: Any = SimpleNamespace(now=NOW, pending=lambda *_: 1, ledger=lambda _: ledger)
        responder = DataResponder(self.contracts, self.sent.simulate)
        self.sent.send(responder.due(snapshot, job(logs=LOGS), self.group, self.replay))
        return [
            place
            for call in self.sent.calls
            for place in self.sent.places(self.contracts.data_availability, call)
        ]


@pytest.fixture
def claimant(tmp_path: Path) -> Claimant:
    return Claimant(tmp_path)


def record(root: bytes, node: int, life: int, until: int = NOW) -> OpenRequest:
    return OpenRequest(root, Place(Piece.RECORD, 0, node), ME, life, until, 0, 10**9)


def test_what_is_requested_in_this_life_is_answered_in_the_order_of_its_time(claimant: Claimant) -> None:
    root = claimant.group.root
    requests = record(root, 0, 3, NOW + 9), record(root, 1, 3, NOW), record(root, 2, 3, NOW - 1)
    assert [place.node for place in claimant.attend(*requests)] == [1, 0], "the last of them is late"


def test_what_was_requested_in_former_lives_is_left(claimant: Claimant) -> None:
    """They need not be computed: there may be many."""
    root = claimant.group.root
    requests = record(root, 0, 1), record(root, 1, 2), record(root, 2, 3)
    assert [place.node for place in claimant.attend(*requests)] == [2]


def test_what_is_requested_of_another_root_is_left(claimant: Claimant) -> None:
    """Also of a root with the same bytes as the root of the logs."""
    assert claimant.attend(record(b"\1" * 32, 0, 3), record(LOGS, 1, 1)) == []
    assert not claimant.sent.calls


def test_late_pages_of_the_logs_are_closed(claimant: Claimant) -> None:
    """In any life of our root."""
    page = Place(Piece.DIGESTS, 1, 0)
    claimant.attend(OpenRequest(LOGS, page, ME, 0, NOW - 1, 0, 10**9))
    assert [call.action for call in claimant.sent.calls] == ["close"]
