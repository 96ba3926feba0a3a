"""No transaction of a round waits for the block of another one: who lets a node act in many jobs at once would decide
how late it is in one of them (docs/decisions.md, record 194)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.jobs import Rules
from referee_py.panel.state import HearingPhase
from trainer_node.chain import Call
from trainer_node.daemon.due import Due
from trainer_node.daemon.helping import GasBudget
from trainer_node.daemon.job_turns import Sender
from trainer_node.errors import InsufficientFunds, Reverted
from trainer_node.limits.waits import MINED_S
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

from ..courtroom import KEY, Court
from ..desk import until
from ..slow import Hand

ME = "0x" + "aa" * 20
BLOCK_S = 12.0


class Blocks:
    """An account whose transactions are mined in the next block; of those that are ``stuck``, in none."""

    def __init__(self, clock: Hand) -> None:
        self.clock, self.done = clock, list[str]()
        self.sent = list[str]()
        self.stuck = set[str]()
        self.mined = 0

    def gas_cost(self, _: Call) -> int:
        return 800

    def submit(self, call: Call) -> int:
        if call.action == "refused":
            raise Reverted("refused", "revert", {}, b"")
        if call.action == "poor":
            raise InsufficientFunds("no ether")
        if call.action in self.stuck and call.action in self.sent:
            return self.sent.index(call.action) + 1
        self.done.append(f"send {call.action}")
        self.sent.append(call.action)
        return len(self.sent)

    def wait_all(self, numbers: list[int], *, timeout_s: float) -> Any:
        self.done.append("wait")
        stuck = [number for number in numbers if self.sent[number - 1] in self.stuck]
        if stuck:
            self.clock.now += timeout_s
        elif max(numbers) > self.mined:
            self.clock.now += min(BLOCK_S, timeout_s)
            self.mined = len(self.sent)
        return {n: SimpleNamespace(gas_used=100, gas_price=7) for n in numbers if n not in stuck}


@pytest.fixture
def blocks(clock: Hand) -> Blocks:
    return Blocks(clock)


def sender(blocks: Any, limit: int | None = 0) -> Sender:
    return Sender(blocks, Reserve(lambda: 1, list), GasBudget(Database(None), limit), blocks.clock)


def due(action: str, **how: Any) -> Due:
    return Due(Call(action, ME, b""), **how)


def test_all_is_sent_before_anything_is_waited_for(blocks: Blocks, clock: Hand) -> None:
    sends, began = sender(blocks), clock.now
    for number in range(30):
        sends.send(due(f"vote {number}"))
    sends.send(due("last"))
    assert clock.now == began
    sends.finish()
    assert [act.split()[0] for act in blocks.done] == ["send"] * 31 + ["wait"]
    assert clock.now - began == BLOCK_S, "one block has them all"


def test_a_round_waits_for_all_its_transactions_together(blocks: Blocks, clock: Hand) -> None:
    sends, began = sender(blocks), clock.now
    blocks.stuck.update(map(str, range(5)))
    outcomes = list[Any]()
    sends.begin()
    for number in range(5):
        sends.send(due(str(number), then=outcomes.append))
    sends.finish()
    sends.send(due("5", then=outcomes.append))
    blocks.stuck.add("5")
    sends.finish()
    assert clock.now - began <= MINED_S
    assert not outcomes, "nobody knows yet"
    assert blocks.done.count("wait") == 1, "all are looked at, however long, at the next begin"
    assert set(sends.failed) == blocks.stuck
    sends.begin()
    assert not sends.failed
    blocks.stuck.clear()
    sends.finish(waits=False)
    assert len(outcomes) == 6, "each is told once, also in a later round"
    sends.finish()
    assert len(outcomes) == 6


def test_what_follows_is_told_once_it_is_mined(blocks: Blocks) -> None:
    sends, outcomes = sender(blocks), list[Any]()
    sends.send(due("first", then=outcomes.append))
    assert not outcomes
    sends.finish()
    assert [receipt.gas_used for receipt in outcomes] == [100]
    for action in ("refused", "poor"):
        sends.send(due(action, then=outcomes.append))
    assert outcomes[1:] == [None, None], "nothing was sent"


def test_help_of_one_round_is_paid_for_once(blocks: Blocks) -> None:
    """800 wei each are expected, 700 are used: three fit into 2,400 before any of them is mined, and three into 2,100
    after."""
    sends = sender(blocks, 2400)
    for number in range(5):
        sends.send(due(str(number), helps=1))
    assert blocks.sent == ["0", "1", "2"]
    sends.finish()
    sends.send(due("5", helps=1))
    assert blocks.sent == ["0", "1", "2"], "2,100 are spent"


def test_help_that_is_open_is_paid_for_once(blocks: Blocks) -> None:
    """The same call is decided again in each round until it is mined, and is the same transaction."""
    sends = sender(blocks, 2400)
    blocks.stuck.add("0")
    for _ in range(3):
        sends.begin()
        sends.send(due("0", helps=1))
        sends.finish()
    assert blocks.sent == ["0"]
    blocks.stuck.clear()
    sends.finish()
    for number in (1, 2, 3):
        sends.send(due(str(number), helps=1))
    assert blocks.sent == ["0", "1", "2"], "700 and twice 800"


@pytest.mark.parametrize("number", [1, 30])
def test_votes_in_jobs_of_others_hold_up_no_stand(court: Court, number: int) -> None:
    """The attack: a client with a short appeal period overrules a verdict, and opens hearings in jobs with lower
    numbers in the same block."""
    court.node.settings.latency_s, court.node.settings.mined_s = 72.0, 13.0
    uri = court.jobs[0].uri
    court.jobs.clear()
    court.heard.clear()
    long, short = Rules(1, 6 * 3600, 24 * 3600, 24 * 3600), Rules(1, 6 * 3600, 300, 24 * 3600)
    strangers = [court.add(uri, rules=long) for _ in range(number)]
    ours = court.add(uri, rules=short)
    court.removed |= set(strangers)  # their hearings are not open yet
    assert until(court.tick) == [ours]
    vote = KEY.address, court.right.hash()
    verdict = {"verdict": vote[1], "votes": (vote,), "voters": (KEY.address,)}
    court.now_is(ours, phase=HearingPhase.RULED, until=1300, **verdict)
    for _ in range(3):
        court.tick()
    court.now_is(ours, phase=HearingPhase.DEFENCE, until=1301)
    for match in strangers:
        court.now_is(match, until=1001 + 6 * 3600)
    court.removed -= set(strangers)

    def stands() -> bool:
        court.moved.clear()
        court.waited.clear()
        court.tick()
        return "stand" in court.moved

    assert until(stands)
    assert min(court.waited, default=len(court.moved)) > court.moved.index("stand"), (
        "no vote was waited for before"
    )
