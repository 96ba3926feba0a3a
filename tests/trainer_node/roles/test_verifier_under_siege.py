"""What strangers' servers and a full disk cannot do to a verifier: keep it from its votes, or from its own defence."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog

from referee_py.adjudication import execute_again
from referee_py.jobs import Rules
from referee_py.panel.state import HearingPhase
from tests.support.small_disk import Refusal
from trainer_node.errors import DiskFull, RpcUnavailable
from trainer_node.limits.waits import JUDGED_S, LANE, LANES
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.play import judgement
from trainer_node.roles import verifier as module
from trainer_node.roles.verifier import Verifier, _OperatorSource
from trainer_node.storage.artifacts import Array, Kind, Name
from trainer_node.storage.job_holds import Holders
from trainer_node.storage.store import Store

from ..courtroom import KEY, Court
from ..desk import ENOUGH, until
from ..slow import Hand
from .test_verifier import overruled

DAY_S = 24 * 3600.0
ME = KEY.address


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
    court: Court, clock: Hand, stalling: str, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr("trainer_node.roles.verifier.wait_for", noted)
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
    operator = until(source.operator)()
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
    assert {name.hash for name in kept} >= {*court.right.inputs, *court.right.outputs, court.right.hash()}
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


# ---------------------------------------------------------------------- no trial waits for an execution


@pytest.fixture
def executed(clock: Hand, court: Court, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the operator was executed, which takes six times as long as the clock has."""
    times = list[float]()

    def long(*given: Any) -> Sequence[Array]:
        times.append(clock.now)
        clock.now += 6 * court.jobs[0].rules.clock
        return execute_again(*given)

    monkeypatch.setattr(judgement, "execute_again", long)
    return times


def known(court: Court) -> bool:
    """Take a round; return whether the verifier knows its judgement."""
    court.tick()
    heard = court.verifier._heard.get(court.heard[101].id)
    return heard is not None and heard.judged is not None


def unread(_: object) -> None:
    raise RpcUnavailable("no answer")


def ruled(court: Court) -> None:
    """Let the verdict that we signed be there."""
    vote = ME, court.right.hash()
    court.now_is(phase=HearingPhase.RULED, verdict=court.right.hash(), votes=(vote,), voters=(ME,))


@pytest.mark.parametrize("restarted", [False, True])
def test_an_operator_that_takes_longer_than_the_clock_is_executed_once(
    court: Court, server: ArtifactServer, clock: Hand, executed: list[float], restarted: bool
) -> None:
    """Its outputs are kept beside its inputs, and the chain knows which record we have signed for."""
    assert until(court.tick) == [101]
    server.stop()
    voted(court)
    forget_what_may_go(court)
    if restarted:
        court.start(Verifier(court.node, clock))
    assert stands_and_can_play(court)
    assert len(executed) == 1, "the clock of a trial never runs while it executes"


@pytest.mark.parametrize("phase", [HearingPhase.RULED, HearingPhase.TRIAL])
def test_what_a_disk_has_lost_is_computed_again_before_our_time_runs(
    court: Court,
    server: ArtifactServer,
    clock: Hand,
    executed: list[float],
    phase: HearingPhase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the verdict may be appealed, or others try it: so that it is there when it has to be stood by."""
    assert until(court.tick) == [101]
    server.stop()
    path = court.store.find(Name(Kind.TENSOR, court.right.outputs[0]))
    assert path is not None
    path.write_bytes(b"damaged")
    court.start(Verifier(court.node, clock))
    ruled(court)
    court.now_is(phase=phase)
    monkeypatch.setattr(court, "trial", unread, raising=False)
    until(lambda: known(court))
    assert len(executed) == 2
    assert stands_and_can_play(court)
    assert len(executed) == 2


def test_another_verifier_prepares_nothing_for_a_verdict_that_it_has_not_signed(
    court: Court, executed: list[float]
) -> None:
    ruled(court)
    court.now_is(votes=(("0x" + "dd" * 20, court.right.hash()),))
    for _ in range(3):
        assert not known(court)
    assert not executed


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (Rules(1, 1000, 1000, 10**6), "the appeal period has 1000 s"),
        (Rules(1, 1000, 10**6, 1000), "the clock has 1000 s"),
        (Rules(1, 1000, 2000, 2000), None),
    ],
)
def test_a_vote_is_reckoned_with_the_reading_of_what_a_trial_begins_with(
    court: Court, clock: Hand, rules: Rules, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes 300 s for each of two inputs and an output needs 1,800 s, however short the trial is."""
    read = Store.get_tensor

    def slowly(store: Store, tensor: bytes) -> Array:
        clock.now += 300
        return read(store, tensor)

    monkeypatch.setattr(Store, "get_tensor", slowly)
    court.jobs[0] = replace(court.jobs[0], rules=rules)
    with structlog.testing.capture_logs() as told:
        found = until(
            lambda: court.tick() or [event for event in told if event["event"] == "verdict.refused"]
        )
    if words is None:
        assert found == [101]
    else:
        assert words in found[0]["reason"]


def test_nothing_is_executed_whose_outputs_could_not_be_kept(
    court: Court, executed: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, inputs = court.package, sum(map(len, map(court.honest.get, tensors_of(court.right.inputs))))
    taken = len(package.program.to_bytes()) + inputs
    refusal = Refusal(monkeypatch, 0)
    court.node.settings.limits.memory_bytes = taken
    for _ in range(3):
        assert court.tick() == []
    assert not executed
    court.node.settings.limits.memory_bytes = ENOUGH
    assert until(court.tick) == [101]
    refusal.end()


def tensors_of(hashes: Sequence[bytes]) -> list[Name]:
    return [Name(Kind.TENSOR, tensor) for tensor in hashes]
