"""A verifier signs what is right, for inputs that it has seen, stands by that, and does nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import repops
import structlog
from eth_account import Account

from referee_py.attestation import Verdict, recover
from referee_py.commit import Record
from referee_py.panel.state import (
    Attest,
    HearingPhase,
    HearingState,
    HearingTerms,
    Move,
    Submission,
    dispute_hash,
    hearing_id,
)
from referee_py.rounding.backend import Rounded
from referee_py.rounding.mode import Rounding, is_rounded
from referee_py.trial import Dispute
from trainer_node import verifier as module
from trainer_node.artifacts import Kind, Name
from trainer_node.chain import Claim, Group, HearingInfo, Job, JobPhase
from trainer_node.db import Database
from trainer_node.errors import RpcCorrupt, RpcUnavailable
from trainer_node.fetch import Fetcher
from trainer_node.logbook import WrittenBook
from trainer_node.metrics import Metrics
from trainer_node.package import Package
from trainer_node.replay import Replay
from trainer_node.rounded.variations import NumpyEvaluator
from trainer_node.server import ArtifactServer
from trainer_node.store import Store
from trainer_node.verifier import Verifier, servers

from . import near
from .desk import ENOUGH, REFEREE, TERMS, Remembered, job, put_package, rules, tiny_package, until

KEY = Account.from_key(b"\x07" * 32)
PANEL, JOBS = "0x" + "12" * 20, "0x" + "34" * 20
STEP, NODE = 7, 8
NOWHERE = "http://127.0.0.1:9"


class Court:
    """A job with one match whose operator is before the panel; ``sent`` and ``moved`` keep what is sent."""

    def __init__(self, folder: Path, uri: str, package: Package | None = None, node: int = NODE) -> None:
        self.store = Store(folder / "verifier", sync=False)
        self.honest = Store(folder / "honest", sync=False)
        self.package, self.disputed = package or tiny_package(), node
        replay = self._replay()
        self.claim = replay.train()
        self.right = replay.record(STEP, node)
        self.wrong = Record(self.right.structure, self.right.inputs, (b"\1" * 32,), self.right.log)
        self.replay = replay
        self.sent: list[tuple[int, bytes, bytes]] = []
        self.moved: list[str] = []
        self.heard: dict[int, HearingInfo] = {}
        self.jobs: list[Job] = []
        self.hidden: set[int] = set()
        self.add(uri)
        self.node = self._node()
        self.verifier = Verifier(self.node)

    def add(self, uri: str, **changes: Any) -> int:
        """One more job with a match; returns the match's id."""
        number = len(self.jobs) + 1
        match_id = 100 + number
        players = ("0x" + "aa" * 20, "0x" + "bb" * 20)
        values: dict[str, Any] = {
            "phase": JobPhase.CHALLENGE,
            "uri": uri,
            "program": self.package.terms,
            "program_file": self.package.program.file_hash(),
            "logs": self.claim.logs,
            "open_matches": 1,
            "verifiers": (KEY.address,),
            "claims": tuple(Claim(k, players[k], k, True, False, NOWHERE) for k in range(2)),
            "groups": tuple(Group(k, bytes([k + 1]) * 32, b"", match_id, 0, (k,)) for k in range(2)),
        }
        self.jobs.append(job(number, **{**values, **changes}))
        self.submit(match_id, number, players, (self.wrong, self.right))
        return match_id

    def submit(
        self, match_id: int, number: int, players: tuple[str, str], records: tuple[Record, Record]
    ) -> None:
        structure = self.package.program.nodes[self.disputed].encode()
        dispute = Dispute(records, structure, self.package.terms.mode)
        hashes = records[0].hash(), records[1].hash()
        at = Submission(match_id, JOBS, number, STEP, self.disputed, players, hashes, dispute_hash(dispute))
        hearing = hearing_id(REFEREE, match_id)
        terms = HearingTerms(hearing, at, dispute, rules(), 1, (KEY.address,), 1, PANEL)
        self.heard[match_id] = HearingInfo(HearingState(HearingPhase.VOTING, until=1100), terms)

    def now_is(self, match_id: int = 101, **changes: Any) -> None:
        """The hearing has come so far."""
        hearing = self.heard[match_id]
        self.heard[match_id] = replace(hearing, state=replace(hearing.state, **changes))

    def tick(self, now: int = 1001) -> list[int]:
        """One round at an instant; the matches for which a vote was sent in it."""
        before = len(self.sent)
        self.now = now
        self.verifier.tick()
        return [match_id for match_id, _, _ in self.sent[before:]]

    def _replay(self) -> Replay:
        package, mode = self.package, self.package.terms.mode
        if not is_rounded(mode):
            return Replay(package, repops.backend("cpu"), self.honest, Remembered())
        terms = package.terms
        book = WrittenBook(Database(None), 1, self.honest, terms.node_count, terms.steps)
        backend = Rounded(Rounding.of(mode), book, NumpyEvaluator())
        return Replay(package, backend, self.honest, Remembered(), book=book)

    # ------------------------------------------------------------------ what the node sees

    def snapshot(self) -> Any:
        return self

    def job_count(self) -> int:
        return len(self.jobs)

    def job(self, number: int) -> Job:
        return self.jobs[number - 1]

    def hearings(self, found: Job) -> list[HearingInfo]:
        ours = [h for h in self.heard.values() if h.terms.submission.job_id == found.id and not h.over]
        if any(hearing.match_id in self.hidden for hearing in ours):
            raise RpcCorrupt("no event")
        return ours

    def hearing_move(self, number: int, move: Move, value: int = 0) -> Any:
        assert number == hearing_id(REFEREE, move.submission.match_id)
        assert value == 0
        return SimpleNamespace(action=move.function, move=move)

    def encode_abi(self, function: str, _args: Any) -> str:
        assert function == "withdraw"
        return "0x"

    address = JOBS

    def send(self, call: Any, *, timeout_s: float) -> Any:
        assert timeout_s <= 60
        self.moved.append(call.action)
        if call.action == "withdraw":
            self.earned = 0
        elif isinstance(call.move, Attest):
            self.sent.append((call.move.submission.match_id, call.move.record, call.move.signature))
        return SimpleNamespace(gas_used=1)

    block = SimpleNamespace(number=1)
    earned = 0

    def credits(self, address: str) -> list[Any]:
        assert address == KEY.address
        return [(self, self.earned)] if self.earned else []

    def _node(self) -> Any:
        deployment = SimpleNamespace(referee=REFEREE, panel=PANEL, chain_id=1)
        return SimpleNamespace(
            client=SimpleNamespace(snapshot=self.snapshot, deployment=deployment, contracts=self),
            transactions=SimpleNamespace(account=KEY, address=KEY.address, send=self.send),
            address=KEY.address,
            database=Database(None),
            problems={},
            metrics=Metrics(),
            settings=SimpleNamespace(limits=SimpleNamespace(memory_bytes=ENOUGH)),
            fetcher=Fetcher(self.store, timeout_s=1.0, attempts=1),
            store=self.store,
            stop=threading.Event(),
        )


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    client = Store(tmp_path / "client", sync=False)
    put_package(client)
    with ArtifactServer(client) as server:
        yield Court(tmp_path, server.uri)


def publish(court: Court) -> None:
    """The honest side puts the operator's inputs where the client serves."""
    court.replay.publish(STEP, court.disputed)
    for tensor in court.right.inputs:
        Store(court.honest.root.parent / "client", sync=False).put_tensor(court.honest.get_tensor(tensor))


def test_the_right_record_is_signed(court: Court) -> None:
    publish(court)
    assert court.tick() == [101]
    ((match_id, record, signature),) = court.sent
    assert record == court.right.hash()
    verdict = Verdict(court.heard[match_id].id, STEP, NODE, record)
    assert recover(verdict, 1, PANEL, signature) == KEY.address


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
    """The client of one names a referee of his own, that of another a match that is none; one hides its events."""
    publish(court)
    uri = court.jobs[0].uri
    court.jobs.clear()
    court.add(uri, referee="0x" + "66" * 20)
    gone = court.add(uri)
    del court.heard[gone]
    court.hidden.add(court.add(uri))
    last = court.add(uri)
    assert court.tick() == [last]
    assert set(court.node.problems) == {"job 3"}


def test_a_judgement_that_takes_long_holds_up_nobody(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)
    second = court.add(court.jobs[0].uri)
    monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    slow = court.verifier._judge

    def judge(found: Job, hearing: HearingInfo) -> Any:
        if hearing.match_id == 101:
            until(lambda: released, 10)
        return slow(found, hearing)

    released: list[bool] = []
    monkeypatch.setattr(court.verifier, "_judge", judge)
    assert until(court.tick) == [second]
    court.now_is(second, phase=HearingPhase.DONE)
    assert court.tick() == []
    released.append(True)
    assert until(court.tick) == [101]


def test_a_failing_endpoint_is_no_verdict(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)

    def fail(_job: Job) -> Any:
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
    """The same about a sum whose every element is a tie, so that the log decides its outputs."""
    client = near.client(tmp_path / "client")
    with ArtifactServer(client) as server:
        yield Court(tmp_path, server.uri, near.package(), near.TIES)


def publish_logs(court: Court) -> Name:
    """The honest side puts the run's logs there too; the name of the disputed step's."""
    client = Store(court.honest.root.parent / "client", sync=False)
    run, step = court.replay.run_log_tree(), STEP
    assert run is not None
    client.put_tree(run)
    nodes = court.package.terms.node_count
    client.put_logs([court.honest.get_log(run.leaves[step - 1], nodes)], nodes)
    return Name(Kind.LOG, run.leaves[step - 1], count=nodes)


def test_a_rounded_operator_is_judged_by_the_revealed_log(rounded: Court) -> None:
    publish(rounded)
    for _ in range(3):
        assert rounded.tick() == [], "not without the log"
    publish_logs(rounded)
    assert until(rounded.tick) == [101]
    ((_, record, _),) = rounded.sent
    assert record == rounded.right.hash()


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
        Claim(k, owners.get(k, f"0x{k:040x}"), k % 2, False, False, f"http://m{k}") for k in range(64)
    )
    found = servers(replace(court.jobs[0], claims=crowd), court.heard[101])
    assert found[:3] == [court.jobs[0].uri, "http://m40", "http://m50"]
    assert len(found) == 65


# ---------------------------------------------------------------------- verdicts that were overruled


def overruled(court: Court, verdict: Record) -> None:
    """We have signed that; side 0, whom it calls wrong, has won before the court."""
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
    court.verifier = Verifier(court.node, lies=True)
    assert until(court.tick) == [101]
    assert court.sent[0][1] == lie.hash()
