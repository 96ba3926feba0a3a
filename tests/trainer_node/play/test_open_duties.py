"""What holds our bond, stake or appeal is never left because a look does not show it, and is let go once it is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.game.state import Phase
from referee_py.panel.state import HearingPhase
from tests.support.small_disk import Refusal
from trainer_node.chain import JobPhase, Snapshot
from trainer_node.chain.snapshot import MAX_SEEN
from trainer_node.daemon.job_queue import JobQueue
from trainer_node.errors import DiskFull, RpcUnavailable
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.play.ends import CONFIRM_S
from trainer_node.play.open_duties import MAX_UNASKED, Open, Undone, is_done, outlasts_s
from trainer_node.roles.verifier import Verifier
from trainer_node.storage.database import Database

from ..courtroom import Court, publish
from ..desk import REFEREE, until
from ..roles.test_verifier import overruled
from ..roles.test_verifier_under_siege import forget_what_may_go, stands_and_can_play, voted
from ..slow import Hand

MATCH, JOB = 101, 1


@pytest.fixture
def court(court: Court) -> Court:
    """The verifier has voted."""
    assert until(court.tick) == [MATCH]
    return court


def ended(court: Court) -> None:
    """Let job and match be over, so that no view of the job names the match."""
    groups = tuple(replace(group, match_id=0) for group in court.jobs[0].groups)
    court.jobs[0] = replace(court.jobs[0], phase=JobPhase.ACCEPTED, open_matches=0, groups=groups)


def noted(court: Court) -> list[int]:
    return [match for _, match, *_ in court.node.database.undone()]


# ---------------------------------------------------------------------- a look that does not show it


@pytest.mark.parametrize("looks", [0, 1, 2, 20])
def test_after_a_restart_a_signer_stands_though_no_event_names_the_match(court: Court, looks: int) -> None:
    """The hearing outlasts the job; the endpoint lacks the event of its match for so many looks."""
    court.start(Verifier(court.node))
    court.tick()
    court.unnamed = {MATCH}
    ended(court)
    court.start(Verifier(court.node))
    for _ in range(looks):
        court.tick()
    overruled(court, court.right)
    assert until(lambda: court.tick() or court.moved)[-1] == "stand", "its number is known"


def test_a_vote_that_was_sent_before_a_crash_is_defended_though_no_event_names_the_match(
    court: Court,
) -> None:
    """The process ended between its vote and everything else that it would have written."""
    court.node.database.put_job(JOB, "over")
    overruled(court, court.right)
    ended(court)
    court.unnamed = {MATCH}
    court.start(Verifier(court.node))
    assert until(lambda: court.tick() or court.moved)[-1] == "stand"


@pytest.mark.parametrize("looks", [1, 20])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_endpoint_that_is_behind_by_more_than_the_hearing_has_lasted(
    court: Court, looks: int, restarts: bool
) -> None:
    """Its block has neither the hearing nor the match: both are still to come."""
    now = court.jobs[0]
    voted(court)
    ended(court)
    later = court.jobs[0]
    if restarts:
        court.start(Verifier(court.node))
    court.removed = {MATCH}
    court.jobs[0] = replace(now, groups=later.groups, open_matches=0)
    for _ in range(looks):
        court.tick()
    court.removed = set()
    court.jobs[0] = later
    assert stands_and_can_play(court)


@pytest.mark.parametrize("why", ["unnamed", "removed"])
def test_on_a_full_disk_a_look_without_the_hearing_lets_go_of_nothing(
    court: Court, server: ArtifactServer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [path for _, path in court.store.holders.held(JOB)]:
        (court.store.root / name).unlink()
    court.node.database.drop_undone(JOB, MATCH)
    refusal = Refusal(monkeypatch, 0)
    court.start(Verifier(court.node))
    court.moved.clear()
    assert until(court.tick) == [MATCH], "from memory"
    server.stop()
    voted(court)
    before = court.verifier._memory.size
    assert before > 0
    setattr(court, why, {MATCH})
    court.tick()
    setattr(court, why, set())
    court.tick()
    assert court.verifier._memory.size == before
    assert stands_and_can_play(court)
    refusal.end()


def test_nothing_is_signed_that_the_database_does_not_take(
    tmp_path: Path, server: ArtifactServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    court = Court(tmp_path, server.uri)
    publish(court)

    def full(*_: object) -> None:
        raise DiskFull("no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(court.node.database, "put_undone", full)
        for _ in range(3):
            assert court.tick() == []
    assert until(court.tick) == [MATCH], "once there is room"
    assert noted(court) == [MATCH]
    court.node.stop.set()


# ---------------------------------------------------------------------- the end


def test_a_job_is_let_go_once_the_panel_says_that_its_hearing_is_done(court: Court) -> None:
    over = list[int]()
    court.node.job_over = lambda job: over.append(job.id)
    held = {path for _, path in court.store.holders.held(JOB)}
    voted(court)
    ended(court)
    court.now_is(phase=HearingPhase.DEFENCE)
    court.unnamed = {MATCH}
    for _ in range(5):
        court.tick()
    assert over == []
    court.now_is(phase=HearingPhase.DONE)
    court.tick()
    assert over == [JOB]
    assert noted(court) == []
    forget_what_may_go(court)
    assert not any((court.store.root / path).exists() for path in held)
    assert JobQueue(court.node.database).ours(JOB) is False


def test_what_one_endpoint_says_alone_ends_no_defence(court: Court, clock: Hand) -> None:
    voted(court)
    ended(court)
    state = court.heard[MATCH]
    court.doubt = "1 of 3 endpoints agrees"
    court.now_is(phase=HearingPhase.DONE)
    for _ in range(3):
        court.tick()
        clock.now += CONFIRM_S
    assert noted(court) == [MATCH]
    court.heard[MATCH] = state
    assert stands_and_can_play(court), "it was not done"
    court.now_is(phase=HearingPhase.DONE)
    court.doubt = None
    clock.now += CONFIRM_S
    court.tick()
    assert noted(court) == []


def test_endpoints_that_do_not_confirm_an_end_are_asked_now_and_then(
    court: Court, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round is short, whatever one of them says."""
    asked, confirm = list[float](), court.confirm

    def counted(**_: Any) -> None:
        asked.append(clock.now)
        confirm()

    monkeypatch.setattr(court, "confirm", counted)
    court.doubt = "1 of 3 endpoints agrees"
    court.now_is(phase=HearingPhase.DONE)
    ended(court)
    for _ in range(30):
        court.tick()
        clock.now += CONFIRM_S / 10
    assert asked == pytest.approx([0.0, CONFIRM_S, 2 * CONFIRM_S])


def test_a_match_that_a_reorganisation_has_removed_is_let_go_in_protocol_time(court: Court) -> None:
    voted(court)
    ended(court)
    court.removed = {MATCH}
    last = 2000 + outlasts_s(court.jobs[0])
    court.tick(now=2000)
    court.start(Verifier(court.node))
    for _ in range(5):
        court.tick(now=last - 1)
    assert noted(court) == [MATCH]
    court.tick(now=last)
    assert noted(court) == []


def test_one_that_is_there_again_begins_anew(court: Court) -> None:
    voted(court)
    ended(court)
    court.removed = {MATCH}
    court.tick(now=2000)
    court.removed = set()
    court.tick(now=2001)
    court.removed = {MATCH}
    court.tick(now=2000 + outlasts_s(court.jobs[0]))
    assert noted(court) == [MATCH]


@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("match", list(Phase))
@pytest.mark.parametrize("hearing", list(HearingPhase))
def test_what_is_done(heard: bool, match: Phase, hearing: HearingPhase) -> None:
    """A match that ended without a hearing, unless we know of one; or a hearing that is done."""
    expected = hearing is HearingPhase.DONE or (
        match is Phase.DONE and hearing is HearingPhase.NONE and not heard
    )
    assert is_done(Open(heard), match, hearing) is expected


# ---------------------------------------------------------------------- the memory


def test_what_is_noted_outlives_the_process_until_it_is_let_go(tmp_path: Path) -> None:
    path, large = tmp_path / "node.sqlite3", (1 << 256) - 1
    first = Database(path)
    Undone(first, REFEREE).note(3, large, heard=False)
    Undone(first, REFEREE).note(3, 7, heard=True)
    Undone(first, REFEREE).note(3, 7, heard=False)
    first.close()
    again = Database(path)
    assert sorted(Undone(again, REFEREE).of(3)) == [7, large]
    assert again.undone() == [(3, 7, True, None), (3, large, False, None)], "a hearing stays known"
    assert JobQueue(again).due(5)[0] == 3, "a job of ours, in every round"
    again.drop_undone(3, large)
    assert Undone(again, REFEREE).of(3) == [7]
    again.close()


def test_what_the_disk_refuses_is_known_meanwhile_and_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(None)
    undone = Undone(database, REFEREE)

    def full(*_: Any) -> None:
        raise DiskFull("no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(database, "put_undone", full)
        for _ in range(2):
            with pytest.raises(DiskFull):
                undone.note(3, 7, heard=True)
        assert undone.of(3) == [7]
    undone.note(3, 7, heard=True)
    assert database.undone() == [(3, 7, True, None)]


def test_matches_that_one_endpoint_has_made_up_are_not_kept() -> None:
    """The attack: in one look it shows us as a spokesman in ten thousand matches, each of which would be asked for in
    every round until its job has ended."""
    database, clock, asked = Database(None), Hand(), list[int]()
    undone = Undone(database, REFEREE, clock)

    def refuses(**_: Any) -> None:
        asked.append(1)
        raise RpcUnavailable("2 endpoints show another job")

    look: Any = SimpleNamespace(confirm=refuses)
    for match in range(10_000):
        undone.note(match % 100, match, heard=False, shown=look)
    assert [len(undone.of(job)) for job in range(100)] == [1] * MAX_UNASKED + [0] * (100 - MAX_UNASKED)
    assert (len(database.undone()), asked) == (MAX_UNASKED, [1])
    undone.note(3, 7, heard=True)
    assert undone.of(3) == [3, 7], "what we sign is kept whatever others say"
    clock.now += CONFIRM_S
    undone.note(3, 8, heard=False, shown=SimpleNamespace(confirm=lambda **_: None))  # type: ignore[arg-type]
    assert undone.of(3) == [3, 7, 8]


@pytest.mark.parametrize("heard", [False, True])
def test_one_that_nobody_is_there_to_confirm_is_known_after_a_restart(*, heard: bool) -> None:
    """The attack: the other endpoint is down; then, after a restart, one look lacks the event of the match."""
    database = Database(None)

    def refuses(**_: Any) -> None:
        raise RpcUnavailable("1 of 2 endpoints agree (agree = 2)")

    Undone(database, REFEREE).note(3, 7, heard=heard, shown=SimpleNamespace(confirm=refuses))  # type: ignore[arg-type]
    assert Undone(database, REFEREE).of(3) == [7]


def test_matches_that_were_made_up_are_not_asked_for_at_every_look() -> None:
    asked, client = list[int](), SimpleNamespace(matches={})

    def nobody_has(*said: Any) -> Any:
        asked.append(said[-1])
        return SimpleNamespace(phase=0)

    def look(shown: range) -> list[int]:
        view: Any = SimpleNamespace(
            _events=lambda *_: [],
            _jobs={3: SimpleNamespace(match_ids=lambda: list(shown))},
            _client=client,
            _contracts=SimpleNamespace(jobs=None, referee=None),
            _read=SimpleNamespace(view=nobody_has),
        )
        return Snapshot.matches_of(view, 3)

    assert len(look(range(10_000))) == 10_000, "while it serves"
    assert look(range(5)) == list(range(5))
    assert len(asked) <= MAX_SEEN
    assert look(range(5)) == list(range(5))
    assert len(asked) <= MAX_SEEN, "what nobody has is not asked for again"
