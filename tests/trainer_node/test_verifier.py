"""A verifier signs what is right, for inputs that it has seen, and nothing else."""

from __future__ import annotations

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
from referee_py.errors import InvalidInput
from referee_py.game.rules import opened
from referee_py.game.state import MatchTerms, Phase
from referee_py.rounding.backend import Rounded
from referee_py.rounding.mode import Rounding, is_rounded
from trainer_node import verifier as module
from trainer_node.artifacts import Kind, Name
from trainer_node.chain import Claim, Group, Job, JobPhase, MatchInfo
from trainer_node.db import Database
from trainer_node.errors import RpcUnavailable
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
from .desk import ENOUGH, REFEREE, TERMS, Remembered, job, put_package, tiny_package, until

KEY = Account.from_key(b"\x07" * 32)
STEP, NODE = 7, 8
NOWHERE = "http://127.0.0.1:9"


class Court:
    """A job with one match in which verifiers are called; ``transactions`` keeps what is sent."""

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
        self.matches: dict[int, MatchInfo] = {}
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
        terms = MatchTerms(
            self.package.terms,
            100,
            100,
            1,
            (KEY.address,),
            players,
            match_id=match_id,
            chain_id=1,
            referee=REFEREE,
        )
        state = replace(
            opened(terms, (b"\1" * 32, b"\2" * 32), 1000),
            phase=Phase.VERDICT,
            start=STEP - 1,
            end=STEP,
            index=self.disputed,
            node=(self.wrong.hash(), self.right.hash()),
        )
        self.matches[match_id] = MatchInfo(match_id, number, "", state, terms)
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
        return match_id

    def tick(self, now: int = 1001) -> list[int]:
        """One round at an instant; the matches for which something was sent in it."""
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

    def match(self, _job: Job, match_id: int) -> MatchInfo:
        if match_id not in self.matches:
            raise InvalidInput(f"match {match_id} is not a match of that job")
        return self.matches[match_id]

    def history(self, match_id: int) -> Any:
        known = [] if match_id in self.hidden else [self.right, self.wrong]
        return SimpleNamespace(log=SimpleNamespace(records={record.hash(): record for record in known}))

    def encode_abi(self, function: str, args: Any) -> str:
        if function != "withdraw":
            assert function == "attest"
            self.coming = args
        return "0x"

    address = REFEREE

    def send(self, call: Any, *, timeout_s: float) -> Any:
        assert timeout_s <= 60
        if call.action == "withdraw":
            self.earned = 0
        else:
            self.sent.append(self.coming)
        return SimpleNamespace(gas_used=1)

    block = SimpleNamespace(number=1)
    earned = 0

    def credit(self, address: str) -> int:
        assert address == KEY.address
        return self.earned

    def _node(self) -> Any:
        deployment = SimpleNamespace(referee=REFEREE, chain_id=1)
        return SimpleNamespace(
            client=SimpleNamespace(
                snapshot=self.snapshot,
                deployment=deployment,
                contracts=SimpleNamespace(referee=self, jobs=self),
            ),
            transactions=SimpleNamespace(account=KEY, address=KEY.address, send=self.send),
            address=KEY.address,
            database=Database(None),
            problems={},
            metrics=Metrics(),
            settings=SimpleNamespace(limits=SimpleNamespace(memory_bytes=ENOUGH)),
            fetcher=Fetcher(self.store, timeout_s=1.0, attempts=1),
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
    verdict = Verdict(match_id, STEP, NODE, record)
    assert recover(verdict, 1, REFEREE, signature) == KEY.address


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
    state = court.matches[101].state
    for other in (replace(state, phase=Phase.OPEN), replace(state, votes=((KEY.address, b"\1" * 32),))):
        court.matches[101] = replace(court.matches[101], state=other)
        assert court.tick() == []
    court.matches[101] = replace(court.matches[101], state=state)
    court.jobs[0] = replace(court.jobs[0], verifiers=("0x" + "dd" * 20,))
    assert court.tick() == [], "a job that does not name us"
    court.jobs[0] = replace(court.jobs[0], verifiers=(KEY.address.lower(),))
    assert court.tick(now=1099) == [101]


def test_jobs_that_cannot_be_judged_do_not_keep_us_from_the_next(court: Court) -> None:
    """The client of one names a referee of his own, that of another a match that is none; one hides its events."""
    publish(court)
    uri = court.jobs[0].uri
    court.jobs.clear()
    court.add(uri, referee="0x" + "66" * 20)
    gone = court.add(uri)
    del court.matches[gone]
    court.hidden.add(court.add(uri))
    last = court.add(uri)
    assert court.tick() == [last]
    assert set(court.node.problems) == {"job 2"}


def test_a_judgement_that_takes_long_holds_up_nobody(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)
    second = court.add(court.jobs[0].uri)
    monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    slow = court.verifier._judge

    def judge(snapshot: Any, found: Job, match: MatchInfo) -> Record:
        if match.id == 101:
            until(lambda: released, 10)
        return slow(snapshot, found, match)

    released: list[bool] = []
    monkeypatch.setattr(court.verifier, "_judge", judge)
    assert until(court.tick) == [second]
    court.matches[second] = replace(
        court.matches[second], state=replace(court.matches[second].state, phase=Phase.DONE)
    )
    assert court.tick() == []
    released.append(True)
    assert until(court.tick) == [101]


def test_a_failing_endpoint_is_no_verdict(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(court)

    def fail(_match: int) -> Any:
        raise RpcUnavailable("no answer")

    monkeypatch.setattr(court, "history", fail)
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
    """Then no proof tells them apart, the verifiers are called, and both are wrong."""
    other = Record(rounded.right.structure, rounded.right.inputs, rounded.right.outputs, b"\7" * 32)
    worse = Record(rounded.right.structure, rounded.right.inputs, (b"\1" * 32,), b"\7" * 32)
    match = rounded.matches[101]
    state = replace(match.state, node=(other.hash(), worse.hash()))
    rounded.matches[101] = replace(match, state=state)
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
    crowd = tuple(Claim(k, f"0x{k:040x}", k % 2, False, False, f"http://m{k}") for k in range(64))
    groups = tuple(Group(k, b"", b"", 101, 0, tuple(range(k, 64, 2))) for k in range(2))
    found = servers(replace(court.jobs[0], claims=crowd, groups=groups), court.matches[101])
    assert found[:3] == [court.jobs[0].uri, "http://m0", "http://m1"]
    assert len(found) == 65
