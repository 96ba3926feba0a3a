"""A verifier signs the right record for inputs that it has seen, stands by it, and does nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from assay_lab.daemons import LyingVerifier
from referee_py.attestation import Verdict, recover
from referee_py.commit import Record
from referee_py.panel.state import HearingPhase
from referee_py.program.modes import Bounds, Rounding
from trainer_node.chain import ClaimView, HearingInfo, JobPhase, JobView
from trainer_node.errors import RpcUnavailable
from trainer_node.ids import whole
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.play import judgement
from trainer_node.play.judgement import servers
from trainer_node.roles import verifier as module
from trainer_node.roles.verifier import Verifier
from trainer_node.run.trial_cost import TrialCost
from trainer_node.stake.min_stake import TRIAL_MOVES
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store import Store

from .. import near
from ..courtroom import KEY, NODE, PANEL, STEP, Court, publish, publish_logs
from ..desk import ENOUGH, TERMS, put_package, until


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    """A verifier whose client serves no inputs before a test publishes them."""
    client = Store(tmp_path / "client", sync=False)
    put_package(client)
    with ArtifactServer(client) as server:
        yield Court(tmp_path, server.uri)


def test_the_right_record_is_signed(court: Court) -> None:
    publish(court)
    assert court.tick() == [101]
    ((match_id, record, signature),) = court.sent
    assert record == court.right.hash()
    verdict = Verdict(court.heard[match_id].id, STEP, NODE, record)
    assert recover(verdict, 1, PANEL, signature) == KEY.address


def test_trials_of_all_that_is_signed_are_reckoned_together_also_after_a_restart(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fits its clock of 1,000 s by itself, and three do not fit on one processor."""
    monkeypatch.setattr(judgement, "cost_of", lambda *_: TrialCost(NODE, "mm", 1 << 28, 200.0))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    publish(court)
    assert court.tick() == [101]
    court.now_is(101, voters=(KEY.address,))
    court.add(court.jobs[0].uri)
    assert until(court.tick) == [102]
    court.now_is(102, voters=(KEY.address,))
    court.start(Verifier(court.node))
    third = court.add(court.jobs[0].uri)
    with structlog.testing.capture_logs() as logs:
        until(lambda: court.tick() or any(log["event"] == "verdict.refused" for log in logs))
    assert [log["match"] for log in logs if log["event"] == "verdict.refused"] == [whole(third)]
    assert len(court.sent) == 2
    court.now_is(101, phase=HearingPhase.RULED)
    court.now_is(102, phase=HearingPhase.DONE)
    court.add(court.jobs[0].uri)
    assert until(court.tick) == [104], "once one of them is over there is room for another"


def test_after_a_reorganisation_the_operator_that_the_match_has_reached_is_judged(court: Court) -> None:
    """A refinement is bound by no hash, so the same match, with the same hearing, may reach another operator."""
    publish(court)
    assert until(court.tick) == [101]
    assert court.sent[-1][1] == court.right.hash()
    court.disputed = NODE - 1
    court.right = court.replay.record(STEP, court.disputed)
    wrong = replace(court.right, outputs=(b"\1" * 32,) * len(court.right.outputs))
    publish(court)
    court.submit(101, 1, court.heard[101].terms.submission.players, (wrong, court.right))
    assert until(court.tick) == [101]
    assert court.sent[-1][1] == court.right.hash()


def test_without_inputs_nothing_is_signed_and_with_them_it_is(court: Court) -> None:
    for _ in range(3):
        assert court.tick() == []
    publish(court)
    assert until(court.tick) == [101]


def test_other_bytes_under_the_inputs_names_are_not_judged(court: Court) -> None:
    publish(court)
    client = Store(court.honest.root.parent / "client")
    path = client.find(Name(Kind.TENSOR, court.right.inputs[0]))
    assert path is not None
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert court.tick() == []
    assert court.tick() == []
    path.write_bytes(whole)
    assert until(court.tick) == [101]


def test_an_unsound_job_is_refused_once(court: Court) -> None:
    publish(court)
    court.jobs[0] = replace(court.jobs[0], program=replace(TERMS, structure_root=bytes(32)))
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            assert court.tick() == []
    assert [event["event"] for event in told if event["event"].startswith("verdict")] == ["verdict.refused"]


def test_an_operator_too_large_for_this_machine_is_refused(court: Court) -> None:
    publish(court)
    court.node.settings.limits.memory_bytes = 60
    assert court.tick() == []
    court.node.settings.limits.memory_bytes = ENOUGH
    assert court.tick() == [], "for good"
    assert not court.store.has(Name(Kind.TENSOR, court.right.inputs[1])), "and nothing was fetched for it"


def test_a_job_whose_periods_would_hold_the_bond_for_long_is_not_signed(court: Court) -> None:
    publish(court)
    court.node.settings.limits.max_period_s = 999
    with structlog.testing.capture_logs() as told:
        for _ in range(2):
            assert court.tick() == []
    (reason,) = [event["reason"] for event in told if event["event"] == "verdict.left_to_others"]
    assert "max_period_s allows 999" in reason


@pytest.mark.parametrize(("term", "name"), [("appeal_period", "appeal period"), ("clock", "clock")])
def test_a_verdict_that_there_is_no_time_to_stand_by_is_not_signed(
    court: Court, term: str, name: str
) -> None:
    """Otherwise one person on both sides of a match could give it away and gain half of our bond."""
    publish(court)
    late = SimpleNamespace(**{**vars(court.node.settings), "latency_s": 62.0})
    needed = {"appeal_period": 4 * 62, "clock": 2 * TRIAL_MOVES * 62}
    roomy = replace(court.jobs[0].rules, **needed)
    court.node.settings = late
    court.jobs[0] = replace(court.jobs[0], rules=replace(roomy, **{term: needed[term] - 1}))
    with structlog.testing.capture_logs() as told:
        assert court.tick() == []
    (reason,) = [event["reason"] for event in told if event["event"] == "verdict.left_to_others"]
    assert f"its {name} has {needed[term] - 1} s" in reason


def test_votes_are_cast_in_time_once_and_only_when_called(court: Court) -> None:
    publish(court)
    assert court.tick(now=1100) == [], "the first second in which no vote counts"
    assert court.moved == ["escalate"], "the court is to judge it then"
    voting = court.heard[101]
    for changes in ({"phase": HearingPhase.RULED}, {"voters": (KEY.address,)}):
        court.now_is(**changes)
        assert court.tick() == []
        court.heard[101] = voting
    court.jobs[0] = replace(court.jobs[0], verifiers=("0x" + "dd" * 20,))
    assert court.tick() == [], "a job that does not name us"
    court.jobs[0] = replace(court.jobs[0], verifiers=(KEY.address,))
    assert court.tick(now=1099) == [101]


def test_jobs_that_cannot_be_judged_do_not_keep_us_from_the_next(court: Court) -> None:
    """The client of one names its own referee, that of another an impossible match; one hides its events."""
    publish(court)
    uri = court.jobs[0].uri
    court.jobs.clear()
    court.add(uri, referee="0x" + "66" * 20)
    gone = court.add(uri)
    del court.heard[gone]
    court.hidden.add(court.add(uri))
    last = court.add(uri)
    assert court.tick() == [last]
    assert court.node.problems.topics() == {"job 3"}


def test_a_judgement_that_takes_long_holds_up_nobody(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)
    second = court.add(court.jobs[0].uri)
    monkeypatch.setattr(module, "JUDGED_S", 0.3)
    slow = court.verifier._judge

    def judge(found: JobView, hearing: HearingInfo, *fetcher: Any) -> Any:
        if hearing.match_id == 101:
            until(lambda: released)
        return slow(found, hearing, *fetcher)

    released: list[bool] = []
    monkeypatch.setattr(court.verifier, "_judge", judge)
    assert until(court.tick) == [second]
    court.now_is(second, phase=HearingPhase.DONE)
    assert court.tick() == []
    released.append(True)
    assert until(court.tick) == [101]


def test_no_verdict_is_signed_that_could_not_be_stood_by_in_time(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(court)
    monkeypatch.setattr(judgement, "cost_of", lambda *_: TrialCost(8, "mm", 1 << 30, 501.0))
    with structlog.testing.capture_logs() as told:
        assert court.tick() == []
    (refused,) = [event for event in told if event["event"] == "verdict.refused"]
    for word in ("1002 s", "node 8, mm", "1,073,741,824 steps", "clock has 1000 s"):
        assert word in refused["reason"]
    patient = replace(court.jobs[0].rules, clock=1010)
    other = court.add(court.jobs[0].uri, rules=patient)
    assert until(court.tick) == [other]
    overruled(court, court.right)
    source = module._OperatorSource(court.verifier, court.jobs[0], court.heard[101])
    assert source.right(0.0, hurry=False) == court.right, (
        "a signer defends its record, however long it takes by now"
    )


def test_a_failing_endpoint_is_no_verdict(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)

    def fail(_job: JobView) -> Any:
        raise RpcUnavailable("no answer")

    monkeypatch.setattr(court, "hearings", fail)
    assert court.tick() == []
    monkeypatch.undo()
    assert until(court.tick) == [101]


def test_what_was_earned_is_drawn(court: Court) -> None:
    court.earned = 5
    assert court.tick() == []
    assert court.earned == 0


@pytest.fixture
def rounded(tmp_path: Path) -> Iterator[Court]:
    """A court about a sum whose every element is a tie, so that the log decides its outputs."""
    client = near.client(tmp_path / "client")
    with ArtifactServer(client) as server:
        yield Court(tmp_path, server.uri, near.package(), near.TIES)


def test_a_rounded_operator_is_judged_by_the_revealed_log(rounded: Court) -> None:
    publish(rounded)
    for _ in range(3):
        assert rounded.tick() == [], "not without the log"
    publish_logs(rounded)
    assert until(rounded.tick) == [101]
    ((_, record, _),) = rounded.sent
    assert record == rounded.right.hash()


def test_with_probable_bounds_a_verifier_signs_only_if_its_operator_allows_it(tmp_path: Path) -> None:
    """Its own library may be as far off as the trainer's."""
    package, mode = near.package(), Rounding(32, Bounds.PROBABLE).mode
    package = replace(package, terms=replace(package.terms, mode=mode))
    with ArtifactServer(near.client(tmp_path / "client")) as server:
        court = Court(tmp_path, server.uri, package, near.TIES)
        publish(court)
        publish_logs(court)
        with structlog.testing.capture_logs() as told:
            for _ in range(3):
                assert court.tick() == []
        (reason,) = [event["reason"] for event in told if event["event"] == "verdict.left_to_others"]
        assert "allow_probable_bounds" in reason
        court.node.settings.allow_probable_bounds = True
        assert court.tick() == [], "what was left stays left"
        court.start(Verifier(court.node))
        assert until(court.tick) == [101]
        assert court.sent[0][1] == court.right.hash()


def test_both_may_name_a_log_that_was_never_revealed(rounded: Court) -> None:
    """Then no proof tells them apart, the panel hears it, and both are wrong."""
    other = Record(rounded.right.structure, rounded.right.inputs, rounded.right.outputs, b"\7" * 32)
    worse = Record(rounded.right.structure, rounded.right.inputs, (b"\1" * 32,), b"\7" * 32)
    rounded.submit(101, 1, rounded.heard[101].terms.submission.players, (other, worse))
    right, rounded.right, rounded.wrong = rounded.right, other, worse
    publish(rounded)
    publish_logs(rounded)
    assert until(rounded.tick) == [101]
    assert rounded.sent[0][1] == right.hash()


def test_a_run_with_more_logs_than_anybody_can_hold_is_refused(rounded: Court) -> None:
    publish(rounded)
    publish_logs(rounded)
    terms = replace(rounded.package.terms, steps=1 << 40, strides=(1 << 39, 1))
    rounded.jobs[0] = replace(rounded.jobs[0], program=terms)
    with structlog.testing.capture_logs() as told:
        assert rounded.tick() == []
    assert [event["event"] for event in told if event["event"].startswith("verdict")] == ["verdict.refused"]


def test_both_spokesmen_are_asked_before_a_crowd(court: Court) -> None:
    players = court.heard[101].terms.submission.players
    owners = {40: players[0], 50: players[1]}
    crowd = tuple(
        ClaimView(k, owners.get(k, f"0x{k:040x}"), 1, k % 2, False, False, False, f"http://m{k}")
        for k in range(64)
    )
    found = servers(replace(court.jobs[0], claims=crowd), court.heard[101])
    assert found[:3] == [court.jobs[0].uri, "http://m40", "http://m50"]
    assert len(found) == 65


# ---------------------------------------------------------------------- verdicts that were overruled


def overruled(court: Court, verdict: Record) -> None:
    """Set a verdict that we signed as overruled: side 0, which it calls wrong, has won before the court."""
    signed = (KEY.address, verdict.hash())
    court.now_is(phase=HearingPhase.DEFENCE, verdict=verdict.hash(), votes=(signed,), voters=(KEY.address,))


def test_a_signer_stands_by_what_is_right_though_match_and_job_have_ended(court: Court) -> None:
    publish(court)
    overruled(court, court.right)
    groups = tuple(replace(group, match_id=0) for group in court.jobs[0].groups)
    court.jobs[0] = replace(court.jobs[0], phase=JobPhase.ACCEPTED, open_matches=0, groups=groups)
    court.tick()
    assert court.moved == ["stand"]
    court.tick(now=1100)
    assert court.moved == ["stand"], "too late; but it does not take its own bond"


def test_a_signer_who_was_wrong_does_not_stand_by_it(court: Court) -> None:
    publish(court)
    overruled(court, court.wrong)
    court.tick()
    assert court.moved == []


def test_a_signer_without_inputs_looks_again(court: Court) -> None:
    overruled(court, court.right)
    court.tick()
    assert court.moved == []
    publish(court)
    until(lambda: court.tick() or court.moved)
    assert court.moved == ["stand"]


def test_other_verifiers_of_the_job_leave_a_verdict_that_they_did_not_sign(court: Court) -> None:
    publish(court)
    overruled(court, court.right)
    stranger = "0x" + "dd" * 20
    court.now_is(votes=((stranger, court.right.hash()),), voters=(stranger,))
    court.tick()
    assert court.moved == []


def test_a_verdict_stands_once_nobody_has_appealed(court: Court) -> None:
    court.now_is(phase=HearingPhase.RULED, verdict=court.right.hash(), voters=(KEY.address,))
    court.tick(now=1099)
    assert court.moved == []
    court.tick(now=1100)
    assert court.moved == ["proceed"]


def test_a_lying_verifier_signs_the_other_record(court: Court) -> None:
    publish(court)
    false = court.replay.operator(STEP, court.disputed).outputs[0] + 1
    client = Store(court.honest.root.parent / "client", sync=False)
    lie = Record(court.right.structure, court.right.inputs, (client.put_tensor(false),), court.right.log)
    court.submit(101, 1, court.heard[101].terms.submission.players, (court.right, lie))
    court.start(LyingVerifier(court.node))
    assert until(court.tick) == [101]
    assert court.sent[0][1] == lie.hash()
