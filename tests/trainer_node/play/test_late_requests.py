"""The late requests that a node closes, and how rarely it reads the requests for that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from referee_py.availability import Piece, Place
from referee_py.availability.prices import deposit_of
from trainer_node.chain import Call, ClaimView, Contracts, Group, JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger, OpenRequest, request_call
from trainer_node.play.late_requests import Closer

from ..chain.endpoint import DEPLOYMENT
from ..chain.test_client import LIED_RUN, RUN, Town
from ..desk import Sent, job, rules

RIGHT, WRONG = b"\1" * 32, b"\2" * 32
OTHER = "0x" + "bb" * 20
NOW, PERIOD = 5000, 1000
WAITS = Group(1, WRONG, b"", 0, 1, 1, 0, (1, 2))
"""The liars' group, in the second life of its root."""
LIARS = job(
    phase=JobPhase.CHALLENGE,
    rules=replace(rules(), verdict_period=PERIOD),
    waiting=1,
    groups=(Group(0, RIGHT, b"", 0, 1, 1, 0, (0,)), WAITS),
)


class Chain:
    """The requests in the job, and a count of how often they were read."""

    def __init__(self) -> None:
        self.requests: list[OpenRequest] = []
        self.now, self.read = NOW, 0

    def pending(self, _job: JobView, _group: Group) -> int:
        return len(self.requests)

    def ledger(self, _job: JobView) -> Ledger:
        self.read += 1
        return Ledger(open={(request.root, request.place): request for request in self.requests})


class Room:
    """A node that has found the right result."""

    def __init__(self) -> None:
        self.chain, self.sent = Chain(), Sent()
        self.contracts = Contracts(Web3(), DEPLOYMENT)
        self.closer = Closer(self.contracts, self.sent.address)

    def attend(self, about: JobView = LIARS, right: bytes = RIGHT) -> list[int]:
        """Return the nodes whose record requests it closes."""
        self.sent.calls.clear()
        snapshot: Any = self.chain
        self.sent.send(self.closer.due(snapshot, about, right))
        contract = self.contracts.data_availability
        return [place.node for call in self.sent.calls for place in self.sent.places(contract, call)]


@pytest.fixture
def room() -> Room:
    return Room()


def record(node: int, until: int, *, root: bytes = WRONG, life: int = 2, who: str = OTHER) -> OpenRequest:
    return OpenRequest(root, Place(Piece.RECORD, 0, node), who, life, until, 0, 10**9)


def test_one_late_request_is_closed_the_first(room: Room) -> None:
    room.chain.requests = [record(0, NOW), record(1, NOW - 1), record(2, NOW - 2), record(3, NOW - 1)]
    assert room.attend() == [2]


def test_a_request_of_our_own_comes_first(room: Room) -> None:
    """Half of the stakes goes to the requester of what is closed. An address may be written in either case."""
    room.chain.requests = [record(0, NOW - 2), record(1, NOW - 1, who="0x" + "AA" * 20)]
    assert room.attend() == [1]


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(record(0, NOW), id="in time"),
        pytest.param(record(0, NOW - 1, life=1), id="of a former life"),
        pytest.param(record(0, NOW - 1, root=RIGHT), id="of a group that plays"),
    ],
)
def test_what_nobody_loses_by_is_left(room: Room, left: OpenRequest) -> None:
    room.chain.requests = [left]
    assert room.attend() == []


def test_requests_for_a_root_that_we_claim_are_left_whatever_is_at_hand(room: Room) -> None:
    """After a restart a refutation may be back before the run that we claim."""
    room.chain.requests = [record(0, NOW - 1)]
    mine = ClaimView(2, room.sent.address.upper().replace("X", "x"), 1, 1, False, False, False, "")
    assert room.attend(replace(LIARS, claims=(mine,)), right=b"\3" * 32) == []
    assert room.attend(replace(LIARS, claims=(replace(mine, owner=OTHER[:-1] + "c"),)), right=b"\3" * 32) == [
        0
    ]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"waiting": 0}, id="what is right waits"),
        pytest.param({"waiting": None}, id="nobody waits"),
        pytest.param({"waiting": 7}, id="an endpoint says that nobody's group waits"),
        pytest.param({"groups": (LIARS.groups[0], replace(WAITS, spokesman=2))}, id="the group is dead"),
        pytest.param({"phase": JobPhase.ACCEPTED}, id="the job is over"),
    ],
)
def test_nothing_is_read_where_nothing_can_be_lost(room: Room, changes: dict[str, Any]) -> None:
    room.chain.requests = [record(0, NOW - 1), record(1, NOW - 1, root=RIGHT)]
    assert room.attend(replace(LIARS, **changes)) == []
    assert room.chain.read == 0


def test_nothing_is_read_where_nothing_is_requested(room: Room) -> None:
    assert room.attend() == []
    assert room.chain.read == 0


def test_the_ledger_is_read_again_when_something_may_be_late(room: Room) -> None:
    room.chain.requests = [record(0, NOW + 10), record(1, NOW + 20)]
    for now in range(NOW, NOW + 11):
        room.chain.now = now
        assert room.attend() == []
    assert room.chain.read == 1
    room.chain.now = NOW + 11
    assert room.attend() == [0]
    assert room.chain.read == 2


def test_the_ledger_is_read_once_a_verdict_period_at_least(room: Room) -> None:
    """A request made after the reading becomes late that much later, after those that were open then."""
    room.chain.requests = [record(0, NOW + 5 * PERIOD)]
    assert room.attend() == []
    room.chain.requests.append(record(1, NOW + PERIOD))
    room.chain.now = NOW + PERIOD
    assert room.attend() == []
    assert room.chain.read == 1
    room.chain.now = NOW + PERIOD + 1
    assert room.attend() == [1]


def test_the_ledger_is_read_again_in_another_life(room: Room) -> None:
    room.chain.requests = [record(0, NOW + 10)]
    assert room.attend() == []
    room.chain.requests = [record(0, NOW - 1, life=3)]
    again = replace(WAITS, deaths=2, spokesman=2, members=(1, 2, 3))
    assert room.attend(replace(LIARS, groups=(LIARS.groups[0], again))) == [0]


def test_the_contracts_take_it_and_the_liar_loses(anvil, tmp_path: Path) -> None:
    town = Town(anvil.url, anvil.keys[:4], tmp_path)
    job_id = town.post(slots=1)
    liar, watcher = town.people[2:4]
    town.claim(job_id, (liar, LIED_RUN, "http://two"))
    place, snapshot = Place(Piece.RECORD, 0, 0), town.client.snapshot()
    deposit = deposit_of(Piece.RECORD, 10**9)
    made = request_call(town.contracts.subject(job_id, LIED_RUN.root), [place])
    town.people[1].send(Call.batch(town.contracts.data_availability, made, value=deposit))
    closer = Closer(town.contracts, watcher.address)

    def lost() -> bool:
        snapshot = town.client.snapshot()
        for due in closer.due(snapshot, snapshot.job(job_id), RUN.root):
            watcher.send(due.call)
        return town.client.snapshot().job(job_id).claims[0].lost

    period = snapshot.job(job_id).rules.verdict_period
    assert not lost()
    town.rpc("evm_increaseTime", period + 2)
    town.rpc("evm_mine")
    assert lost()
    owed = town.client.snapshot().credits(town.people[1].address)
    assert sum(wei for _, wei in owed) == deposit + town.stake // 2
