"""A trainer forges a rounding log: if it follows the forgery it loses, if it only writes it nothing has changed.

Each forgery is played by two trainers, on a chain, against an honest challenger with other hardware. The *liar* follows
its log to the letter. The *honest follower of a forged log* commits to the same log and to the values that it defines:
the truth.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from referee_py.commit import Tag
from referee_py.execute import Run
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from tests.conftest import Anvil
from tests.trainer_node.rounded.orders import both
from trainer_node.chain import JobPhase

from . import brink
from .arena import REWARD, STAKE, Outcome
from .forger import BadlyServedArena, Forger, ForgersArena
from .forgeries import FORGERIES, UNREADABLE, Forgery, Gone
from .hostile import OF_RUNS, OF_STEPS, HostileServer, Lie, fickle
from .test_rounded import expect_justice

SPARSE, DENSE = Rounding(32), Rounding(26, Bounds.PROBABLE, Form.DENSE)
HARMLESS, HARMFUL = (Gone.IDLE, Gone.ADMITTED), (Gone.TOLD, Gone.UNREAD)
TROUBLE = {
    "tick.bug",
    "tick.error",
    "job.failed",
    "job.refused",
    "job.unavailable",
    "match.failed",
    "verdict.refused",
}


QUICK = "a direction just beyond the radius"
QUICK_FILE = ("/v1/log/", "bomb-in-disguise")


def cases(*gone: Gone) -> list[Any]:
    """Return every forgery in both modes that allow it; `QUICK` is, in the first."""
    return [
        pytest.param(
            rounding,
            forgery,
            id=f"{rounding.mode:#x}-{name}",
            marks=[] if name == QUICK and rounding is SPARSE else [pytest.mark.slow],
        )
        for rounding in (SPARSE, DENSE)
        for name, forgery in FORGERIES.items()
        if rounding.bits <= forgery.most_bits and forgery.gone in gone
    ]


@dataclass(frozen=True)
class Played:
    """Outcome of a liar's or an honest follower's job: the nodes' events, and elements wrong because of an entry."""

    outcome: Outcome
    told: Sequence[MutableMapping[str, Any]]
    ignored: set[int]
    trainer: str


def trouble(told: Sequence[MutableMapping[str, Any]]) -> set[str]:
    """Return the events that must not happen to an honest party."""
    return {event["event"] for event in told} & TROUBLE


def play(anvil: Anvil, folder: Path, rounding: Rounding, forgery: Forgery, *, knows: bool) -> Played:
    """Play a job. Raises AssertionError unless the truth is accepted, without trouble for an honest party."""
    job = brink.bundle(rounding)
    with (
        ForgersArena(anvil, folder, job, forgery, knows=knows) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        assert trouble(told) == set()
        expect_justice(arena, outcome, job)
        return Played(outcome, told, arena.ignored, arena.address("trainer-0"))


def root(rounding: Rounding, backend: Rounded) -> bytes:
    """Return the run root without a chain."""
    job = brink.bundle(rounding)
    return Run.of(job, backend).commit_run().root


@pytest.mark.parametrize(
    "rounding",
    [SPARSE, pytest.param(DENSE, marks=pytest.mark.slow)],
    ids=lambda rounding: f"{rounding.mode:#x}",
)
def test_whoever_follows_finds_the_honest_follower_right_and_the_liar_wrong(rounding: Rounding) -> None:
    """All forgeries at once: only the runs, on other hardware, and the events about them."""
    trainer, auditor = both()
    honest = root(rounding, Rounded(rounding, MemoryLogs(), trainer))
    assert honest != root(rounding, Rounded(rounding, MemoryLogs(), auditor)), "hardware differs"
    for name, forgery in FORGERIES.items():
        if rounding.bits > forgery.most_bits:
            continue
        for knows in (True, False):
            log_source, ignored, told = MemoryLogs(), set[int](), list[tuple[int, ...]]()
            claimed = root(rounding, Forger(rounding, log_source, trainer, forgery, knows, ignored))
            other = Rounded(rounding, log_source, auditor, lambda *place, told=told: told.append(place))
            agree = root(rounding, other) == claimed
            assert agree == (knows or forgery.gone in HARMLESS), name
            if not knows:
                first = [(forgery.step, forgery.node, min(ignored, default=None))]
                assert told == (first if forgery.gone is Gone.TOLD else []), name
                assert (claimed == honest) == (forgery.gone is Gone.IDLE), name


@pytest.mark.parametrize(("rounding", "forgery"), cases(*HARMLESS))
def test_entries_that_an_honest_trainer_may_have_written_are_no_fault(
    anvil: Anvil, tmp_path: Path, rounding: Rounding, forgery: Forgery
) -> None:
    played = play(anvil, tmp_path, rounding, forgery, knows=False)
    assert played.outcome.matches == []
    assert played.outcome.profit["trainer-0"] == REWARD
    assert played.ignored == set()
    assert not any(event["event"] == "log.forged" for event in played.told)


@pytest.mark.parametrize(("rounding", "forgery"), cases(*HARMFUL))
def test_the_liar_loses(anvil: Anvil, tmp_path: Path, rounding: Rounding, forgery: Forgery) -> None:
    played = play(anvil, tmp_path, rounding, forgery, knows=False)
    assert played.outcome.matches == [(forgery.reason, {played.trainer})]
    assert played.outcome.profit["challenger"] >= REWARD
    told = {(e["step"], e["node"], e["element"]) for e in played.told if e["event"] == "log.forged"}
    first = (forgery.step, forgery.node, min(played.ignored, default=None))
    assert told == ({first} if forgery.gone is Gone.TOLD else set())


@pytest.mark.slow
@pytest.mark.parametrize(("rounding", "forgery"), cases(*HARMFUL))
def test_the_honest_follower_has_changed_nothing(
    anvil: Anvil, tmp_path: Path, rounding: Rounding, forgery: Forgery
) -> None:
    played = play(anvil, tmp_path, rounding, forgery, knows=True)
    assert played.outcome.matches == []
    assert played.outcome.profit["trainer-0"] == REWARD


def bad_servers() -> list[Any]:
    lies = [("/v1/log/", name, lie) for name, lie in OF_STEPS.items()]
    lies += [(f"/v1/tree/{Tag.LOG_RUN_TREE:02x}/", name, lie) for name, lie in OF_RUNS.items()]
    return [
        pytest.param(
            kind,
            lie,
            id=f"{'step' if 'log' in kind else 'run'}-{name}",
            marks=[] if (kind, name) == QUICK_FILE else [pytest.mark.slow],
        )
        for kind, name, lie in lies
    ]


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.01)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("kind", "lie"), bad_servers())
def test_files_that_were_not_committed_to_are_refused(
    anvil: Anvil, tmp_path: Path, kind: str, lie: Lie
) -> None:
    """The challenger reports what is missing, keeps nothing that came, and gets it on the chain; all is in order."""
    with (
        HostileServer(kind, lie) as server,
        BadlyServedArena(anvil, tmp_path, brink.bundle(SPARSE), server) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        challenger = arena.members[-1].node
        assert server.lies > 0
        assert [claim.owner for claim in outcome.job.claims] == [arena.address("trainer-0")]
        assert -STAKE // 10 < outcome.profit["challenger"] < 0, "what the answers cost"
        assert outcome.profit["trainer-0"] + outcome.profit["challenger"] == REWARD
        assert trouble(told) <= {"job.unavailable"}
        missing = [event["reason"] for event in told if event["event"] == "job.unavailable"]
        assert missing
        assert all(kind.removeprefix("/v1/") in reason for reason in missing)
        terms = outcome.job.program
        roots = challenger.store.get_tree(Tag.LOG_RUN_TREE, outcome.job.logs, terms.steps).leaves
        for step_root in roots:
            challenger.store.get_log(step_root, terms.node_count)  # the stored log is the committed one
        assert not list((challenger.store.root / "incoming").iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
def test_a_server_that_changes_its_mind_is_asked_until_it_is_right(anvil: Anvil, tmp_path: Path) -> None:
    forgery = FORGERIES["a direction just beyond the radius"]
    with (
        HostileServer("/v1/log/", fickle) as server,
        BadlyServedArena(anvil, tmp_path, brink.bundle(SPARSE), server, forgery) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        assert trouble(told) == {"job.unavailable"}
        assert outcome.matches == [(forgery.reason, {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] >= REWARD


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_log_that_nobody_can_read_is_lost(anvil: Anvil, tmp_path: Path, name: str) -> None:
    """It has no answer that the contract accepts, so a requester wins; and no side is shown to be right."""
    with (
        ForgersArena(anvil, tmp_path, brink.bundle(SPARSE), UNREADABLE[name], knows=True) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.VOID
        assert outcome.profit["trainer-0"] < 0
        assert outcome.profit["challenger"] > 0
        assert outcome.profit["trainer-0"] + outcome.profit["challenger"] == STAKE // 2 - STAKE
        assert trouble(told) <= {"job.unavailable"}
        reasons = [event["reason"] for event in told if event["event"] == "job.unavailable"]
        assert any("/v1/log/" in reason or "log/" in reason for reason in reasons), reasons
