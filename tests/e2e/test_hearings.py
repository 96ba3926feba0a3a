"""Operators before the panel and the court: a party that is right and plays wins, even against the verifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from rich.console import Console

from assay_lab.demo.narrator import Narrator
from assay_lab.faults import Fault
from referee_py.panel.state import HearingPhase, HearingState
from referee_py.trial import TrialState
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import recorded
from trainer_node.chain.fees import ETHER
from trainer_node.cli.dispute import render
from trainer_node.cli.store import is_over
from trainer_node.daemon.due import Due
from trainer_node.local.bundle import Bundle
from trainer_node.play.open_duties import Undone
from trainer_node.roles.verifier import Verifier
from trainer_node.run.replay import Replay

from .arena import PERIOD_S, REWARD, STAKE, Arena
from .test_disputes import expect_justice, honest_root
from .test_reorg import play_until

LIE = Fault.WRONG_OP_OUTPUT


def hearings(arena: Arena) -> list[tuple[HearingState, tuple[TrialState, ...]]]:
    """Return the hearings of all matches, at the end, each with its trials."""
    snapshot = arena.client.snapshot()
    job = snapshot.job(arena.job_id)
    found = [recorded(snapshot, job, match_id) for match_id in snapshot.matches_of(job.id)]
    return [(course.hearing, course.trials) for course in found if course.hearing is not None]


def shown(arena: Arena) -> str:
    """Return the output of `assay dispute show`."""
    snapshot, console = arena.client.snapshot(), Console(width=200)
    job = snapshot.job(arena.job_id)
    with console.capture() as capture:
        for match_id in snapshot.matches_of(job.id):
            console.print(render(snapshot, job, snapshot.match(job, match_id)))
    return capture.get()


def narrator(arena: Arena, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the text of a demonstration."""
    lines = list[str]()
    narrator = Narrator(arena.client, arena.job_id, names, lines.append, lambda *_: "")
    narrator.tell()
    told = len(lines)
    narrator.tell()
    assert len(lines) == told, "nothing is told twice"
    return "\n".join(lines)


@pytest.mark.slow
def test_the_court_alone_finds_the_liar(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Each element of its product of matrices is a chain of many steps."""
    mm = next(number for number, node in enumerate(bundle.program.nodes) if node.name == "mm")
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], verifiers=0, fault_node=mm) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2
        ((hearing, trials),) = hearings(arena)
        assert (hearing.phase, hearing.trials, hearing.voters) == (HearingPhase.DONE, 1, ())
        assert trials[0].steps == 64


def test_a_false_verdict_falls_and_its_signers_lose_their_bonds(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """They even stand by it, each in a separate trial."""
    settings: dict[str, Any] = {"false_verdicts": True, "threshold": 2}
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], **settings) as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 + 2 * (ETHER // 2)
        assert outcome.profit["trainer-1"] == -STAKE
        assert outcome.profit["verifier-0"] == outcome.profit["verifier-1"] == -ETHER
        ((hearing, _),) = hearings(arena)
        assert (hearing.trials, hearing.votes, len(hearing.voters)) == (3, (), 2)
        for told in (shown(arena), narrator(arena)):
            for words in ("appeals", "overruled", "element", "loses its bond"):
                assert words in told, words
            assert "trainer 2" in told, "parties are called by their part in the job"
            assert not re.search(r"\bside [01]\b", told)
        names = {arena.address("trainer-1"): "liar", arena.address("verifier-0"): "first verifier"}
        told = re.sub(r"\[/?bold\]", "", narrator(arena, names))
        assert re.search(r"trainer [12] \(liar\)", told), "they are numbered in the order in which they came"


@pytest.mark.slow
def test_an_appeal_from_a_true_verdict_costs_the_bond(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], appeals=True) as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]
        # Half of the stake, less the verifiers' tenth, and half of the bond.
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 - STAKE // 10 + STAKE // 2
        assert outcome.profit["trainer-1"] == -STAKE - STAKE
        ((hearing, _),) = hearings(arena)
        for name in ("verifier-0", "verifier-1"):
            signed = arena.address(name) in hearing.voters
            assert outcome.profit[name] == (STAKE // 10 if signed else 0), (
                "the court has confirmed the verdict"
            )


def let_the_verdict_period_pass(arena: Arena) -> None:
    """Skip the verdict period after the verifiers were called."""
    play_until(arena, lambda job: bool(arena.client.snapshot().hearings(job)[0]))
    arena.skip(PERIOD_S)


@pytest.mark.slow
def test_silent_verifiers_are_replaced_by_the_court(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Nobody serves anything, so they cannot have the inputs; before the court outputs are shown piece by piece."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], serve=False) as arena:
        let_the_verdict_period_pass(arena)
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]
        ((hearing, _),) = hearings(arena)
        assert (hearing.trials, hearing.voters) == (1, ())


class Mute:
    """A hearing player that does nothing."""

    def due(self, *_: object) -> list[Due]:
        return []

    def forget(self, *_: object, but: object = ()) -> None: ...


def silence(arena: Arena, *names: str) -> None:
    """Make these members do nothing in hearings except vote."""
    for member in arena.members:
        if member.name in names:
            part: Any = member.part
            if isinstance(member.part, Verifier):
                part._hearing_player = Mute()
            else:
                part._disputes._hearings = part._disputes._turns._hearings = Mute()


@pytest.mark.slow
def test_bonds_of_silent_signers_fall_though_job_and_accuser_were_gone_meanwhile(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """The period to stand by a verdict is longer than the job, and the accuser restarts within it."""
    settings: dict[str, Any] = {"false_verdicts": True, "threshold": 2, "appeal_period": 3 * PERIOD_S}
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], **settings) as arena:
        silence(arena, "verifier-0", "verifier-1")
        play_until(arena, lambda job: any(claim.lost for claim in job.claims))
        arena.skip(PERIOD_S)
        play_until(arena, lambda job: job.phase.ended)
        ((hearing, _),) = hearings(arena)
        assert hearing.phase is HearingPhase.DEFENCE
        snapshot = arena.client.snapshot()
        accuser = next(member.node for member in arena.members if member.name == "trainer-0")
        undone = Undone(accuser.database, arena.client.deployment.referee)
        assert not is_over(snapshot, snapshot.job(arena.job_id), undone), (
            "what the job holds may still be asked for"
        )
        arena.restart("trainer-0")
        arena.skip(2 * PERIOD_S)
        outcome = arena.play()
        assert is_over(arena.client.snapshot(), outcome.job, undone)
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 + 2 * (ETHER // 2)
        assert outcome.profit["verifier-0"] == outcome.profit["verifier-1"] == -ETHER


def publish_inputs(replay: Replay, step: int, node: int) -> None:
    """Publish only the inputs. With outputs served, the liar could play for both sides, and reach the right result."""
    for array in replay.operator(step, node).inputs:
        replay._store.put_tensor(array)


@pytest.mark.slow
def test_who_signed_what_is_right_keeps_its_bond_though_its_side_lost(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The liar appeals, and the honest spokesman does not play: the court decides by its clock. The signer stands by
    its verdict against the liar; the challenger claims the right root again, and wins against the liar."""
    monkeypatch.setattr(Replay, "publish", publish_inputs)
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], appeals=True) as arena:
        silence(arena, "trainer-0")
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [
            (Reason.TIMEOUT, {arena.address("trainer-0")}),
            (Reason.OPERATOR, {arena.address("trainer-1")}),
        ]
        (first, _), (second, _) = hearings(arena)
        assert (first.trials, second.trials) == (2, 1), (
            "of the first trial's signers one stood by its verdict"
        )
        assert len(first.votes) == 1, "and nobody's vote is gone"
        for name in ("verifier-0", "verifier-1"):
            assert outcome.profit[name] >= 0
        assert outcome.profit["challenger"] == REWARD + STAKE // 2 - STAKE // 10 + STAKE // 2
