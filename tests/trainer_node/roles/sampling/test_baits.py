"""Attack: a lie of a least stake, refuted in a job whose terms just fit us, keeps us from the lies in all other jobs.

Its author pays once for each node, and the stake of the refutation stays in the job as long as that lasts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from tests.trainer_node.desk import REFEREE, challenged, rules
from trainer_node.chain import Call, ClaimView, Group, JobView
from trainer_node.daemon.due import Due
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.remembered import Remembered
from trainer_node.daemon.service import Daemon
from trainer_node.play.jobs import JobPlayer
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.sampling.decide import sampler_actions
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.refutation import Refuted
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.stake.admission import Means
from trainer_node.stake.deadlines import too_slow
from trainer_node.stake.duty_book import DutyBook
from trainer_node.stake.funds import kept, put_in, refuting, unopposed
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

DAY, ME, GWEI, ETHER = 24 * 3600, "0x" + "aa" * 20, 10**9, 10**18
QUICK = CostEstimate(0.001, 0.001, NO_TRIAL)
"""A job that takes this machine next to nothing: milliseconds of computing, on Ethereum with the default settings."""
STAKE_GAS = 46_496_000


class Node:
    """A sampler's account, with all that decides about its stakes."""

    def __init__(self, folder: Path, wei: int = 10**30, database: Database | None = None) -> None:
        settings = load_settings(
            chain_id=1, data_dir=folder / "s", mode=Mode.CHALLENGE, check="sample:0.5", block_s=12
        )
        self.settings, self.wei, self.database = settings, wei, database or Database(None)
        self.reserve = Reserve(lambda: 1, lambda: False)
        self.duties = DutyBook(self.database, self.reserve.jobs, Means.of(settings))
        self.transactions: Any = SimpleNamespace(free=lambda: self.wei, gas_cost=lambda _: GWEI)
        self.address = ME
        self.remembered = Remembered()
        self.client = SimpleNamespace(
            deployment=SimpleNamespace(referee=REFEREE),
            snapshot=lambda: SimpleNamespace(commit_age=lambda: 48),
        )
        runner: Any = SimpleNamespace(prepare=lambda _: QUICK, too_full=lambda *_, **__: None)
        self.acceptance = Acceptance(self, runner)  # type: ignore[arg-type]
        self.player: Any = object.__new__(JobPlayer)
        self.player.__dict__ |= {"_node": self, "_account": SimpleNamespace(address=ME)}

    def spare_for(self, job: int, yields: Any = ()) -> int:
        return Daemon.spare_for(self, job, yields)  # type: ignore[arg-type]

    def refutes(self, of: JobView) -> bool:
        """Return whether the lie in a job is refuted; if so, reserve what that takes, as `JobPlayer.refute` does."""
        lie = Refuted(
            b"\7" * 32,
            b"",
            (),
            bytes(32),
            against=of.groups[0].root,
            index=0,
            claimed=b"",
            computed=b"",
            siblings=(),
        )

        def affordable(wei: int, stakes: int) -> bool:
            return self.acceptance.affordable(of, wei, beside=stakes - 1, part=True)

        if not sampler_actions(of, ME, [lie], 0, affordable=affordable):
            return False
        self.player._reserve(of, refuting(of, lie.against).wanted)
        return True

    def claims(self, of: JobView) -> bool:
        """Return whether a challenger would claim the right root of a job."""
        return self.acceptance.affordable(of, of.stake_sent.wanted * 5 // 4)


def posted(number: int, clock: int, ether: float = 1.0, **changes: Any) -> JobView:
    """Return a job with a lie in it, in which a stake is so many ether."""
    of = challenged(number, [(bytes([number]) * 32, "")], 30 * DAY, rules=rules(clock))
    of = replace(of, rules=replace(of.rules, verdict_period=DAY, appeal_period=DAY), reveal_period=DAY)
    return replace(of, stake=int(ether * ETHER), verifiers=("0x" + "dd" * 20,), **changes)


def refuted(of: JobView, stake: int, *, lost: bool = False) -> JobView:
    """Return a job in which we have refuted the lie. ``lost``: it has lost against us."""
    lie, (ours, claim) = (
        of.groups[0],
        (Group(1, b"\7" * 32, bytes(32), 0, 0, 0, 0, (1,), refutes=0), of.claims[0]),
    )
    mine = ClaimView(1, ME, stake, 1, False, False, False, "")
    groups = (replace(lie, spokesman=int(lost)), ours)
    return replace(of, groups=groups, claims=(replace(claim, lost=lost), mine))


def least_clock(node: Node) -> int:
    settings = node.settings
    return next(
        clock
        for clock in range(60, 2 * DAY, 60)
        if too_slow(posted(1, clock), QUICK, settings.latency_s, 48, settings.mined_s) is None
    )


def test_a_bait_with_a_clock_just_long_enough_keeps_nobody_from_a_lie_that_earns_more(tmp_path: Path) -> None:
    node = Node(tmp_path)
    bait, other = posted(1, least_clock(node), 0.1), posted(2, 7 * DAY, 3.0)
    assert node.refutes(bait)
    with structlog.testing.capture_logs() as told:
        assert node.refutes(other), "a job with a clock of a week, in which a match takes milliseconds"
    assert [line["yield_to_it"] for line in told if line["event"] == "stake.others_yield"] == [[1]]
    assert (node.duties.yields(1), node.duties.yields(2)) == (True, False)
    assert (node.duties.rank(2), node.duties.rank(1)) == (0, 1), "it is attended to last"
    node.duties.over(2)
    assert not node.duties.yields(1)


def test_who_would_keep_us_from_a_lie_must_stake_more_than_its_prize(tmp_path: Path) -> None:
    clock = least_clock(Node(tmp_path))
    for bait, taken in ((0.79, True), (0.81, False)):
        node = Node(tmp_path)
        assert node.refutes(posted(1, clock, bait))
        assert node.refutes(posted(2, 7 * DAY, 2.0)) == taken, (
            "a prize is four tenths where verifiers are paid"
        )
    node = Node(tmp_path)
    assert node.refutes(posted(1, clock, 0.7))
    assert node.refutes(posted(2, clock, 0.7)) is False, (
        "their clocks are as short, and it earns less than the first"
    )


def test_many_baits_count_by_their_sum(tmp_path: Path) -> None:
    for count, taken in ((7, True), (9, False)):
        node = Node(tmp_path)
        clock = least_clock(node) * 10
        for number in range(1, count + 1):
            assert node.refutes(posted(number, clock, 0.1)), "by itself, or beside the others"
        # NOTE: a match of hours fits into none of their clocks.
        slow = CostEstimate(DAY / 100, DAY / 100, NO_TRIAL)
        node.acceptance._runner = SimpleNamespace(
            prepare=lambda _, slow=slow: slow, too_full=lambda *_, **__: None
        )  # type: ignore[assignment]
        assert node.refutes(posted(99, 30 * DAY, 2.0)) == taken


def test_what_yields_is_known_over_a_restart(tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    node = Node(tmp_path, database=database)
    assert node.refutes(posted(1, least_clock(node), 0.1))
    assert node.refutes(posted(2, 7 * DAY, 3.0))
    again = Node(tmp_path, database=database)
    assert (again.duties.yields(1), again.duties.yields(2)) == (True, False)
    assert not again.refutes(posted(3, 7 * DAY, 0.2)), "it earns less than the bait, and would come before it"
    assert again.refutes(posted(3, 7 * DAY, 0.3))
    database.close()


def test_a_challenger_claims_beside_a_bait_and_a_larger_claim_yields_to_no_small_lie(tmp_path: Path) -> None:
    node = Node(tmp_path)
    clock = least_clock(node)
    assert node.refutes(posted(1, clock, 0.1))
    assert node.claims(posted(2, 7 * DAY, 3.0)), "a match about the claim earns what the bait may lose"
    node = Node(tmp_path)
    mine = posted(1, clock, 5.0)
    assert node.claims(mine)
    node.player._reserve(mine, 5 * ETHER)
    assert not node.refutes(posted(2, 7 * DAY, 3.0))
    assert node.refutes(posted(2, 7 * DAY, 13.0)), "only one that earns more than it"


def test_a_slot_without_a_claim_yields_to_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    slot = posted(1, least_clock(node), 0.1)
    assert node.duties.refuses(slot, QUICK) is None
    node.duties.staked(1, 1, None)
    assert not node.refutes(posted(2, 7 * DAY, 1000.0))


def test_a_refutation_that_has_won_yields_first(tmp_path: Path) -> None:
    node, other = Node(tmp_path), posted(3, 7 * DAY, 3.0)
    open_, won = posted(1, 7 * DAY, 0.2), posted(2, 7 * DAY, 0.2)
    for of in (open_, won):
        assert node.refutes(of)
    for of in (refuted(open_, ETHER // 5), refuted(won, ETHER // 5, lost=True)):
        assert unopposed(of, ME) == (of.id == 2)
        node.duties.staked(of.id, 1, put_in(of, ME), idle=unopposed(of, ME))
    needed = refuting(other, other.groups[0].root).wanted + kept(
        other, ME, node.settings.fees.max_fee, more=1
    )
    node.wei = needed + 10 * ETHER // 5
    assert node.refutes(other)
    assert [node.duties.yields(number) for number in (1, 2, 3)] == [False, True, False]


# ---------------------------------------------------------------------- ether


def dear(number: int, low: int, high: int) -> JobView:
    """Return a job in which a unit of gas counts for so many gwei at least and at most."""
    of = posted(number, 7 * DAY, base_fee=GWEI, low_fee=low * GWEI, high_fee=high * GWEI, stake_gas=STAKE_GAS)
    return replace(of, stake=1)


def test_a_cheap_lie_keeps_no_more_ether_from_others_than_is_in_proportion(tmp_path: Path) -> None:
    """Of 120 ether it kept 116, with a stake of 0.19: its fee may rise a thousandfold."""
    node = Node(tmp_path, wei=120 * ETHER)
    bait = dear(1, 1, 1000)
    assert node.refutes(bait)
    assert node.reserve.kept(1) > 110 * ETHER, "as far as nothing else needs it"
    assert node.refutes(dear(2, 72, 150))
    assert not node.duties.yields(1), "ten times what may be lost in it is kept beside the other"
    assert node.spare_for(3) > 90 * ETHER


def test_where_the_ether_is_short_what_earns_more_comes_first_and_the_other_spends_none_of_it(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, wei=22 * ETHER)
    assert node.refutes(dear(1, 1, 3))
    node.wei = 21 * ETHER
    assert node.refutes(dear(2, 72, 150))
    assert node.duties.yields(1)
    loop: Any = object.__new__(Loop)
    loop._node = node
    move = Due(Call("move", ME, b"1"), dispute=True)
    appeal = Due(Call("appeal", ME, b"2", ETHER // 10), dispute=True)
    dearer = Due(Call("appeal", ME, b"3", 2 * ETHER), dispute=True)

    def spent(*dues: Due, job: int = 1) -> list[bytes]:
        return [due.call.data for due in loop._spared(job, dues)]

    node.wei = 30 * ETHER
    assert spent(move, appeal, dearer) == [b"1", b"2"], "a bond of two ether is more than the other earns"
    node.wei = 10 * ETHER
    assert spent(move, appeal, dearer) == []
    assert spent(move, appeal, dearer, job=2) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("more", [1, 3])
def test_without_an_attack_nothing_yields(tmp_path: Path, more: int) -> None:
    node = Node(tmp_path, wei=10**6 * ETHER)
    for number in range(1, 2 + more):
        assert node.refutes(posted(number, 7 * DAY, 1.0))
        node.duties.staked(number, 1, ETHER)
    assert not any(node.duties.yields(number) for number in range(1, 2 + more))
    assert kept(posted(1, 7 * DAY), ME, 1) > 0
