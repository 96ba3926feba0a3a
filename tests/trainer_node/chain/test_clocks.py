"""Clocks that a guardian stops: the time that nodes take as now, and the progress of a match meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from referee_py.game.state import Phase, Reveal, Timeout
from referee_py.walk.pauses import Pause, contract_time
from referee_py.walk.reason import Reason
from tests.conftest import Anvil, undone
from trainer_node.chain import Deployment, reader
from trainer_node.chain.codec.clock import Pauses
from trainer_node.chain.events import Event
from trainer_node.chain.outbox import Call
from trainer_node.chain.retrace import recorded, retrace
from trainer_node.errors import Reverted, RpcCorrupt, RpcUnavailable
from trainer_node.operate.deploy_defaults import NOBODY

from .endpoint import Endpoint, result
from .test_client import RUN, Town

BUDGET = 500


@pytest.fixture(scope="module")
def deployment(module_anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("town")
    return Town(module_anvil.url, module_anvil.keys[:4], folder, pause_budget=BUDGET).client.deployment


@pytest.fixture
def town(module_anvil: Anvil, deployment: Deployment, tmp_path: Path) -> Iterator[Town]:
    town = Town(module_anvil.url, module_anvil.keys[:4], tmp_path, deployment=deployment)
    with undone(town.web3):
        yield town


def turn(town: Town, function: str, person: int = 0) -> None:
    town.people[person].send(Call.of(town.contracts.timekeeper, function))


def wait(town: Town, seconds: int) -> None:
    town.rpc("evm_increaseTime", seconds)
    town.rpc("evm_mine")


def test_now_is_what_the_contracts_call_it(town: Town) -> None:
    first = town.client.snapshot()
    assert first.now == first.block.timestamp
    keeper = first.timekeeper()
    assert (keeper.guardian, keeper.budget, keeper.left, keeper.paused_until) == (
        town.people[0].address,
        BUDGET,
        BUDGET,
        0,
    )
    turn(town, "pause")
    stopped = town.client.snapshot()
    wait(town, 100)
    later = town.client.snapshot()
    assert (later.now, later.block.timestamp - stopped.block.timestamp >= 100) == (stopped.now, True)
    assert later.timekeeper().paused_until == stopped.block.timestamp + BUDGET
    turn(town, "resume")
    wait(town, 10)
    turn(town, "pause")
    wait(town, BUDGET)  # longer than the rest of the budget: the clocks start again by themselves
    snapshot = town.client.snapshot()
    keeper = snapshot.timekeeper()
    assert (keeper.left, keeper.paused_until) == (0, 0)
    assert snapshot.block.timestamp - snapshot.now == BUDGET
    with pytest.raises(Reverted, match="BudgetSpent"):
        turn(town, "pause")
    for number in range(snapshot.block.number + 1):
        if number > town.client.deployment.block + 3:  # the contracts exist
            assert snapshot.instant(number) == town.client.at(number).now, number


def test_the_guardian_alone_turns_the_clocks(town: Town, module_anvil: Anvil, tmp_path: Path) -> None:
    with pytest.raises(Reverted, match="NotGuardian"):
        turn(town, "pause", person=1)
    with pytest.raises(Reverted, match="NotPaused"):
        turn(town, "resume")
    other = Town(module_anvil.url, module_anvil.keys[4:8], tmp_path / "other", guardian=NOBODY)
    with pytest.raises(Reverted, match="NotGuardian"):
        turn(other, "pause")


def test_a_match_in_a_pause_is_read_and_played_again(town: Town) -> None:
    job_id = town.post()
    town.claim_two(job_id)
    one = town.people[1]
    wait(town, 20)
    turn(town, "pause")
    wait(town, 200)
    before = town.match(job_id)
    with pytest.raises(Reverted, match="NotLate"):
        town.play(job_id, one, [Timeout()])
    town.play(job_id, one, [Reveal(0, tuple(RUN.leaves))])
    state = town.match(job_id).state
    assert before.state.tick <= state.tick == town.client.snapshot().now
    assert 20 <= 60 - state.clock[0] < 60, "charged for the time before the pause"
    turn(town, "resume")
    wait(town, 61)
    town.play(job_id, one, [Timeout()])
    match, snapshot = town.match(job_id), town.client.snapshot()
    assert (match.state.phase, match.state.losers, match.state.reason) == (Phase.DONE, 0b10, Reason.TIMEOUT)
    job = snapshot.job(job_id)
    assert retrace(snapshot, job, match.id) == recorded(snapshot, job, match.id)


def event(name: str, **args: int) -> Event:
    return Event(name, args, 1, b"", 0)


def test_pauses_are_read_from_events() -> None:
    events = [
        event("Paused", since=100, until=600),
        event("Resumed", instant=130, lost=30),
        event("Paused", since=130, until=600),
        event("Resumed", instant=150, lost=50),
        event("Paused", since=200, until=650),
    ]
    pauses = Pauses.of(events).found
    assert pauses == [Pause(100, 130), Pause(130, 150), Pause(200, 650)]
    assert [contract_time(pauses, at) for at in (99, 100, 120, 130, 151, 200, 649, 650, 651)] == [
        *(99, 100, 100, 100, 101, 150, 150, 150, 151)
    ]


@pytest.mark.parametrize(
    "events",
    [
        [event("Resumed", instant=5, lost=0)],
        [event("Paused", since=5, until=9), event("Paused", since=6, until=9)],
        [event("Paused", since=5, until=9), event("Resumed", instant=4, lost=0)],
        [event("Paused", since=5, until=9), event("Resumed", instant=9, lost=4)],
        [
            event("Paused", since=5, until=9),
            event("Resumed", instant=6, lost=1),
            event("Resumed", instant=7, lost=1),
        ],
    ],
)
def test_events_that_no_contract_gives_are_refused(events: list[Event]) -> None:
    with pytest.raises(RpcCorrupt):
        Pauses.of(events)


def test_an_endpoint_that_hides_a_pause_is_noticed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    turn(town, "pause")
    wait(town, 30)
    snapshot = town.client.snapshot()
    monkeypatch.setattr(reader, "read_events", lambda *_: iter(()))
    with pytest.raises(RpcCorrupt, match="the endpoint lacks events of pauses"):
        snapshot.instant(snapshot.block.number)


class Moving:
    """A block at 1000, and the contracts' time in each reading; the last one repeats."""

    def __init__(self, endpoint: Endpoint, *times: int) -> None:
        self.times, self.hash = list(times), "11"
        endpoint.answer = self._answer
        self.snapshot = endpoint.client().snapshot()

    def _answer(self, request: dict) -> tuple[int, bytes]:
        if request["method"] == "eth_getBlockByNumber":
            return 200, result(
                request, {"number": "0x5", "hash": "0x" + self.hash * 32, "timestamp": "0x3e8"}
            )
        said = self.times.pop(0) if len(self.times) > 1 else self.times[0]
        return 200, result(request, "0x" + said.to_bytes(32, "big").hex())


@pytest.mark.parametrize("times", [(1030, 1000), (1030, 1060, 990)])
def test_a_time_of_the_next_block_is_read_again(endpoint: Endpoint, times: tuple[int, ...]) -> None:
    """anvil gives such times if it mines while it is asked."""
    assert Moving(endpoint, *times).snapshot.now == times[-1]


def test_a_time_that_stays_after_the_blocks_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(RpcCorrupt, match="cannot say 1060 in a block at 1000"):
        _ = Moving(endpoint, 1030, 1060).snapshot.now


def test_the_time_of_a_block_that_was_replaced_is_an_outage(endpoint: Endpoint) -> None:
    moving = Moving(endpoint, 1030)
    moving.hash = "22"
    with pytest.raises(RpcUnavailable, match="block 5 was replaced"):
        _ = moving.snapshot.now


def test_a_time_after_the_blocks_is_refused(town: Town) -> None:
    snapshot = town.client.snapshot()
    wait(town, 30)
    keeper = town.client.deployment.addresses["Timekeeper"]
    # PUSH32 of an instant in 2100, MSTORE at 0, RETURN 32 bytes
    code = "0x7f" + (4102444800).to_bytes(32, "big").hex() + "60005260206000f3"
    town.rpc("anvil_setCode", keeper, code)
    assert snapshot.now <= snapshot.block.timestamp, "as it was in that block"
    town.rpc("evm_mine")
    with pytest.raises(RpcCorrupt, match="cannot say 4102444800"):
        _ = town.client.snapshot().now
