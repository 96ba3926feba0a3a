"""Turns: an error takes its own turn and no other, and is not forgotten."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_node.chain import Call, JobPhase
from trainer_node.daemon.due import Due
from trainer_node.daemon.helping import GasBudget
from trainer_node.daemon.job_turns import JobTurns, Sender, Turn, raising
from trainer_node.errors import DiskFailed, InsufficientFunds, Reverted, RpcCorrupt
from trainer_node.play import jobs
from trainer_node.play.actions import JobAction
from trainer_node.play.disputes import Disputes
from trainer_node.play.ends import Changes, Ends
from trainer_node.play.jobs import JobPlayer
from trainer_node.play.open_duties import Undone
from trainer_node.play.wrong_jobs import lies, results
from trainer_node.roles import participant
from trainer_node.roles.participant import Participant
from trainer_node.roles.refutes import Refutes
from trainer_node.settings.extent import Mode
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import path_of

from ..desk import REFEREE

ME = "0x" + "aa" * 20


class Account:
    """Notes what is sent; refuses or fails by the name of the action."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def submit(self, call: Call) -> int:
        if call.action == "refused":
            raise Reverted("refused", "revert", {}, b"")
        if call.action == "poor":
            raise InsufficientFunds("no ether")
        self.sent.append(call.action)
        return len(self.sent)


def due(action: str, **how: Any) -> Due:
    return Due(Call(action, ME, b""), **how)


def attended(*turns: Turn) -> list[str]:
    """Return what is sent in these turns. Raises the last error."""
    account: Any = Account()
    role: Any = SimpleNamespace(turns=lambda *_: (True, list(turns)))
    node: Any = SimpleNamespace(notices=SimpleNamespace(see=lambda _: None))
    sender = Sender(account, Reserve(lambda: 1, list), GasBudget(Database(None), 0))
    job: Any = SimpleNamespace(id=1, phase=JobPhase.CHALLENGE)
    snapshot: Any = None
    ours, failed = JobTurns(node, role, sender).attend(snapshot, job)
    assert ours
    assert "last" in account.sent
    if failed is not None:
        raise failed
    return account.sent


DUTIES = SimpleNamespace(
    free=lambda _: None, looked=lambda _: None, staked=lambda *_: None, knows=lambda _: True
)
LAST = Turn("last", lambda: [due("last")])


def test_what_is_refused_keeps_no_other_from_its_turn() -> None:
    assert attended(Turn("match", lambda: [due("refused", dispute=True), due("next")]), LAST) == [
        "next",
        "last",
    ]


def test_what_is_sent_before_an_error_is_sent() -> None:
    def decide() -> Any:
        yield due("first")
        raise RpcCorrupt("no event")

    with pytest.raises(RpcCorrupt):
        attended(Turn("data", decide), LAST)


def test_a_move_in_a_dispute_that_cannot_be_sent_is_the_job_s_problem() -> None:
    assert attended(Turn("job", lambda: [due("poor")]), LAST) == ["last"]
    with pytest.raises(InsufficientFunds):
        attended(Turn("match", lambda: [due("poor", dispute=True)]), LAST)


def test_all_that_a_turn_of_help_sends_counts_as_help() -> None:
    """Here the operator pays nothing for others, so none of it is sent."""
    assert attended(Turn("match", lambda: [due("for", dispute=True), due("others")], 1), LAST) == ["last"]


def test_a_view_that_reverts_is_a_problem_and_no_refusal() -> None:
    with pytest.raises(Reverted):
        attended(Turn("match", raising(Reverted("getMatch", "revert", {}, b""))), LAST)


def playing(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return a participant whose claim of the root "r" plays in match 7, and the job."""
    monkeypatch.setattr(participant, "kept", lambda *_: 5)
    part: Any = object.__new__(Participant)
    part._me, part._over, part._watcher, part._max_fee = ME, set(), None, 1
    part._undone, part._ends = Undone(Database(None), REFEREE), Ends()
    part._node = SimpleNamespace(
        reserve=Reserve(lambda: 1, list),
        duties=DUTIES,
        keeper=SimpleNamespace(stake=lambda *_: None, finds=lambda *_: None, runs=lambda *_: None),
        gauges=SimpleNamespace(job=lambda *_: None),
        settings=SimpleNamespace(mode=Mode.CHALLENGE),
        gas=None,
        market=None,
    )
    part._closer = part._requester = part._jobs = None
    part._runner = SimpleNamespace(is_another=lambda _: False)
    player: Any = SimpleNamespace(forget=lambda *_, **__: None, let_go=lambda *_: None)
    part._disputes = Disputes(part._node, part._runner, ME, part._undone, player, player)
    part._responder = player
    part._decide = lambda _job, _now: ([], SimpleNamespace(root=b"r"))
    part._refutes, part._helped, part._held, part._hidden = Refutes(), set(), set(), set()
    part._losses, part._waits = Changes("job.stake_not_confirmed"), {}
    part._wrong, part._results = lies(Database(None)), results(Database(None))
    claim, pair = (
        SimpleNamespace(lost=False),
        (
            SimpleNamespace(root=b"r", speaker=None, refutes=None),
            SimpleNamespace(root=b"s", speaker=None, refutes=None),
        ),
    )
    job: Any = SimpleNamespace(
        id=1,
        phase=JobPhase.CHALLENGE,
        stakes_of=lambda _: [claim],
        claim_of=lambda _: claim,
        pair=lambda _: pair,
        groups=[SimpleNamespace(refutes=None, root=b"r", dead=False)] * 2,
        trainer=lambda _: None,
        match_ids=lambda: [7],
        open_matches=1,
    )
    return part, job


def test_a_stake_whose_duty_is_not_known_is_measured_in_a_turn_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And once it is known, it counts with all stakes that the job shows."""
    part, job = playing(monkeypatch)
    estimate, learnt = object(), list[object]()
    part._disputes.hearings, job.open_matches = lambda *_, **__: ([], {}), 0
    part._node.duties = SimpleNamespace(
        looked=lambda _: None,
        free=lambda _: learnt.append("free"),
        staked=lambda number, stakes: learnt.append((number, stakes)),
        knows=lambda _: False,
        learn=lambda of, found: learnt.append((of.id, found)),
    )
    part._runner = SimpleNamespace(
        prepare=lambda _: estimate, is_another=lambda _: False, known=lambda _: None
    )
    snapshot: Any = SimpleNamespace(now=0, block=SimpleNamespace(number=1), confirm=lambda **_: None)
    found = {turn.of: turn.decide for turn in part.turns(snapshot, job)[1]}
    assert list(found["duty"]()) == []
    assert learnt == [(1, 1), (1, estimate)]
    part._node.duties.knows = lambda _: True
    assert "duty" not in [turn.of for turn in part.turns(snapshot, job)[1]]
    job.stakes_of, job.claim_of = lambda _: [], lambda _: None
    part._node.reserve, part._decide = Reserve(lambda: 1, list), lambda *_: ([], None)
    part.turns(snapshot, job)
    assert learnt[-1] == "free"


def test_turns_in_matches_of_others_are_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing of ours at stake in the job, whatever they send is marked: the match and what may follow of it."""
    part, job = playing(monkeypatch)
    job.stakes_of, job.claim_of = lambda _: [], lambda _: None
    part._node.gas = part._disputes._gas = SimpleNamespace(pays=True)
    snapshot: Any = SimpleNamespace(
        hearings=lambda _job: ([], {}), match=lambda *_: None, block=SimpleNamespace(number=9), now=5
    )
    _, turns = part.turns(snapshot, job)
    assert [(turn.of, turn.helps) for turn in turns] == [("match 0x7", 1), ("hearing of match 0x7", 1)]


def test_a_hearing_that_cannot_be_read_stops_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    part, job = playing(monkeypatch)
    unread = {5: RpcCorrupt("not all events of hearing 5")}
    snapshot: Any = SimpleNamespace(
        hearings=lambda _job: ([], unread), match=lambda *_: None, block=SimpleNamespace(number=9), now=5
    )
    ours, turns = part.turns(snapshot, job)
    assert ours
    assert [turn.of for turn in turns][:2] == ["hearing of match 0x5", "match 0x7"]
    assert [turn.helps for turn in turns] == [None] * len(turns)
    with pytest.raises(RpcCorrupt):
        list(turns[0].decide())

    def no_logs(_job: object) -> Any:
        raise RpcCorrupt("no logs at all")

    snapshot.hearings = no_logs
    ours, turns = part.turns(snapshot, job)
    assert ours
    assert [turn.of for turn in turns][:2] == ["hearings", "match 0x7"]


@pytest.mark.parametrize("fails", ["decision", "refutations"])
def test_a_part_that_cannot_be_checked_stops_no_match_no_answer_and_no_collection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: str
) -> None:
    """The disk has damaged what a decision reads: it takes its own turn, and what is known by now is played."""
    part, job = playing(monkeypatch)
    store = Store(tmp_path, sync=False)
    damaged = path_of(store.root, Name(Kind.BLOB, store.put_blob(b"an interval's data")))
    damaged.unlink()
    damaged.mkdir()
    own = SimpleNamespace(root=b"r")
    part._runner = SimpleNamespace(
        is_another=lambda _: False, known=lambda _: own, found=lambda _: [own], replay=lambda _: None
    )
    part._disputes._hearings = SimpleNamespace(forget=lambda *_, **__: None)
    part._closer = SimpleNamespace(due=lambda *_, **__: [due("close")])
    part._watcher = SimpleNamespace(watches=lambda _: False, due=lambda *_: [due("bounty")])

    def check(*_: Any) -> Any:
        return store.get(Name(Kind.BLOB, hashlib.sha256(b"an interval's data").digest()))

    if fails == "decision":
        part._decide = check
    else:
        part._refutes = Refutes(now=check)
    snapshot: Any = SimpleNamespace(
        hearings=lambda _job: ([], {}), match=lambda *_: None, block=SimpleNamespace(number=9), now=5
    )
    ours, turns = part.turns(snapshot, job)
    assert ours
    found = {turn.of: turn.decide for turn in turns}
    assert {fails, "bounty", "match 0x7", "responses", "closings"} <= set(found)
    with pytest.raises(DiskFailed):
        list(found[fails]())
    assert [one.call.action for one in found["closings"]()] == ["close"]


def test_a_challenge_that_waits_for_a_request_keeps_its_stake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or another job would take the money, and the wrong root would be accepted."""
    monkeypatch.setattr(jobs, "offer", lambda *_: SimpleNamespace(wanted=100))
    monkeypatch.setattr(jobs, "kept", lambda *_, **__: 10)
    reserve = Reserve(lambda: 20, list)
    player: Any = object.__new__(JobPlayer)
    player._node = SimpleNamespace(
        market=lambda _: SimpleNamespace(patient_s=0),
        settings=SimpleNamespace(fees=SimpleNamespace(max_fee=1)),
        reserve=reserve,
        duties=DUTIES,
        public_uri="",
        client=SimpleNamespace(deployment=SimpleNamespace(chain_id=1)),
    )
    player._account = player._jobs = SimpleNamespace(address=ME)
    player._started_at = 0
    player._salts = SimpleNamespace(of=lambda *_: b"s")
    job: Any = SimpleNamespace(
        id=1, stakes_of=lambda _: [], group_of_root=lambda _: SimpleNamespace(dead=False, spokesman=1)
    )
    own: Any = SimpleNamespace(root=b"r", last=b"l", path=(), logs=b"")
    for number in (19, 20, 21, 22):
        block = SimpleNamespace(number=number, base_fee=1)
        snapshot: Any = SimpleNamespace(block=block, pending=lambda *_: 1, now=0)
        reserve.seen(1, 0, number)
        assert player.due(snapshot, job, JobAction.CHALLENGE, own) == []
        assert reserve.kept(1) == 110
