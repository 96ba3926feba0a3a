"""Hearings and trials from views and events: an endpoint that hides or forges events is detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from referee_py.commit.structs import words
from referee_py.panel.state import HearingPhase, Submission
from referee_py.trial import (
    NOT_SHOWN,
    Answer,
    NodesDescend,
    NodesReveal,
    Post,
    ShowLeaf,
    ShowOutputs,
    Stage,
    apply,
    open_trial,
)
from referee_py.trial.calldata import position_hash
from referee_py.trial.solver import plan
from referee_py.walk.dispute import TrialTerms, dispute_hash
from tests.referee_py.trial.parties import Known, Setting
from tests.support.planned import moves_of
from trainer_node.chain.codec.hearing import HearingInfo, hearing_view
from trainer_node.chain.codec.trial import TrialInfo, trial_view
from trainer_node.chain.events import Event
from trainer_node.errors import RpcCorrupt

from ..desk import job, rules

PLAYERS = ("0x" + "aa" * 20, "0x" + "bb" * 20)
VOTERS = tuple("0x" + f"{n:02x}" * 20 for n in range(1, 5))
NOBODY = "0x" + "00" * 20
CLOCK = 1000


def setting() -> Setting:
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((30, 1000), (1000, 30))]
    made = Setting.of("mm", inputs, {}, 0.7, 0, 137)
    assert made is not None
    return made


SETTING = setting()
RECORDS = SETTING.dispute.records[0].hash(), SETTING.dispute.records[1].hash()
SUBMISSION = Submission(1, "0x" + "34" * 20, 1, 5, 3, PLAYERS, RECORDS, dispute_hash(SETTING.dispute))


def event(name: str, **args: Any) -> Event:
    return Event(name, args, 1, b"", 0)


def submitted(submission: Submission = SUBMISSION) -> Event:
    return event("Submitted", submission=words(submission), dispute=words(SETTING.dispute))


def attested(voter: str, record: bytes = RECORDS[0]) -> Event:
    return event("Attested", verifier=voter, record=record)


def hearing(*events: Event, **changes: Any) -> HearingInfo:
    raw = {
        "file": SUBMISSION.hash(),
        "until": 7,
        "phase": HearingPhase.RULED,
        "trials": 0,
        "side": 0,
        "losers": 0,
        "verdict": RECORDS[0],
        "players": (NOBODY, NOBODY),
        "bond": 0,
        "appealPeriod": 0,
        "appellant": 0,
        "defendant": NOBODY,
    }
    found = SimpleNamespace(**{**raw, **changes})
    slashed = [event.args["verifier"] for event in events if event.name == "Slashed"]
    votes = [event.args for event in events if event.name == "Attested"]
    signers = [v["verifier"] for v in votes if v["record"] == RECORDS[0] and v["verifier"] not in slashed]
    return hearing_view(5, found, signers, events, job(rules=rules()), 1, "0x" + "12" * 20)


def test_a_hearing_is_what_views_and_events_say() -> None:
    found = hearing(submitted(), attested(VOTERS[0]), attested(VOTERS[1], RECORDS[1]))
    assert found.terms.submission == SUBMISSION
    assert found.terms.dispute == SETTING.dispute
    assert found.state.signers(RECORDS[0]) == VOTERS[:1]
    assert (found.voted(VOTERS[1]), found.signed(VOTERS[1]), found.voted(VOTERS[2])) == (True, False, False)


def test_who_has_lost_its_bond_has_no_vote_and_the_last_one_takes_its_place() -> None:
    votes = [attested(voter) for voter in VOTERS]
    found = hearing(submitted(), *votes, event("Slashed", verifier=VOTERS[1], bond=1))
    assert found.state.signers(RECORDS[0]) == (VOTERS[0], VOTERS[3], VOTERS[2]), "as in the contract"
    assert found.state.voters == VOTERS


@pytest.mark.parametrize(
    "events",
    [
        (),
        (submitted(replace(SUBMISSION, node=4)),),
        (submitted(replace(SUBMISSION, dispute=bytes(32))),),
    ],
)
def test_a_hearing_without_its_submission_is_refused(events: Sequence[Event]) -> None:
    with pytest.raises(RpcCorrupt):
        hearing(*events)


@pytest.mark.parametrize("changes", [{"side": 2}, {"losers": 4}, {"phase": 9}, {"file": bytes(32)}])
def test_a_hearing_that_cannot_be_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(RpcCorrupt):
        hearing(submitted(), **changes)


# ---------------------------------------------------------------------- trials


class Play:
    """A trial by the rules, as the contract stores it and as its events tell it, after every move."""

    def __init__(self) -> None:
        self.state = open_trial(SETTING.dispute, PLAYERS, (CLOCK, CLOCK), 0)
        self.events = [event("TrialOpened")]
        self.known = Known(), Known()

    def raw(self) -> Any:
        s = self.state
        return SimpleNamespace(
            **{name: getattr(s, name) for name in ("stage", "tick", "output", "posted", "height", "index")},
            **{name: getattr(s, name) for name in ("element", "lo", "hi", "steps", "losers")},
            clock0=s.clock[0],
            clock1=s.clock[1],
            stateBytes=s.state_bytes,
            kind=s.entry.kind,
            written=s.entry.written,
            position=position_hash(s),
        )

    def view(self) -> TrialInfo:
        trial_terms = TrialTerms("0x" + "12" * 20, 5 << 8 | 1, PLAYERS, dispute_hash(SETTING.dispute))
        return trial_view(trial_terms, SETTING.dispute, self.raw(), self.events)

    def go(self, side: int) -> None:
        for move in moves_of(
            plan(self.state, SETTING.dispute, side, SETTING.sides[side], self.known[side], 1)
        ):
            before = self.state
            self.state = apply(before, SETTING.dispute, move, PLAYERS[side], 1)
            match move:
                case ShowOutputs():
                    for by, root in enumerate(move.roots):
                        if root != NOT_SHOWN:
                            self.events.append(event("OutputShown", side=by, root=root))
                case NodesReveal():
                    self.known[1 - side].revealed = move.children
                    self.events.append(event("NodesRevealed", side=side, children=move.children))
                case NodesDescend():
                    self.events.append(event("NodesDescended", node0=move.way.node0, node1=move.way.node1))
                case ShowLeaf():
                    self.known[1 - side].shown = move.leaf
                    self.events.append(event("LeafShown", side=side, leaf=move.leaf))
                case Post():
                    self.events.append(event("StatesPosted", lo=before.lo, hi=before.hi, states=move.states))
                case Answer():
                    lo, hi = self.state.lo, self.state.hi
                    self.events.append(event("StateAnswered", lo=lo, hi=hi, own=move.own))
            if self.state.steps and not before.steps:
                found = {"values": self.state.values, "first": self.state.agreed}
                self.events.append(event("ElementFound", steps=self.state.steps, **found))


def test_a_trial_is_read_back_after_every_move() -> None:
    play, seen = Play(), set[Stage]()
    while play.state.stage is not Stage.DONE:
        for side in (0, 1):
            play.go(side)
            found = play.view()
            seen.add(found.state.stage)
            assert found.state == play.state or play.state.stage is Stage.DONE
            assert found.dispute == SETTING.dispute
    assert play.state.losers == 0b10
    assert seen >= {Stage.OUTPUTS, Stage.WALK, Stage.POST, Stage.ANSWER, Stage.DONE}


def until(stage: Stage) -> Play:
    play = Play()
    while True:
        for side in (0, 1):
            play.go(side)
            if play.state.stage is stage:
                return play


def test_events_that_are_hidden_or_forged_are_noticed() -> None:
    play = until(Stage.ANSWER)
    told = play.events
    for spoiled in (
        [],
        [e for e in told if e.name != "StatesPosted"],
        [replace(e, args={**e.args, "states": b"\1" * 8}) if e.name == "StatesPosted" else e for e in told],
        [e for e in told if e.name != "ElementFound"],
    ):
        play.events = spoiled
        with pytest.raises(RpcCorrupt):
            play.view()
    play.events = told
    assert play.view().state.offer == play.state.offer


def test_what_was_revealed_belongs_to_its_position() -> None:
    play = until(Stage.WALK)
    assert play.view().children == (None, play.known[0].revealed)
    play.go(0)
    assert play.view().children == (None, None)
