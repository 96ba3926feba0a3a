"""Attack: an endpoint says in one look that a job with our stake has ended, or that we do not watch it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.execute import RunClaim
from referee_py.watch import WatcherState
from tests.trainer_node.desk import REFEREE, challenged, job
from tests.trainer_node.roles.member import ME, member
from tests.trainer_node.slow import Hand
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.daemon.job_turns import Turn
from trainer_node.errors import NotAsked, RpcUnavailable
from trainer_node.play.ends import CONFIRM_S, Ends
from trainer_node.roles.participant import Participant
from trainer_node.roles.watcher import Watcher
from trainer_node.stake.gas_patience import Market
from trainer_node.stake.reserved_ether import Reserve

ROOT = b"\1" * 32


class Look:
    """A snapshot that others confirm, or not."""

    block = SimpleNamespace(number=1, base_fee=0)
    now = 10

    def __init__(self, *, true: bool, state: WatcherState = WatcherState.COMMITTED) -> None:
        self.true, self.asked = true, 0
        self.watcher = lambda *_: SimpleNamespace(state=state, found=b"")

    def confirm(self, *, hurried: bool) -> None:
        assert hurried
        self.asked += 1
        if not self.true:
            raise RpcUnavailable("two endpoints show another state")


def test_an_end_for_which_there_was_no_time_is_asked_for_again_at_once() -> None:
    """Attack: who has answers confirmed once a minute, first of all, keeps every end from being asked for."""
    ends, look, busy = Ends(Hand()), Look(true=True), [True]
    true = look.confirm

    def confirm(*, hurried: bool) -> None:
        if busy:
            busy.pop()
            raise NotAsked("endpoints are slow")
        true(hurried=hurried)

    look.confirm = confirm  # type: ignore[method-assign]
    assert [ends.believed(look, 1) for _ in range(2)] == [False, True]  # type: ignore[arg-type]


def test_an_end_is_asked_for_once_a_minute_until_it_is_confirmed_and_then_not_again() -> None:
    clock = Hand()
    ends, lie, truth = Ends(clock), Look(true=False), Look(true=True)
    for _ in range(3):
        assert not ends.believed(lie, 1)  # type: ignore[arg-type]
    assert lie.asked == 1
    clock.on(CONFIRM_S)
    assert ends.believed(truth, 1)  # type: ignore[arg-type]
    assert ends.believed(lie, 1)  # type: ignore[arg-type]
    ends.back(1)
    assert not ends.believed(lie, 1)  # type: ignore[arg-type]
    assert (lie.asked, truth.asked) == (2, 1)


@pytest.mark.parametrize("true", [False, True])
def test_a_job_with_our_stake_stays_ours_until_its_end_is_confirmed(tmp_path: Any, true: bool) -> None:
    node = member(tmp_path)
    node.reserve, held = Reserve(lambda: 1, list), list[bool]()
    node.keeper.stake = lambda _, of: held.append(of)
    node.market = lambda _: Market(0, 0)
    node.duties.staked, node.duties.knows = lambda *_: None, lambda _: True
    forgotten = list[int]()
    runner: Any = SimpleNamespace(
        works_at=lambda _: False,
        is_another=lambda _: False,
        forget=forgotten.append,
        found=lambda _: [],
        known=lambda _: None,
    )
    role = Participant(node, runner, lambda *_: ([], None))
    mine = ClaimView(0, ME, 10**18, 0, False, False, False, "")
    groups = (Group(0, ROOT, b"", 0, 0, 0, 0, (0,)),)
    runs = job(1, phase=JobPhase.CHALLENGE, challenge_end=10**6, claims=(mine,), groups=groups)
    over = job(1, phase=JobPhase.UNCLAIMED)

    def concerns(of: JobView, look: Look) -> bool:
        return role.turns(look, of)[0]  # type: ignore[arg-type]

    assert concerns(runs, Look(true=True))
    kept = node.reserve.kept(1)
    assert kept
    assert concerns(over, Look(true=true)) is not true
    assert bool(forgotten) is true
    assert (node.reserve.kept(1) == kept) is not true
    assert held == [True, False] if true else [True]


@pytest.mark.parametrize("true", [False, True])
def test_a_hearing_has_its_turns_though_the_end_is_not_confirmed(tmp_path: Any, *, true: bool) -> None:
    """With one of two endpoints down nobody ever confirms it, and a bond waits in the hearing."""
    node, own, helped = member(tmp_path), RunClaim(ROOT, b"", ()), list[int | None]()
    node.reserve = Reserve(lambda: 1, list)
    node.market = lambda _: Market(0, 0)
    node.duties.staked, node.duties.knows = lambda *_: None, lambda _: True
    runner: Any = SimpleNamespace(
        is_another=lambda _: False, known=lambda _: own, found=lambda _: [], works_at=lambda _: False
    )
    role: Any = Participant(node, runner, lambda *_: ([], own))
    hearing = SimpleNamespace(match_id=7)

    def turns(_snapshot: Any, _job: Any, results: Any, hearings: Any, unread: Any, helps: Any) -> list[Turn]:
        helped.append(helps)
        assert (results, unread) == ([own], set())
        return [Turn(f"hearing {one.match_id}", list) for one in hearings]

    role._disputes = SimpleNamespace(
        note=lambda *_: None, hearings=lambda *_, ours: ([hearing], {}) if ours else ([], {}), turns=turns
    )
    mine = ClaimView(0, ME, 10**18, 0, False, False, False, "")
    groups = (Group(0, ROOT, b"", 0, 0, 0, 0, (0,)),)
    runs = job(1, phase=JobPhase.CHALLENGE, challenge_end=10**6, claims=(mine,), groups=groups)
    role.turns(Look(true=true), runs)
    look = Look(true=true)
    concerned, due = role.turns(look, replace(runs, phase=JobPhase.ACCEPTED))
    assert (concerned, look.asked) == (True, 1)
    assert "hearing 7" in [turn.of for turn in due]
    assert helped == [None, 1], "what is left of the job is no reason to pay for others"


def test_a_stake_is_collected_though_the_end_is_not_confirmed(tmp_path: Any) -> None:
    """Endpoints may disagree for ever; and a job that runs refuses to pay."""
    node = member(tmp_path)
    node.reserve = Reserve(lambda: 1, list)
    node.keeper.stake, node.market = lambda *_: None, lambda _: Market(0, 0)
    node.duties.staked, node.duties.knows = lambda *_: None, lambda _: True
    runner: Any = SimpleNamespace(is_another=lambda _: False, forget=lambda _: None, known=lambda _: None)
    role: Any = Participant(node, runner, lambda *_: ([], None))
    asked = list[JobView]()
    role._refund = lambda _, of, __: asked.append(of)
    mine = ClaimView(0, ME, 10**18, 0, False, False, False, "")
    groups = (Group(0, ROOT, b"", 0, 0, 0, 0, (0,)),)
    runs = job(1, phase=JobPhase.CHALLENGE, challenge_end=10**6, claims=(mine,), groups=groups)
    over = replace(runs, phase=JobPhase.ACCEPTED)
    role.turns(Look(true=True), runs)
    assert not asked
    assert role.turns(Look(true=False), over)[0]
    assert asked == [over]


@pytest.mark.parametrize("state", [WatcherState.NONE, WatcherState.COLLECTED])
@pytest.mark.parametrize("true", [False, True])
def test_a_watcher_shows_its_root_whatever_one_look_says(
    tmp_path: Any, state: WatcherState, true: bool
) -> None:
    class Contract:
        address = "0x" + "11" * 20

        def encode_abi(self, function: str, _: Any) -> str:
            return "0x" + function.encode().hex()

    account: Any = SimpleNamespace(address=ME, sign_message=lambda _: SimpleNamespace(signature=b"\1" * 65))
    node = member(tmp_path)
    contracts = SimpleNamespace(watch=Contract(), bounty=lambda *_: ())
    node.client = SimpleNamespace(
        contracts=contracts, deployment=SimpleNamespace(chain_id=1, referee=REFEREE)
    )
    runner: Any = SimpleNamespace(train=lambda *_, **__: RunClaim(ROOT, b"", ()))
    watcher = Watcher(node, SimpleNamespace(address=ME, account=account), runner)  # type: ignore[arg-type]
    of = challenged(1, [(ROOT, "")], 1000)
    assert watcher.due(Look(true=True), of), "it shows its root"  # type: ignore[arg-type]
    assert watcher.due(Look(true=true, state=state), of) == (None if true else [])  # type: ignore[arg-type]
    later = watcher.due(Look(true=True), of)  # type: ignore[arg-type]
    assert bool(later) is not true
    assert watcher.watches(of) is not true
