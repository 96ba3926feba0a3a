"""A node whose database was lost stakes and signs nothing more before it has read all jobs, of which some may be its
own. What a job of ours needs is sent meanwhile (docs/decisions.md, records 190 and 194)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from tests.trainer_node.desk import challenged, job
from tests.trainer_node.roles.member import member
from trainer_node.chain import Call
from trainer_node.daemon.due import Due
from trainer_node.daemon.job_turns import JobTurns, Turn
from trainer_node.play import judgement
from trainer_node.play.actions import JobAction
from trainer_node.roles.participant import Participant
from trainer_node.roles.verifier import Verifier
from trainer_node.run.trial_cost import TrialCost
from trainer_node.settings.extent import Mode
from trainer_node.storage.database import Database

from ..courtroom import KEY, NODE, Court
from ..desk import until

DAY = 86_400


def test_a_verifier_signs_for_no_more_trials_than_fit_beside_those_that_it_has_forgotten(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: each trial fits its clock of 1,000 s, two fit, three do not; two were signed for before."""
    monkeypatch.setattr(judgement, "cost_of", lambda *_: TrialCost(NODE, "mm", 1 << 28, 200.0))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    uri = court.jobs[0].uri
    court.jobs.clear()
    court.heard.clear()
    for number in range(1, 101):
        if number not in (40, 41, 100):
            court.jobs.append(job(number, uri=uri))
        else:
            match = court.add(uri)
            court.now_is(match, voters=(KEY.address,) if number != 100 else ())
    lost: Any = court.node.transactions
    lost.means.lacks_sent = lambda: True
    court.node.database = Database(None)
    court.start(Verifier(court.node))
    with structlog.testing.capture_logs() as told:
        refused = until(lambda: court.tick() or [e for e in told if e["event"] == "verdict.refused"])
    assert "with 3 verdicts signed at once" in refused[0]["reason"]
    assert not court.loop._scheduler.unread
    assert not court.sent


def test_a_verifier_that_has_read_all_jobs_signs(court: Court) -> None:
    uri = court.jobs[0].uri
    for number in range(2, 101):
        court.jobs.append(job(number, uri=uri))
    lost: Any = court.node.transactions
    lost.means.lacks_sent = lambda: True
    court.start(Verifier(court.node))
    assert court.tick() == [], "36 jobs were not read"
    assert until(court.tick) == [101]


def opening(folder: Path, *, ours: bool) -> dict[str, bool]:
    """Return which turns of a challenger that claims and refutes open a stake."""
    node = member(folder, mode=Mode.CHALLENGE)
    runner: Any = SimpleNamespace(works_at=lambda _: False, is_another=lambda _: False)
    part: Any = Participant(node, runner, lambda *_: ([], None))
    own = SimpleNamespace(root=b"\1" * 32)
    part._decide = lambda *_: ([JobAction.CHALLENGE], own)
    part._lies = lambda *_: ([], [SimpleNamespace(root=b"\3" * 32)])
    part._jobs = SimpleNamespace(due=print, refute=print)
    part._disputes = SimpleNamespace(
        note=lambda *_: None, hearings=lambda *_, **__: ([], {}), turns=lambda *_: []
    )
    at: Any = SimpleNamespace(now=0, block=SimpleNamespace(number=1, base_fee=0))
    found = challenged(1, [(own.root, ""), (b"\2" * 32, "")], DAY)
    if ours:
        found = replace(found, claims=(replace(found.claims[0], owner=node.address), found.claims[1]))
    _, turns = part.turns(at, found)
    return {turn.of: turn.opens for turn in turns if turn.of in ("challenge", "refute")}


@pytest.mark.parametrize("ours", [False, True])
def test_a_claim_and_a_refutation_open_a_stake_where_none_is_ours(tmp_path: Path, ours: bool) -> None:
    assert opening(tmp_path, ours=ours) == {"challenge": not ours, "refute": not ours}


@pytest.mark.parametrize("ours", [False, True])
def test_a_deposit_for_logs_waits_where_nothing_is_ours(tmp_path: Path, ours: bool) -> None:
    """The attack: jobs with withheld logs, whose deposits take what jobs may need that were not read yet."""
    node = member(tmp_path, mode=Mode.CHALLENGE)
    runner: Any = SimpleNamespace(works_at=lambda _: False, is_another=lambda _: False, known=lambda _: None)
    part: Any = Participant(node, runner, lambda *_: ([], None))
    part._requester = SimpleNamespace(due=lambda *_, opens: [act("close"), act("request", opens=opens)])
    part._jobs = part._disputes = None
    at: Any = SimpleNamespace(now=0, block=SimpleNamespace(number=1, base_fee=0))
    found = challenged(1, [(b"\1" * 32, ""), (b"\2" * 32, "")], DAY)
    if ours:
        found = replace(found, claims=(replace(found.claims[0], owner=node.address), found.claims[1]))
    _, turns = part.turns(at, found)
    (turn,) = (turn for turn in turns if turn.of == "data requests")
    assert [turn.opens or due.opens for due in turn.decide()] == [False, not ours], "to close stakes nothing"


def test_what_opens_a_stake_waits_and_all_else_is_sent() -> None:
    sent = list[Due]()
    sender: Any = SimpleNamespace(send=sent.append)
    node: Any = SimpleNamespace(metrics=SimpleNamespace(add=lambda *_: None))
    role: Any = SimpleNamespace(
        turns=lambda *_: (False, [Turn("claim", lambda: [act("challenge")], None, True)])
    )
    snapshot: Any = SimpleNamespace(confirm=lambda **_: None)
    unread = [5]
    turns = JobTurns(node, role, sender, unread=lambda: unread[0])
    turns.attend(snapshot, job(1))
    turns.send(snapshot, [act("watch", opens=True), act("reveal")])
    assert [due.call.action for due in sent] == ["reveal"]
    unread[0] = 0
    turns.attend(snapshot, job(1))
    assert [due.call.action for due in sent] == ["reveal", "challenge"]


def act(name: str, **how: Any) -> Due:
    return Due(Call(name, "0x", b""), exposes=True, **how)
