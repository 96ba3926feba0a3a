"""The refusals of a hearing, in every phase. NOTE: `Scene.refused` checks that a refusal changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from referee_py.panel import refusals
from referee_py.panel.state import Attest, HearingPhase, Move
from referee_py.trial import Timeout
from referee_py.walk.refusals import Refusal
from tests.model.panel import Panel
from tests.model.registry import Registry

from .scene import NEITHER, PANEL, RIGHT, SPOKESMEN, STAKE, STRANGER, VERIFIERS, WRONG, Scene, signature


def voting() -> Scene:
    return Scene(threshold=2).voted(RIGHT, 0)


def ruled() -> Scene:
    return Scene().voted(WRONG, 0)


def in_defence() -> Scene:
    return Scene(threshold=2).voted(NEITHER, 0, 1).appealed(0).tried(0b10)


def moves(scene: Scene) -> dict[str, tuple[Move, str, int]]:
    """Return one move of each kind, right in its phase, with sender and value."""
    return {
        "attest": (scene.vote(WRONG, 2), STRANGER, 0),
        "appeal": (scene.appeal, SPOKESMEN[0], STAKE),
        "escalate": (scene.escalate, STRANGER, 0),
        "proceed": (scene.proceed, STRANGER, 0),
        "stand": (scene.stand(NEITHER), VERIFIERS[0], 0),
    }


SCENES: dict[HearingPhase, tuple[Callable[[], Scene], set[str]]] = {
    HearingPhase.VOTING: (voting, {"attest", "escalate"}),
    HearingPhase.RULED: (ruled, {"appeal", "proceed"}),
    HearingPhase.TRIAL: (lambda: ruled().appealed(0), set()),
    HearingPhase.DEFENCE: (in_defence, {"stand", "proceed"}),
    HearingPhase.STAND: (lambda: (s := in_defence()).play(s.stand(NEITHER), VERIFIERS[0]), set()),
    HearingPhase.DONE: (lambda: ruled().appealed(0).tried(0b11), set()),
}


@pytest.mark.parametrize("phase", SCENES)
def test_move_in_another_phase_expect_refused(phase: HearingPhase) -> None:
    make, fitting = SCENES[phase]
    scene = make()
    assert scene.state.phase is phase
    for name, (move, sender, value) in moves(scene).items():
        found = scene.refused(move, sender, value)
        assert (found == "WrongHearingPhase") is (name not in fitting), (name, found)


@pytest.mark.parametrize("phase", SCENES)
def test_another_submission_or_dispute_expect_refused(phase: HearingPhase) -> None:
    make, fitting = SCENES[phase]
    for over in (False, True):
        scene = make()
        if over:
            scene.over()
        for name in fitting:
            move, sender, value = moves(scene)[name]
            submission = replace(move.submission, step=move.submission.step + 1)
            assert scene.refused(replace(move, submission=submission), sender, value) == "AnotherSubmission"
            if not hasattr(move, "dispute"):
                continue
            disputed: Any = move
            other = replace(disputed, dispute=replace(disputed.dispute, mode=0x80))
            in_time = (name == "escalate") == over
            want = "AnotherDispute" if in_time else "PeriodRunning" if name == "escalate" else "PeriodOver"
            assert scene.refused(other, sender, value) == want


def test_periods_expect_the_last_second_in_and_the_next_one_out() -> None:
    cases: list[tuple[Callable[[], Scene], str, bool]] = [
        (voting, "attest", True),
        (voting, "escalate", False),
        (ruled, "appeal", True),
        (ruled, "proceed", False),
        (in_defence, "stand", True),
        (in_defence, "proceed", False),
    ]
    for make, name, before in cases:
        scene = make()
        arguments = moves(scene)[name]
        scene.now = scene.state.until - 1
        assert scene.refused(*arguments) == (None if before else "PeriodRunning"), name
        scene.now += 1
        assert scene.refused(*arguments) == ("PeriodOver" if before else None), name


def test_votes_expect_only_those_of_verifiers_once() -> None:
    scene = voting()
    again, other = scene.vote(WRONG, 0), scene.vote(WRONG, 3)
    assert scene.refused(again) == "AlreadyVoted", "another record does not help"
    assert scene.refused(other) == "NotVerifier"
    assert scene.refused(replace(scene.vote(WRONG, 1), record=RIGHT.hash())) == "NotVerifier"
    for broken in (
        b"",
        bytes(65),
        scene.vote(WRONG, 1).signature[:64],
        scene.vote(WRONG, 1).signature + b"\0",
    ):
        assert scene.refused(Attest(scene.terms.submission, WRONG.hash(), broken)) == "ECDSAInvalidSignature"
    assert scene.refused(scene.vote(WRONG, 1)) is None
    assert scene.refused(scene.vote(WRONG, 1), SPOKESMEN[1]) is None, "anybody may bring it"


def test_bond_that_does_not_answer_to_the_panel_expect_no_vote() -> None:
    scene = Scene(threshold=2)
    scene.registry.take(VERIFIERS[1], PANEL)
    assert scene.refused(scene.vote(RIGHT, 1)) == "NotPanel"
    scene.registry.register("0x" + "77" * 20, VERIFIERS[1], 5)
    assert scene.refused(scene.vote(RIGHT, 1)) == "NotPanel"


def test_appeal_expect_only_by_whom_the_verdict_calls_wrong_and_for_the_stake() -> None:
    scene = ruled()
    assert scene.refused(scene.appeal, SPOKESMEN[1], STAKE) == "NothingToAppeal"
    assert scene.refused(scene.appeal, STRANGER, STAKE) == "NothingToAppeal"
    for value in (0, STAKE - 1):
        assert scene.refused(scene.appeal, SPOKESMEN[0], value) == "WrongBond"
    neither = Scene().voted(NEITHER, 0)
    for spokesman in SPOKESMEN:
        assert neither.refused(neither.appeal, spokesman, STAKE) is None


def test_silence_is_no_verdict() -> None:
    scene = voting().over()
    assert scene.refused(scene.proceed) == "WrongHearingPhase"


def test_stand_expect_only_signers_with_the_verdicts_record() -> None:
    scene = Scene(threshold=2).voted(RIGHT, 2).voted(NEITHER, 0, 1).appealed(0).tried(0b10)
    assert scene.refused(scene.stand(NEITHER), VERIFIERS[2]) == "NotSigner"
    assert scene.refused(scene.stand(NEITHER), SPOKESMEN[1]) == "NotSigner"
    for record in (RIGHT, WRONG):
        assert scene.refused(scene.stand(record), VERIFIERS[0]) == "AnotherRecord"


def test_stand_without_a_bond_expect_refused_until_there_is_one_again() -> None:
    scene = Scene(threshold=2).voted(NEITHER, 0, 1).appealed(0).tried(0b10)
    scene.registry.take(VERIFIERS[0], PANEL)
    assert scene.refused(scene.stand(NEITHER), VERIFIERS[0]) == "NoBond"
    scene.registry.register("0x" + "77" * 20, VERIFIERS[0], 5)
    assert scene.refused(scene.stand(NEITHER), VERIFIERS[0]) == "NoBond", "it answers to another panel"
    assert scene.refused(scene.stand(NEITHER), VERIFIERS[1]) is None


def test_stand_by_a_record_of_another_operator_expect_refused_by_the_court() -> None:
    """A signer of such a record was wrong, and loses its bond by silence."""
    for impossible in (replace(RIGHT, inputs=RIGHT.inputs[:1]), replace(RIGHT, outputs=())):
        scene = Scene()
        scene.play(Attest(scene.terms.submission, impossible.hash(), signature(impossible.hash(), 0)))
        scene.appealed(0).tried(0b10)
        assert scene.refused(scene.stand(impossible), VERIFIERS[0]) == "RecordsDiffer"


def test_second_submission_of_a_match_expect_refused() -> None:
    scene = Scene()
    with pytest.raises(refusals.AlreadyHeard):
        scene.panel.opening(scene.terms, scene.now)


def test_dispute_that_is_not_the_submissions_expect_refused() -> None:
    scene = Scene()
    terms = replace(scene.terms, dispute=replace(scene.terms.dispute, mode=0x80))
    panel = Panel(PANEL, Registry(), scene._decide_match)
    with pytest.raises(refusals.AnotherDispute):
        panel.opening(terms, scene.now)


def test_hearing_or_trial_that_does_not_exist_expect_refused() -> None:
    scene = Scene()
    with pytest.raises(Refusal, match="no hearing"):
        scene.panel.play(99, scene.proceed, STRANGER, 0, scene.now)
    with pytest.raises(Refusal, match="no trial"):
        scene.panel.plead(99, [Timeout()], STRANGER, scene.now)


def test_refusals_are_the_contracts_custom_errors_by_name() -> None:
    interfaces = Path(__file__).resolve().parents[3] / "contracts/interfaces"
    sources = [
        (interfaces / f"{name}.sol").read_text() for name in ("IPanel", "IVerifierRegistry", "IEscrow")
    ]
    errors = {name for source in sources for name in re.findall(r"^ +error (\w+)\(", source, re.MULTILINE)}
    named = (kind for kind in vars(refusals).values() if isinstance(kind, type) and kind is not Refusal)
    names = {kind.__name__ for kind in named if issubclass(kind, Refusal)}
    # The model has no endpoints, only its Court reports results, and only its hearings release what they hold.
    # The error of signatures is OpenZeppelin's.
    assert errors - names == {"UriTooLong", "NotCourt", "NotHeld"}
    assert names - errors == {"ECDSAInvalidSignature"}
