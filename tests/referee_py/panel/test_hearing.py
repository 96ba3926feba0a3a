"""Hearings in scenarios: the results of votes, appeals, trials and silence, and the payments."""

from __future__ import annotations

import pytest

from referee_py.panel.state import HearingPhase
from referee_py.params import BURNED
from referee_py.trial import Stage
from referee_py.trial.solver import plan
from referee_py.walk.reason import Reason
from tests.referee_py.trial.parties import Known
from tests.support.planned import moves_of

from .scene import (
    APPEAL_PERIOD,
    BOND,
    CLOCK,
    NEITHER,
    PANEL,
    RIGHT,
    SPOKESMEN,
    STAKE,
    START,
    VERDICT_PERIOD,
    VERIFIERS,
    WRONG,
    Scene,
    setting,
)

HALF_STAKE, HALF_BOND = STAKE // 2, BOND // 2


# --- votes ------------------------------------------------------------------------------------------------------


def test_threshold_reached_expect_verdict_waits_and_bonds_held() -> None:
    scene = Scene(threshold=2).voted(WRONG, 0).voted(RIGHT, 1)
    assert (scene.state.phase, scene.decided) == (HearingPhase.VOTING, [])
    assert (scene.state.until, scene.holds()) == (START + VERDICT_PERIOD, [1, 1, 0])
    scene.voted(RIGHT, 2)
    assert scene.state.verdict == RIGHT.hash()
    assert (scene.state.phase, scene.state.until) == (HearingPhase.RULED, START + APPEAL_PERIOD)
    assert (scene.decided, scene.holds()) == ([], [1, 1, 1])
    assert scene.state.signers(RIGHT.hash()) == (VERIFIERS[1], VERIFIERS[2])


def test_verdict_for_neither_stands_expect_both_lose() -> None:
    scene = Scene().voted(NEITHER, 0).over()
    scene.play(scene.proceed)
    assert scene.decided == [(0b11, Reason.OPERATOR, (VERIFIERS[0],))]


def test_nobody_appeals_expect_verdict_stands_and_bonds_free() -> None:
    scene = Scene(threshold=2).voted(NEITHER, 0).voted(RIGHT, 1, 2).over()
    scene.play(scene.proceed)
    assert scene.decided == [(0b10, Reason.OPERATOR, (VERIFIERS[1], VERIFIERS[2]))]
    assert (scene.state.phase, scene.holds()) == (HearingPhase.DONE, [0, 0, 0])
    assert scene.bonds(0, 1, 2) == [BOND] * 3


# --- trials -----------------------------------------------------------------------------------------------------


def test_no_verifiers_expect_trial_at_once_between_the_spokesmen() -> None:
    scene = Scene(threshold=0, verifiers=0)
    assert (scene.state.phase, scene.state.trials, scene.state.until) == (HearingPhase.TRIAL, 1, 0)
    trial = next(iter(scene.panel.trials.values()))
    assert (trial.dispute, trial.state.players) == (scene.terms.dispute, SPOKESMEN)
    assert (trial.state.stage, trial.state.clock) == (Stage.OUTPUTS, (CLOCK, CLOCK))
    scene.tried(0b10)
    assert scene.decided == [(0b10, Reason.OPERATOR, ())]
    assert scene.state.phase is HearingPhase.DONE


def test_no_verifiers_trial_lost_by_the_clock_expect_timeout() -> None:
    assert Scene(0, 0).tried(0b11, late=True).decided == [(0b11, Reason.TIMEOUT, ())]


def test_no_verifiers_trial_really_played_expect_the_wrong_side_loses() -> None:
    scene = Scene(threshold=0, verifiers=0)
    number = scene.panel.trial_of(scene.terms.hearing_id)
    assert number is not None
    trial, sides = scene.panel.trials[number], setting().sides
    moves = moves_of(plan(trial.state, trial.dispute, 0, sides[0], Known(sides[1].outputs), scene.now))
    scene.panel.plead(number, moves, SPOKESMEN[0], scene.now)
    assert scene.decided == [(0b10, Reason.OPERATOR, ())]
    assert scene.panel.trial_of(scene.terms.hearing_id) is None


def test_no_verdict_in_time_expect_anybody_escalates_and_voters_go_free() -> None:
    scene = Scene(threshold=2).voted(WRONG, 0).voted(RIGHT, 1).over()
    scene.play(scene.escalate)
    assert (scene.state.phase, scene.state.losers, scene.holds()) == (HearingPhase.TRIAL, 0, [1, 1, 0])
    scene.tried(0b10)
    assert scene.decided == [(0b10, Reason.OPERATOR, ())]
    assert (scene.holds(), scene.bonds(0, 1)) == ([0, 0, 0], [BOND, BOND])


def test_wrong_appeal_expect_verdict_stands_and_half_the_bond_to_the_other_side() -> None:
    scene = Scene(threshold=2).voted(RIGHT, 0, 1).appealed(1)
    assert (scene.state.phase, scene.state.appellant, scene.state.losers) == (HearingPhase.TRIAL, 1, 0b10)
    assert (scene.state.bond, scene.state.players) == (STAKE, SPOKESMEN)
    scene.tried(0b10)
    assert scene.decided == [(0b10, Reason.OPERATOR, (VERIFIERS[0], VERIFIERS[1]))]
    assert scene.credits(*SPOKESMEN, BURNED) == [HALF_STAKE, 0, STAKE - HALF_STAKE]
    assert (scene.holds(), scene.state.bond, scene.conserved()) == ([0, 0, 0], 0, True)


def test_right_appeal_expect_bond_back_and_signers_accused() -> None:
    scene = Scene(threshold=2).voted(RIGHT, 2).voted(WRONG, 0, 1).appealed(0).tried(0b10)
    assert scene.decided == [(0b10, Reason.OPERATOR, ())], "the match does not wait for bonds"
    assert (scene.credits(*SPOKESMEN, BURNED), scene.state.bond) == ([0, 0, 0], STAKE), (
        "it is held until then"
    )
    assert (scene.state.phase, scene.state.side) == (HearingPhase.DEFENCE, 0)
    assert (scene.state.until, scene.holds()) == (START + APPEAL_PERIOD, [1, 1, 1])
    scene.over().play(scene.proceed)
    assert scene.bonds(0, 1, 2) == [0, 0, BOND], "who has signed what is right keeps its bond"
    assert scene.credits(*SPOKESMEN, BURNED) == [STAKE + 2 * HALF_BOND, 0, 2 * (BOND - HALF_BOND)]
    assert (scene.state.phase, scene.state.votes) == (HearingPhase.DONE, ((VERIFIERS[2], RIGHT.hash()),))
    assert (scene.holds(), scene.conserved()) == ([0, 0, 0], True)


def test_appeal_in_which_both_are_wrong_expect_whole_bond_burned() -> None:
    scene = Scene().voted(NEITHER, 0).appealed(1).tried(0b11)
    assert scene.credits(*SPOKESMEN, BURNED) == [0, 0, STAKE]
    assert scene.decided == [(0b11, Reason.OPERATOR, (VERIFIERS[0],))]
    assert scene.state.phase is HearingPhase.DONE


def test_verdict_for_neither_and_the_other_appeals_first_expect_the_right_side_cleared() -> None:
    scene = Scene().voted(NEITHER, 0).appealed(1)
    assert scene.state.losers == 0b11
    scene.tried(0b10)
    assert (scene.decided, scene.state.side) == ([(0b10, Reason.OPERATOR, ())], 0)
    assert scene.credits(*SPOKESMEN) == [0, 0], "the appellant has lost, but a signer may still be right"
    assert scene.refused(scene.stand(NEITHER), VERIFIERS[0]) is None
    scene.play(scene.stand(NEITHER), VERIFIERS[0]).tried(0b10)
    assert scene.bonds(0) == [0]
    assert scene.credits(*SPOKESMEN) == [HALF_STAKE + HALF_BOND, 0]
    assert (scene.state.bond, scene.conserved()) == (0, True)


def test_accuser_who_did_not_appeal_is_shown_wrong_expect_the_signer_has_the_half() -> None:
    scene = Scene().voted(NEITHER, 0).appealed(1).tried(0b10)
    scene.play(scene.stand(NEITHER), VERIFIERS[0]).tried(0b01)
    assert scene.credits(*SPOKESMEN, VERIFIERS[0], BURNED) == [0, 0, HALF_STAKE, STAKE - HALF_STAKE]
    assert (scene.state.phase, scene.bonds(0), scene.conserved()) == (HearingPhase.DONE, [BOND], True)


# --- signers that stand by a verdict ------------------------------------------------------------------------------


def accused(*signers: int) -> Scene:
    """Return a hearing whose honest signers are accused, because their side's spokesman did not play."""
    scene = Scene(threshold=len(signers)).voted(RIGHT, *signers).appealed(1)
    return scene.tried(0b01, late=True)


def test_honest_signer_stands_expect_all_cleared_and_the_match_as_it_ended() -> None:
    scene = accused(0, 1)
    assert scene.decided == [(0b01, Reason.TIMEOUT, ())]
    scene.play(scene.stand(RIGHT), VERIFIERS[1])
    assert (scene.state.phase, scene.state.defendant) == (HearingPhase.STAND, VERIFIERS[1])
    trial = list(scene.panel.trials.values())[1]
    assert trial.state.players == (VERIFIERS[1], SPOKESMEN[1])
    assert trial.dispute.records == (RIGHT, WRONG)
    scene.tried(0b10)
    assert (scene.state.phase, scene.bonds(0, 1), scene.holds()) == (
        HearingPhase.DONE,
        [BOND, BOND],
        [0, 0, 0],
    )
    assert len(scene.decided) == 1
    assert scene.credits(*SPOKESMEN, VERIFIERS[1], BURNED) == [0, 0, HALF_STAKE, STAKE - HALF_STAKE]
    assert (scene.state.bond, scene.conserved()) == (0, True)


def test_signer_who_loses_expect_its_bond_lost_and_the_others_with_time_again() -> None:
    scene = accused(0, 1, 2)
    scene.now += APPEAL_PERIOD - 1
    scene.play(scene.stand(RIGHT), VERIFIERS[0])
    scene.now += 2 * CLOCK
    scene.tried(0b01)
    assert (scene.state.phase, scene.state.until) == (HearingPhase.DEFENCE, scene.now + APPEAL_PERIOD)
    assert scene.bonds(0, 1, 2) == [0, BOND, BOND]
    assert scene.state.signers(RIGHT.hash()) == (VERIFIERS[2], VERIFIERS[1]), "the last takes its place"
    assert scene.refused(scene.stand(RIGHT), VERIFIERS[0]) == "NotSigner"
    scene.play(scene.stand(RIGHT), VERIFIERS[2]).tried(0b10)
    assert (scene.bonds(1, 2), scene.state.phase) == ([BOND, BOND], HearingPhase.DONE)
    assert scene.conserved()


def test_last_signer_loses_expect_done() -> None:
    scene = accused(0)
    scene.play(scene.stand(RIGHT), VERIFIERS[0]).tried(0b11)
    assert (scene.state.phase, scene.bonds(0), scene.holds()) == (HearingPhase.DONE, [0], [0, 0, 0])
    assert scene.credits(SPOKESMEN[1]) == [STAKE + HALF_BOND]


def test_bond_that_another_hearing_holds_expect_all_of_it_burned() -> None:
    """Otherwise a signer about to lose its bond could lose it to itself, in its own hearing, and keep half."""
    scene = accused(0)
    scene.registry.hold(VERIFIERS[0], PANEL)
    scene.over().play(scene.proceed)
    assert scene.credits(*SPOKESMEN, BURNED) == [0, STAKE, BOND]
    assert (scene.bonds(0), scene.state.phase, scene.conserved()) == ([0], HearingPhase.DONE, True)


def test_bond_that_another_hearing_took_expect_nothing_to_share() -> None:
    scene = accused(0)
    scene.registry.take(VERIFIERS[0], PANEL)
    scene.over().play(scene.proceed)
    assert (scene.credits(*SPOKESMEN, BURNED), scene.state.phase) == ([0, STAKE, 0], HearingPhase.DONE)


@pytest.mark.parametrize("side", [0, 1])
def test_records_of_a_signers_trial(side: int) -> None:
    """The accuser keeps its place; the verdict's record takes the other."""
    scene = Scene().voted(NEITHER, 0).appealed(side).tried(0b10 if side == 0 else 0b01)
    scene.play(scene.stand(NEITHER), VERIFIERS[0])
    number = scene.panel.trial_of(scene.terms.hearing_id)
    assert number is not None
    trial = scene.panel.trials[number]
    assert trial.dispute.records[side] == (RIGHT, WRONG)[side]
    assert trial.dispute.records[1 - side] == NEITHER
    assert trial.state.players[side] == SPOKESMEN[side]
    assert trial.state.players[1 - side] == VERIFIERS[0]
