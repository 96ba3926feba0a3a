"""Waiting for cheaper gas: in matches, hearings and trials, with acts and withdrawals, and never for too long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from referee_py.gas_schedule import OSAKA
from referee_py.panel.state import HearingPhase
from referee_py.program.modes import Rounding
from trainer_node.chain import ClaimView, Group, JobPhase, JobView, Seat, Snapshot, Trainer
from trainer_node.chain.fees import GWEI
from trainer_node.daemon.withdrawals import Teller
from trainer_node.play.actions import JobAction, later
from trainer_node.play.data_requests import DataRequester
from trainer_node.play.jobs import JobPlayer
from trainer_node.roles.participant import Participant
from trainer_node.settings.sections import DAY_S
from trainer_node.settings.settings import load_settings
from trainer_node.stake import min_stake
from trainer_node.stake.gas_patience import (
    NONE,
    SHARE,
    Market,
    Patience,
    Slack,
    bearable,
    gas_market,
    reserve,
)

from ..desk import job
from ..hearing_room import BEGAN, Room
from ..hearing_room import CLOCK as TRIAL_CLOCK
from ..play.test_matches import POSTED, Table
from ..sent import moves_of_match
from .test_funds import STAKE_GAS, TERMS

CHEAP = Patience(fee=70, bears=100, patient_s=500)
DEAR = Patience(fee=80, bears=100, patient_s=500)
MATCH_CLOCK = 100
ME = "0x" + "aa" * 20


def test_what_is_sent_below_the_share_costs_no_more_than_that_share_of_the_prize() -> None:
    stake = min_stake.least_stake(37, OSAKA)
    assert bearable(stake, min_stake.least_stake(1, OSAKA)) == 37
    assert SHARE * 37 * min_stake.worst_gas(OSAKA) <= SHARE * stake / 2


def test_the_rule() -> None:
    assert not CHEAP.waits(Slack(1000, 1000))
    assert DEAR.waits(Slack(501, 1000))
    assert not DEAR.waits(Slack(500, 1000)), "the reserve is half of the time"
    busy = replace(DEAR, busy_s=100.0)
    assert reserve(1000, 100.0) == 700
    assert busy.waits(Slack(701, 1000))
    assert not busy.waits(Slack(700, 1000)), "and twice what is to be computed"
    assert not replace(DEAR, busy_s=250.0).waits(Slack(1000, 1000)), (
        "a clock that is only just enough is not waited away"
    )
    assert DEAR.waits(Slack(-499))
    assert not DEAR.waits(Slack(-500))
    assert not CHEAP.waits(Slack(-0))
    for never in (NONE, replace(DEAR, patient_s=0)):
        assert not never.waits(Slack(1000, 1000))
        assert not never.waits(Slack(-0))


# ---------------------------------------------------------------------- matches


def play(table: Table, now: int, patient: Patience, side: int = 0) -> list[str]:
    """Return the names of the moves that are sent."""
    group = Group(0, b"", b"", 1, 0, 0, 0, (0,))
    seat = Seat(table.match, side, True, group, group)
    look = cast(Snapshot, SimpleNamespace(now=now))
    found = [moves_of_match(due.call) for due in table.player.due(look, seat, table.replay, [], patient)]
    table.sent += found
    return [move.function for batch in found for move in batch]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_move_waits_until_gas_is_cheap_or_half_of_the_clock_is_left(table: Table) -> None:
    half = POSTED + MATCH_CLOCK // 2
    assert play(table, POSTED + 1, DEAR) == []
    assert play(table, half - 1, DEAR) == []
    assert play(table, half - 1, CHEAP) == ["reveal"]
    assert play(table, half, DEAR) == ["reveal"]


def test_what_waits_is_worked_out_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    tree = table.replay.run_tree

    def counted(*args: Any) -> Any:
        asked.append(args)
        return tree(*args)

    monkeypatch.setattr(table.replay, "run_tree", counted)
    assert play(table, POSTED + 1, DEAR) == []
    known = len(asked)
    assert known
    for now in (POSTED + 2, POSTED + 3):
        assert play(table, now, DEAR) == []
    assert len(asked) == known


def test_half_a_clock_is_half_of_what_the_job_gives_not_of_what_is_left(table: Table) -> None:
    """Otherwise each move would wait half of what the moves before it have left."""
    table.match = replace(table.match, state=replace(table.match.state, clock=(60, 100)))
    assert play(table, POSTED + 9, DEAR) == []
    assert play(table, POSTED + 10, DEAR) == ["reveal"]


def test_the_opponent_is_late_expect_a_timeout_at_leisure(table: Table) -> None:
    """A late side has lost, no matter when that is claimed."""
    assert play(table, POSTED + 1, CHEAP) == ["reveal"]
    table.accept()
    late = POSTED + MATCH_CLOCK + 1
    assert play(table, late, DEAR) == []
    assert play(table, late, CHEAP) == ["timeout"]
    assert play(table, late + DEAR.patient_s, DEAR) == ["timeout"]


# ---------------------------------------------------------------------- hearings and trials


def attend(room: Room, now: int, patient: Patience) -> list[Any]:
    """Return what is sent in one look."""
    snapshot: Any = SimpleNamespace(now=now, trial=lambda _hearing: room.trial_info())
    return room.take(room.hearing_player.due(snapshot, room.hearing, room.source(), patient))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_an_appeal_waits_for_half_of_its_period(room: Room) -> None:
    period = room.hearing.terms.rules.appeal_period
    until = BEGAN + period
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash(), until=until)
    assert attend(room, until - period // 2 - 1, DEAR) == []
    assert [move.function for move in attend(room, until - period // 2, DEAR)] == ["appeal"]
    assert [move.function for move in attend(room, BEGAN + 1, CHEAP)] == ["appeal"]


def test_what_follows_from_silence_waits_at_leisure(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash(), until=BEGAN + 100)
    assert attend(room, BEGAN + 100, DEAR) == []
    assert [move.function for move in attend(room, BEGAN + 100, CHEAP)] == ["proceed"]
    assert [move.function for move in attend(room, BEGAN + 100 + DEAR.patient_s, DEAR)] == ["proceed"]


def test_a_move_of_a_trial_waits_for_half_of_the_clock(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    half = BEGAN + TRIAL_CLOCK // 2
    assert attend(room, BEGAN + 1, DEAR) == []
    assert attend(room, half - 1, DEAR) == []
    assert len(attend(room, BEGAN + 1, CHEAP)) == 1
    assert len(attend(room, half, DEAR)) == 1


def test_a_trial_that_the_other_side_has_lost_is_ended_at_leisure(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    room.trial = replace(room.trial, clock=(2 * TRIAL_CLOCK, TRIAL_CLOCK))
    late = BEGAN + TRIAL_CLOCK + 1
    assert attend(room, late, DEAR) == []
    assert len(attend(room, late + DEAR.patient_s, DEAR)) == 1


# ---------------------------------------------------------------------- acts on jobs


RESULT: Any = SimpleNamespace(root=b"\1" * 32)
NOW = 5000


def staked(phase: JobPhase, **changes: Any) -> JobView:
    """Return a job in which a liar's claim has the stake for a fee of 100 wei, and we hold such a slot."""
    stake = 100 * STAKE_GAS
    claims = (ClaimView(0, "0x" + "bb" * 20, stake, 0, True, False, False, ""),)
    groups = (Group(0, b"\2" * 32, bytes(32), 0, 0, 0, 0, (0,)),)
    trainers = (Trainer(ME, False, stake, b"\3" * 32),)
    ends = {"commit_end": NOW + 600, "reveal_end": NOW + 600, "challenge_end": NOW + 600}
    made = {"phase": phase, "claims": claims, "groups": groups, "trainers": trainers, **ends}
    return job(**{**TERMS, **made, **changes})


def waits(found: JobView, act: JobAction, fee: int, now: int = NOW, commit_age: int = 0) -> bool:
    return later(found, ME, act, RESULT, Market(fee, 500), now, commit_age)


@pytest.mark.parametrize(
    ("phase", "act"),
    [
        (JobPhase.TRAINING, JobAction.COMMIT),
        (JobPhase.REVEAL, JobAction.REVEAL),
        (JobPhase.CHALLENGE, JobAction.CHALLENGE),
    ],
)
def test_an_act_with_an_end_waits_for_half_of_its_period(phase: JobPhase, act: JobAction) -> None:
    found = staked(phase)
    assert waits(found, act, fee=80)
    assert not waits(found, act, fee=70)
    assert waits(found, act, fee=80, now=NOW + 99)
    assert not waits(found, act, fee=80, now=NOW + 100), "500 s of 1000 are left"


def test_a_challenge_leaves_the_time_that_its_commitment_must_be_old() -> None:
    found = staked(JobPhase.CHALLENGE)
    assert waits(found, JobAction.CHALLENGE, fee=80, commit_age=99)
    assert not waits(found, JobAction.CHALLENGE, fee=80, commit_age=100)


def test_a_root_that_can_be_claimed_for_an_unknown_time_is_claimed_at_once() -> None:
    own = Group(1, RESULT.root, bytes(32), 0, 1, 0, 0, (0, 0))
    found = staked(JobPhase.CLOSING)
    found = replace(found, groups=(*found.groups, own))
    assert not waits(found, JobAction.CHALLENGE, fee=80)


def test_nobody_waits_to_join() -> None:
    assert not waits(staked(JobPhase.TRAINING, trainers=()), JobAction.JOIN, fee=10**6)


def test_the_end_of_a_job_waits_at_leisure() -> None:
    found = staked(JobPhase.CLOSING, reclaim_end=NOW + 700)
    bears = found.stake_at(0) // STAKE_GAS
    assert waits(found, JobAction.FINALIZE, fee=bears, now=NOW + 700)
    assert waits(found, JobAction.FINALIZE, fee=bears, now=NOW + 1199)
    assert not waits(found, JobAction.FINALIZE, fee=bears, now=NOW + 1200)
    assert not waits(found, JobAction.FINALIZE, fee=bears // 2, now=NOW + 700)


class Till:
    """A contract that owes us something, and the teller that withdraws it."""

    address = "0x" + "11" * 20

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owed = 100 * STAKE_GAS
        self.paid: list[int] = []
        self.teller = Teller(ME, lambda base_fee: Market(base_fee, 500), lambda: False)
        monkeypatch.setattr(
            "trainer_node.daemon.withdrawals.Call", SimpleNamespace(of=lambda escrow, _name: escrow)
        )

    def look(self, now: int, fee: int) -> list[int]:
        owed = [(self, self.owed)] if self.owed else []
        block = SimpleNamespace(base_fee=fee)
        snapshot: Any = SimpleNamespace(now=now, block=block, stake_gas=STAKE_GAS, credits=lambda _me: owed)
        self.paid += [now for _ in self.teller.due(snapshot)]
        return self.paid


def test_money_is_drawn_when_gas_is_cheap_or_it_has_waited_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    till = Till(monkeypatch)
    assert till.look(1000, fee=80) == []
    assert till.look(1001, fee=70) == [1001]
    till.owed = 0
    assert till.look(1002, fee=70) == [1001]
    till.owed = 100 * STAKE_GAS
    assert till.look(2000, fee=80) == [1001]
    assert till.look(2499, fee=80) == [1001]
    assert till.look(2500, fee=80) == [1001, 2500]


def test_a_stake_is_collected_when_gas_is_cheap_and_what_waits_is_not_forgotten() -> None:
    sent: list[Any] = []
    party: Any = object.__new__(Participant)
    party._over, party._requester = set(), None
    party._node = SimpleNamespace(market=lambda base_fee: Market(base_fee, 500))
    party._jobs = object.__new__(JobPlayer)
    party._jobs._jobs = None
    over = staked(JobPhase.ACCEPTED, reclaim_end=NOW + 700)

    def finish(now: int, fee: int, stakes: tuple[ClaimView, ...] = over.claims) -> bool:
        at: Any = SimpleNamespace(now=now, block=SimpleNamespace(base_fee=fee))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("trainer_node.play.jobs.Call", SimpleNamespace(of=lambda _jobs, name, *_args: name))
            found = party._refund(at, over, list(stakes))
        sent.extend(due.call for due in found or [])
        return found is not None

    assert finish(NOW + 701, fee=80)
    assert sent == []
    assert finish(NOW + 701, fee=70)
    assert finish(NOW + 1200, fee=80)
    assert sent == ["collect"] * 2
    assert not finish(NOW + 701, fee=70, stakes=())
    assert not finish(NOW + 701, fee=70, stakes=(replace(over.claims[0], collected=True),))
    assert len(sent) == 2


def test_deposits_are_got_back_when_gas_is_cheap() -> None:
    requester: Any = object.__new__(DataRequester)
    requester._transactions = SimpleNamespace(address=ME)
    requester._closings = lambda _job, keys: len(keys)
    terms = replace(job(**TERMS).program, mode=Rounding().mode)
    over = job(**TERMS, program=terms, phase=JobPhase.VOID, challenge_end=NOW)
    ledger = SimpleNamespace(open={"place": SimpleNamespace(requester=ME)})
    at: Any = SimpleNamespace(now=NOW + 1, ledger=lambda *_: ledger)
    assert requester.refunds(at, over, DEAR) == []
    assert requester.refunds(at, over, CHEAP) == [1]
    ledger.open = {"place": SimpleNamespace(requester="0x" + "bb" * 20)}
    assert requester.refunds(at, over, CHEAP) is None


# ---------------------------------------------------------------------- settings


def test_nothing_waits_on_a_development_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert gas_market(load_settings(), 10).patient_s == 0
    elsewhere = gas_market(load_settings(chain_id=1), 10)
    assert elsewhere == Market(10 + GWEI, DAY_S, 5 * 12 + 2), "what we pay is the base fee and the tip"
    monkeypatch.setenv("ASSAY_FEES__PATIENT_S", "7")
    assert (
        gas_market(load_settings(), 10).patient_s == gas_market(load_settings(chain_id=1), 10).patient_s == 7
    )
