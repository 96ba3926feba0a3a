"""What strangers' servers and a full disk cannot do to a verifier: keep it from its votes, or from its own defence."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from referee_py.panel.state import HearingPhase
from tests.small_disk import Refusal
from trainer_node import verifier as module
from trainer_node.errors import DiskFull
from trainer_node.holders import Holders
from trainer_node.server import ArtifactServer
from trainer_node.store import Store
from trainer_node.verifier import Verifier, _OperatorSource
from trainer_node.waits import JUDGED_S, LANE, LANES

from .courtroom import KEY, Court, publish
from .desk import ENOUGH, put_package, until
from .test_verifier import overruled

DAY_S = 24 * 3600.0
ME = KEY.address


@dataclass
class Clock:
    """Time that the test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ArtifactServer]:
    client = Store(tmp_path / "client", sync=False)
    put_package(client)
    with ArtifactServer(client) as made:
        yield made


@pytest.fixture
def court(tmp_path: Path, server: ArtifactServer, clock: Clock) -> Iterator[Court]:
    """A verifier with time of its own; everything is served."""
    made = Court(tmp_path, server.uri)
    publish(made)
    made.start(Verifier(made.node, clock))
    yield made
    made.node.stop.set()


@pytest.fixture
def stalling() -> Iterator[str]:
    """A server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def slow_hearings(court: Court, uri: str, number: int) -> None:
    """Call the verifier to hearings whose program nobody but this server has."""
    for _ in range(number):
        court.add(uri, program_file=b"\1" * 32)


def test_eight_slow_hearings_keep_no_ninth_vote_from_being_made_in_time(
    court: Court, clock: Clock, stalling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JUDGED_S", 0.05)
    honest = court.heard.pop(101)
    slow_hearings(court, stalling, LANES)
    court.tick()
    court.heard[101] = honest
    assert [court.tick() for _ in range(3)] == [[], [], []], "all lanes are taken"

    clock.now += float(LANE) * court.jobs[0].rules.verdict_period
    assert until(court.tick) == [101], "after an eighth of its verdict period"


@pytest.mark.parametrize("slow", [LANES, 3 * LANES])
def test_a_defence_never_waits_behind_strangers_votes(
    court: Court, stalling: str, slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time passes: it needs none of their lanes."""
    monkeypatch.setattr(module, "JUDGED_S", 0.05)
    court.now_is(phase=HearingPhase.RULED, verdict=court.right.hash(), voters=(ME,))
    slow_hearings(court, stalling, slow)
    court.tick()
    overruled(court, court.right)
    assert until(lambda: court.tick() or court.moved)[0] == "stand"


def test_many_judgements_that_last_do_not_make_a_round_long(
    court: Court, stalling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a round waits is for all judgements together, not for each."""
    waits: list[float | None] = []

    def noted(_: object, timeout: float | None) -> None:
        waits.append(timeout)

    monkeypatch.setattr("trainer_node.verifier.wait_for", noted)
    slow_hearings(court, stalling, 20)
    court.tick()
    assert len(waits) == 21
    assert max(wait or 0.0 for wait in waits) <= JUDGED_S
    for _ in range(3):
        court.tick()
    assert len(waits) == 21, "later rounds wait for nothing that one has waited for"


def test_our_own_hearings_come_first_in_a_round(court: Court, stalling: str) -> None:
    votes = court.heard[101]
    court.submit(102, 1, votes.terms.submission.players, (court.wrong, court.right))
    court.now_is(102, phase=HearingPhase.DEFENCE, verdict=court.right.hash(), voters=(ME,))
    _, turns = court.verifier.turns(court, court.jobs[0])  # type: ignore[arg-type]
    assert [turn.of for turn in turns] == ["hearing of match 0x66", "hearing of match 0x65"]


# ---------------------------------------------------------------------- what a bond rests on is kept


def forget_what_may_go(court: Court) -> None:
    """Let a day pass in which nothing is used; then collect, and make room as on a full disk."""
    then = time.time() - DAY_S
    for path in court.store.root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
    court.keeper.collect()
    court.keeper._urgently(lambda: False)


def stands_and_can_play(court: Court) -> bool:
    """Overrule our vote; return whether it stands by it, and has the tensors for the trial."""
    overruled(court, court.right)
    court.moved.clear()
    until(lambda: court.tick() or court.moved)
    source = _OperatorSource(court.verifier, court.jobs[0], court.heard[101])
    operator = until(source.operator)
    return court.moved == ["stand"] and len(operator.inputs) == len(court.right.inputs)


def voted(court: Court) -> None:
    """Let our vote be on the chain."""
    court.now_is(voters=(ME,), votes=((ME, court.right.hash()),))
    court.tick()


def test_a_day_after_its_vote_and_a_restart_it_stands_though_all_servers_have_gone(
    court: Court, server: ArtifactServer
) -> None:
    assert until(court.tick) == [101]
    server.stop()
    voted(court)
    forget_what_may_go(court)
    court.start(Verifier(court.node))
    forget_what_may_go(court)
    assert stands_and_can_play(court)


def test_a_signature_that_is_on_its_way_is_kept_for_too(court: Court, server: ArtifactServer) -> None:
    """Anybody may send it, as long as votes are called for."""
    assert until(court.tick) == [101]
    server.stop()
    court.start(Verifier(court.node))
    court.tick()
    forget_what_may_go(court)
    assert stands_and_can_play(court)


def test_inputs_go_once_no_signature_of_ours_can_be_tried(court: Court) -> None:
    assert until(court.tick) == [101]
    voted(court)
    held = {path for _, path in court.store.holders.held(1)}
    assert all((court.store.root / path).exists() for path in held)
    court.now_is(phase=HearingPhase.DONE)
    court.tick()
    forget_what_may_go(court)
    assert not any((court.store.root / path).exists() for path in held)


@pytest.mark.parametrize("refuses", ["files", "lines"])
def test_on_a_full_disk_it_judges_and_stands_from_memory_and_keeps_all_once_there_is_room(
    court: Court, server: ArtifactServer, refuses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may refuse new files, or a line in a small old one."""
    if refuses == "files":
        refusal = Refusal(monkeypatch, 0)
    else:
        assert until(court.tick) == [101]
        court.store.holders.release(1)
        court.start(Verifier(court.node))
        hold = Holders.hold

        def full(*_: object) -> None:
            raise DiskFull("no space left on the disk")

        monkeypatch.setattr(Holders, "hold", full)
    assert until(court.tick) == [101]
    kept = court.verifier._memory.names(1)
    assert {name.hash for name in kept} >= set(court.right.inputs)
    server.stop()
    voted(court)
    forget_what_may_go(court)
    assert stands_and_can_play(court)

    if refuses == "files":
        refusal.end()
    else:
        monkeypatch.setattr(Holders, "hold", hold)
    court.tick()
    assert court.verifier._memory.size == 0
    court.start(Verifier(court.node))
    forget_what_may_go(court)
    assert stands_and_can_play(court), "after a restart, too"


def test_what_fits_neither_on_the_disk_nor_in_memory_is_not_signed(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = len(court.package.program.to_bytes())
    court.node.settings.limits.memory_bytes = program
    refusal = Refusal(monkeypatch, 0)
    for _ in range(3):
        assert court.tick() == []
    assert "neither on the disk nor in memory" in "".join(court.node.problems.shown().reasons)
    court.node.settings.limits.memory_bytes = ENOUGH
    assert until(court.tick) == [101]
    refusal.end()


def test_a_disk_that_is_kept_for_other_jobs_is_not_taken_for_inputs(court: Court) -> None:
    court.keeper._store_bytes = 1
    assert until(court.tick) == [101]
    assert {name.hash for name in court.verifier._memory.names(1)} >= set(court.right.inputs)
