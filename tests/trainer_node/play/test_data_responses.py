"""The requests that a claimant answers, and when it sends the answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import repops
from web3 import Web3

from referee_py.availability import Piece, Place
from trainer_node.chain import Call, Contracts, Group
from trainer_node.chain.codec.availability import Ledger, OpenRequest
from trainer_node.daemon.due import Due
from trainer_node.errors import Reverted, RpcUnavailable
from trainer_node.play.data_responses import MAX_HIDDEN, DataResponder
from trainer_node.play.ends import Confirmer
from trainer_node.run.replay import Replay
from trainer_node.stake.flood import MAX_BATCH_BYTES
from trainer_node.storage.store import Store

from ..chain.endpoint import DEPLOYMENT
from ..desk import TERMS, Remembered, Sent, job, tiny_package

ME, LOGS = "0x" + "aa" * 20, b"\7" * 32
NOW = 500


class Chain(Sent):
    """What the newest block says of requests, and an older block with as many confirmations as are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 10
        self.open_at_head: list[OpenRequest] = []
        self.open_before: list[OpenRequest] = []
        self.closed: set[Place] = set()
        self.doubt = False
        """True if others do not confirm what is shown."""

    def ask(self, *requests: OpenRequest) -> None:
        self.open_at_head = self.open_before = list(requests)

    def view(self, number: int, requests: Iterable[OpenRequest]) -> Any:
        ledger = Ledger(open={(request.root, request.place): request for request in requests})
        block = SimpleNamespace(number=number)
        return SimpleNamespace(
            now=NOW,
            block=block,
            job=lambda _, **_told: None,
            pending=lambda *_: len(ledger.open),
            ledger=lambda *_: ledger,
            confirm=self.confirm,
        )

    def confirm(self, *, hurried: bool) -> None:
        assert hurried
        if self.doubt:
            raise RpcUnavailable("2 endpoints give something else")

    def newest(self, read: Any, *, alone: bool) -> Any:
        assert alone, "whoever gives logs is enough"
        return read(self.view(self.number, self.open_at_head))

    def mined(self) -> None:
        """Mine what is open."""
        self.number += 1
        self.outcomes |= dict.fromkeys(self.open(), ("mined", self.number))

    def answered(self, places: Iterable[Place]) -> None:
        """The newest block shows these as answered."""
        self.open_at_head = [one for one in self.open_at_head if one.place not in set(places)]


class Claimant:
    """A party that has claimed its run in the root's third life."""

    def __init__(self, folder: Path) -> None:
        self.replay = Replay(tiny_package(), repops.backend("cpu"), Store(folder, sync=False), Remembered())
        self.group = Group(0, self.replay.train().root, b"", 0, 2, 2, 0, (0, 1, 2))
        self.contracts = Contracts(Web3(), DEPLOYMENT)
        self.chain = Chain()
        self.restart()

    def restart(self) -> None:
        chain: Any = self.chain
        self.responder = DataResponder(self.contracts, chain, chain.newest, threading.Event())

    def round(self) -> list[Place]:
        """Take one turn of the loop; return the places that it answers."""
        before = len(self.chain.calls)
        snapshot = self.chain.view(10, self.chain.open_before)
        self.chain.send(self.responder.due(snapshot, job(logs=LOGS), self.group, self.replay))
        contract = self.contracts.data_availability
        return [place for call in self.chain.calls[before:] for place in self.chain.places(contract, call)]

    def attend(self, *requests: OpenRequest) -> list[Place]:
        """Return the places that it answers once it has computed all it can."""
        self.chain.ask(*requests)
        first = self.round()
        self.rest()
        return first + self.round()

    def rest(self) -> None:
        self.responder._answers._thread.submit(int).result()


@pytest.fixture
def claimant(tmp_path: Path) -> Claimant:
    return Claimant(tmp_path)


def record(root: bytes, node: int, life: int = 3, until: int = NOW) -> OpenRequest:
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
    assert not claimant.chain.calls


def test_late_pages_of_the_logs_are_closed(claimant: Claimant) -> None:
    """In any life of our root."""
    page = Place(Piece.DIGESTS, 1, 0)
    claimant.chain.ask(OpenRequest(LOGS, page, ME, 0, NOW - 1, 0, 10**9))
    claimant.round()
    assert [call.action for call in claimant.chain.calls] == ["close"]


def test_no_turn_of_the_loop_waits_for_what_is_computed(claimant: Claimant) -> None:
    """While the run computes for another, the loop goes on."""
    claimant.chain.ask(record(claimant.group.root, 0))
    with claimant.replay.turns.move():
        assert claimant.round() == []
        assert claimant.round() == []
    claimant.rest()
    assert [place.node for place in claimant.round()] == [0]


def test_nothing_is_sent_again_while_it_is_on_its_way(claimant: Claimant) -> None:
    assert claimant.attend(record(claimant.group.root, 0))
    assert claimant.round() == []
    claimant.chain.mined()
    claimant.chain.number -= 1
    assert claimant.round() == [], "it is in a block that this endpoint does not have yet"


def test_what_is_mined_is_not_sent_again_before_its_block_counts(claimant: Claimant) -> None:
    """However many rounds that takes; another request meanwhile is answered."""
    root, places = claimant.group.root, claimant.attend(record(claimant.group.root, 0))
    claimant.chain.mined()
    claimant.chain.answered(places)
    for _ in range(12):
        assert claimant.round() == []
        claimant.chain.number += 1
    claimant.chain.open_before = [record(root, 0), record(root, 1)]
    claimant.chain.open_at_head = [record(root, 1)]
    claimant.round()
    claimant.rest()
    assert [place.node for place in claimant.round()] == [1]


def test_what_another_has_answered_is_not_answered(claimant: Claimant) -> None:
    root = claimant.group.root
    claimant.chain.ask(record(root, 0), record(root, 1))
    claimant.round()
    claimant.rest()
    claimant.chain.number += 1
    claimant.chain.answered([record(root, 0).place])
    assert [place.node for place in claimant.round()] == [1]


@pytest.mark.parametrize("hides", ["all", "one"])
def test_what_one_look_hides_is_computed_on(claimant: Claimant, hides: str) -> None:
    """The attack: the endpoint that serves hides a request now and then, for one look, and whatever was computed of its
    interval began once more, until the period was over."""
    root = claimant.group.root
    both = [record(root, 0), record(root, 1)]
    claimant.chain.ask(*both)
    claimant.round()
    claimant.rest()
    before = claimant.responder._answers._jobs[1].ready
    assert len(before) == 2
    claimant.chain.doubt = True
    claimant.chain.open_before = [] if hides == "all" else [record(root, 1)]
    assert [place.node for place in claimant.round()] == ([] if hides == "all" else [1]), (
        "what is shown is sent"
    )
    assert claimant.responder._answers._jobs[1].wanted.keys() == before.keys()
    look = claimant.chain.view(10, [])
    claimant.responder.let_go(look, 1)
    assert claimant.responder._answers._jobs[1].ready.keys() == before.keys(), "nothing of it is lost"
    claimant.chain.doubt = False
    claimant.responder._confirmer = Confirmer()
    claimant.responder.let_go(look, 1)
    assert not claimant.responder._answers._jobs, "others confirm that nothing is asked"


def test_what_one_look_makes_up_comes_after_what_is_shown_and_is_few(
    claimant: Claimant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: one look shows requests that nobody has made, with earlier deadlines, or thousands, and then the
    endpoint is silent, so that nobody can confirm that they are not there."""
    root, asked = claimant.group.root, list[dict[Any, int]]()

    def ask(_job: int, _replay: Replay, wanted: dict[Any, int]) -> dict[Any, Any]:
        asked.append(wanted)
        return {}

    monkeypatch.setattr(claimant.responder._answers, "ask", ask)
    real = record(root, 1, until=NOW + 9)
    made_up = [
        record(root, 0, until=NOW + 1),
        *(record(root, node, until=NOW + 2) for node in range(2, 3000)),
    ]
    claimant.chain.doubt = True
    claimant.chain.ask(real, *made_up)
    claimant.round()
    claimant.chain.ask(real)
    for _ in range(3):
        claimant.round()
        assert min(asked[-1], key=lambda key: asked[-1][key])[1] == real.place, (
            "what is shown is computed first"
        )
        assert len(asked[-1]) == 1 + MAX_HIDDEN
        assert claimant.responder._wanted[1][root, made_up[0].place] == NOW + 1, "no longer than it says"


def test_what_a_reorganisation_takes_back_is_sent_again(claimant: Claimant) -> None:
    places = claimant.attend(record(claimant.group.root, 0))
    claimant.chain.mined()
    claimant.chain.answered(places)
    assert claimant.round() == []
    claimant.chain.number += 1
    claimant.chain.open_at_head = claimant.chain.open_before
    assert claimant.round() == places


def test_after_a_restart_answers_wait_for_what_is_open(claimant: Claimant) -> None:
    """It may be the same answers."""
    claimant.attend(record(claimant.group.root, 0))
    claimant.restart()
    assert claimant.attend(record(claimant.group.root, 0)) == []
    claimant.chain.mined()
    assert [place.node for place in claimant.round()] == [0], "it was something else"


def test_after_a_restart_answers_wait_for_nothing_that_is_none(claimant: Claimant) -> None:
    """A move whose number is used may be open for hours, until Geth has indexed what was mined."""
    claimant.chain.send([Due(Call("move", "0x" + "22" * 20, b"\1"), sent=lambda _: None)])
    claimant.restart()
    assert [place.node for place in claimant.attend(record(claimant.group.root, 0))] == [0]


def test_one_transaction_at_a_time_is_on_its_way(claimant: Claimant) -> None:
    """A move of a match waits behind no more than that."""
    root = claimant.group.root
    claimant.chain.ask(
        *(
            OpenRequest(root, Place(Piece.LEAF, 0, 0, 256, (1 << 40) + k), ME, 3, NOW + k, 0, 10**9)
            for k in range(512)
        )
    )
    claimant.round()
    claimant.rest()
    found, rounds = list[Place](), 0
    while left := claimant.round():
        assert claimant.round() == []
        assert len(claimant.chain.calls[-1].data) <= MAX_BATCH_BYTES
        claimant.chain.mined()
        claimant.chain.answered(left)
        found, rounds = found + left, rounds + 1
    assert [place.part - (1 << 40) for place in found] == list(range(512))
    assert 1 < rounds < 74
    assert TERMS.steps, "and the interval was computed once: test_answers.py"


def test_what_the_contract_refuses_by_now_spoils_no_batch(claimant: Claimant) -> None:
    root, asked = claimant.group.root, list[Call]()

    def refused(call: Call) -> None:
        asked.append(call)
        if any(
            place.node == 1 for place in claimant.chain.places(claimant.contracts.data_availability, call)
        ):
            raise Reverted("provideRecord", "NoSuchRequest")

    claimant.chain.simulate = refused  # type: ignore[method-assign]
    requests = [record(root, node) for node in range(3)]
    assert [place.node for place in claimant.attend(*requests)] == [0, 2]
    assert len(asked) == 5, "the batch, its halves, and those of the half with the one that is closed"


def test_a_batch_is_tried_as_one(claimant: Claimant) -> None:
    """Attack: 64 pieces are requested, and the loop asks the endpoint once for each of their answers."""
    asked = list[Call]()
    claimant.chain.simulate = asked.append  # type: ignore[assignment, method-assign]
    assert len(claimant.attend(*(record(claimant.group.root, node) for node in range(3)))) == 3
    assert len(asked) == 1


def test_what_has_no_receipt_is_not_sent_again_where_a_block_behind_it_serves(claimant: Claimant) -> None:
    """The attack: one backend of an endpoint says that the number is used, another shows blocks before that."""
    places = claimant.attend(record(claimant.group.root, 0))
    claimant.chain.used |= dict.fromkeys(claimant.chain.open(), claimant.chain.number + 1)
    assert claimant.round() == []
    claimant.chain.number += 1
    claimant.chain.answered(places)
    assert claimant.round() == []


@pytest.mark.parametrize("restarts", [False, True])
def test_answers_wait_for_no_receipt(claimant: Claimant, restarts: bool) -> None:
    """The attack: a second request, while an endpoint shows receipts a verdict period after their blocks."""
    root = claimant.group.root
    places = claimant.attend(record(root, 0))
    if restarts:
        claimant.restart()
    claimant.chain.ask(record(root, 0), record(root, 1))
    claimant.round()
    claimant.rest()
    assert claimant.round() == [], "it is on its way"
    claimant.chain.number += 1
    claimant.chain.used |= dict.fromkeys(claimant.chain.open(), claimant.chain.number)
    claimant.chain.answered(places)
    assert [place.node for place in claimant.round()] == [1]
