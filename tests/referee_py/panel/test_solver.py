"""The move that is due, from each party."""

from __future__ import annotations

from referee_py.commit import Record
from referee_py.panel.solver import plan, seat
from referee_py.panel.state import Move

from .scene import NEITHER, RIGHT, SPOKESMEN, STRANGER, VERIFIERS, WRONG, Scene
from .test_hearing import accused


def due(scene: Scene, me: str, right: Record | None = RIGHT) -> Move | None:
    """Return the move that is due, after checking that the rules accept it."""
    move = plan(scene.state, scene.terms, me, right, scene.now)
    value = scene.terms.stake if move == scene.appeal else 0
    assert move is None or scene.refused(move, me, value) is None
    return move


def test_verdict_against_the_right_record_expect_its_spokesman_appeals() -> None:
    scene = Scene().voted(WRONG, 0)
    assert due(scene, SPOKESMEN[0]) == scene.appeal
    for me in (SPOKESMEN[1], STRANGER, VERIFIERS[0]):
        assert due(scene, me) is None
    assert due(scene, SPOKESMEN[0], None) is None, "it does not know"
    assert due(scene, SPOKESMEN[0], WRONG) is None, "it has found the verdict right"


def test_verdict_against_a_wrong_record_expect_no_appeal() -> None:
    scene = Scene().voted(NEITHER, 0)
    assert due(scene, SPOKESMEN[1]) is None
    assert due(scene, SPOKESMEN[0]) == scene.appeal
    assert due(scene, SPOKESMEN[0], NEITHER) is None
    assert due(Scene().voted(RIGHT, 0), SPOKESMEN[1]) is None


def test_periods_over_expect_anybody_goes_on() -> None:
    scene = Scene(threshold=2).voted(RIGHT, 0)
    for me in (*SPOKESMEN, STRANGER):
        assert due(scene, me) is None
    scene.over()
    for me in (*SPOKESMEN, STRANGER):
        assert due(scene, me) == scene.escalate
    ruled = Scene().voted(WRONG, 0).over()
    assert due(ruled, SPOKESMEN[0]) == ruled.proceed, "too late for an appeal"


def test_overruled_expect_signers_stand_by_what_is_right_and_never_proceed_against_themselves() -> None:
    scene = accused(0, 1)
    assert due(scene, VERIFIERS[0]) == scene.stand(RIGHT)
    for me in (*SPOKESMEN, STRANGER, VERIFIERS[2]):
        assert due(scene, me) is None
    lie = Scene().voted(WRONG, 0).appealed(0).tried(0b10)
    assert due(lie, VERIFIERS[0]) is None, "it knows better now"
    for later in (scene, lie):
        later.over()
        assert due(later, VERIFIERS[0]) is None
        assert due(later, SPOKESMEN[0]) == later.proceed


def test_while_a_trial_runs_expect_no_move_and_seats() -> None:
    appeal = Scene().voted(WRONG, 0).appealed(0)
    assert [seat(appeal.state, appeal.terms, me) for me in (*SPOKESMEN, STRANGER)] == [0, 1, None]
    stand = accused(0)
    assert seat(stand.state, stand.terms, SPOKESMEN[1]) is None, "no trial runs"
    stand.play(stand.stand(RIGHT), VERIFIERS[0])
    assert [seat(stand.state, stand.terms, me) for me in (VERIFIERS[0], *SPOKESMEN)] == [0, None, 1]
    done = appeal.copy().tried(0b11)
    for scene in (appeal, stand, done):
        for me in (*SPOKESMEN, *VERIFIERS, STRANGER):
            assert due(scene, me) is None
