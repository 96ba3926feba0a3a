"""What a verifier does about a hearing, as a function of its state, our judgement and the instant."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.commit import NO_LOG, Record
from referee_py.panel.state import HearingPhase, HearingState, HearingTerms, Submission, hearing_id
from referee_py.walk.dispute import Dispute, dispute_hash
from trainer_node.chain import HearingInfo
from trainer_node.chain.outbox import Value
from trainer_node.play.verdicts import Act, Decision, Judged, Signed, decide, may_stake
from trainer_node.roles.acceptance import signature
from trainer_node.run.trial_cost import NO_TRIAL, TrialCost
from trainer_node.settings.sections import Policy
from trainer_node.stake.admission import Means
from trainer_node.stake.judge import first

from ..desk import PROGRAM, REFEREE, TERMS, job, rules

ME, OTHER, STRANGER = ("0x" + digits * 20 for digits in ("aa", "bb", "cc"))
UNTIL = 1100
NOW = UNTIL - 1
STRUCTURE = PROGRAM.nodes[8]
RIGHT, WRONG = (Record(STRUCTURE.hash(), (), (bytes([k]) * 32,), NO_LOG) for k in (1, 2))
NOTHING_SIGNED = Signed((), 0, 0, Means(0.0, 0.0, 1))
JUDGED = Judged(RIGHT, NO_TRIAL)


def hearing(phase: HearingPhase, hidden: str | None = None, **state: Any) -> HearingInfo:
    """Return a hearing of match 101 between two strangers, of whom side 1 has the right record."""
    dispute = Dispute((WRONG, RIGHT), STRUCTURE.encode(), TERMS.mode)
    records = WRONG.hash(), RIGHT.hash()
    at = Submission(101, REFEREE, 1, 7, 8, (OTHER, STRANGER), records, dispute_hash(dispute))
    terms = HearingTerms(hearing_id(REFEREE, 101), at, dispute, rules(), 1, (ME,), 1, REFEREE)
    return HearingInfo(HearingState(phase, until=UNTIL, **state), terms, {}, Value(1, 1), hidden)


def signed(record: Record, phase: HearingPhase = HearingPhase.DEFENCE) -> HearingInfo:
    """Return a hearing after our vote for a record."""
    vote = ME, record.hash()
    return hearing(phase, verdict=record.hash(), votes=(vote,), voters=(ME,))


def decided(
    found: HearingInfo,
    judged: Judged | None,
    now: int = NOW,
    signed: Signed = NOTHING_SIGNED,
    number: int = 1,
    **changed: Any,
) -> Decision:
    settings: Any = SimpleNamespace(
        policy=Policy(),
        allow_probable_bounds=False,
        limits=SimpleNamespace(max_period_s=changed.pop("max_period_s", 10**6)),
        latency_s=0.0,
    )
    vars(settings).update(changed)
    return decide(found, ME, judged, now, lambda: first(signature(job(number), judged, signed, settings)))


def act(found: HearingInfo, judged: Judged | None, now: int = NOW) -> Act:
    return decided(found, judged, now).act


def test_a_vote_is_cast_with_a_judgement_and_only_once() -> None:
    called = hearing(HearingPhase.VOTING)
    assert act(called, None) is Act.JUDGE
    assert act(called, JUDGED) is Act.VOTE
    assert act(hearing(HearingPhase.VOTING, voters=(ME,)), JUDGED) is Act.WAIT
    assert act(called, JUDGED, now=UNTIL) is Act.KEEP_GOING, "the court is to judge it"


@pytest.mark.parametrize(
    ("caution", "words"),
    [
        ({"max_period_s": 999}, "max_period_s allows 999"),
        ({"latency_s": 1000.0}, "appeal period has 1000 s"),
        ({"policy": Policy(programs=("00" * 32,))}, "policy.programs"),
    ],
)
def test_what_would_be_refused_is_not_even_judged(caution: dict[str, Any], words: str) -> None:
    found = decided(hearing(HearingPhase.VOTING), None, **caution)
    assert found.act is Act.REFUSE
    assert words in found.reason


def test_a_trial_that_takes_longer_than_the_clock_is_not_signed_for_and_is_played_once_signed() -> None:
    long = Judged(RIGHT, TrialCost(8, "mm", 1 << 30, 501.0))
    found = decided(hearing(HearingPhase.VOTING), long)
    assert found.act is Act.REFUSE
    assert "1002 s" in found.reason
    assert act(signed(RIGHT), long) is Act.STAND


def test_verdicts_that_cannot_be_tried_at_once_are_not_all_signed_for() -> None:
    """Whoever is both spokesmen and the appellant in many hearings lets all their trials begin in the same minute."""
    long = Judged(RIGHT, TrialCost(8, "mm", 1 << 28, 100.0))
    signed = Signed((), 10**30, 1, Means(0.0, 0.0, 2))
    reasons = []
    for number in range(1, 21):
        found = decided(hearing(HearingPhase.VOTING), long, signed=signed, number=number)
        if found.act is Act.VOTE:
            signed = replace(signed, bonds=(*signed.bonds, signed.bond(job(number), long)))
        else:
            assert found.act is Act.REFUSE
            reasons.append(found.reason)
    assert len(signed.bonds) == 9, "the longest, and eight on two lanes, twice: 1,000 s"
    assert "with 10 verdicts signed at once" in reasons[0]
    stood_by = hearing(HearingPhase.DEFENCE, verdict=RIGHT.hash(), votes=((ME, RIGHT.hash()),), voters=(ME,))
    poor = replace(signed, bonds=signed.bonds[:1], spare=0)
    assert decided(hearing(HearingPhase.VOTING), long, signed=poor).act is Act.REFUSE
    played = decided(stood_by, long, signed=poor)
    assert played.act is Act.STAND, "what is signed is defended at any cost"


def test_a_signer_stands_by_what_is_right_and_by_nothing_else() -> None:
    assert act(signed(RIGHT), None) is Act.JUDGE
    assert act(signed(RIGHT), JUDGED) is Act.STAND
    assert act(signed(WRONG), JUDGED) is Act.WAIT
    assert act(signed(RIGHT), JUDGED, now=UNTIL) is Act.WAIT, "it does not end its own time"
    others = hearing(HearingPhase.DEFENCE, verdict=RIGHT.hash(), votes=((OTHER, RIGHT.hash()),))
    assert act(others, None) is Act.WAIT, "another's verdict needs no judgement of ours"
    assert act(others, None, now=UNTIL) is Act.KEEP_GOING


def test_hidden_votes_may_be_ours() -> None:
    found = hearing(HearingPhase.DEFENCE, "no events")
    decision = decided(found, JUDGED, UNTIL)
    assert (decision.act, decision.reason) == (Act.UNREADABLE, "no events")


@pytest.mark.parametrize("phase", [HearingPhase.TRIAL, HearingPhase.STAND])
def test_in_a_trial_its_own_solver_plays(phase: HearingPhase) -> None:
    assert act(signed(RIGHT, phase), None) is Act.TRY


def test_a_verdict_stands_once_nobody_has_appealed() -> None:
    assert act(signed(RIGHT, HearingPhase.RULED), None) is Act.WAIT
    assert act(signed(RIGHT, HearingPhase.RULED), None, now=UNTIL) is Act.KEEP_GOING


def test_a_bond_may_be_at_stake_from_the_call_for_votes_until_no_vote_of_ours_is_left() -> None:
    assert may_stake(hearing(HearingPhase.VOTING), ME, refused=False)
    assert not may_stake(hearing(HearingPhase.VOTING), ME, refused=True)
    assert may_stake(hearing(HearingPhase.VOTING, voters=(ME,)), ME, refused=True)
    assert may_stake(signed(WRONG, HearingPhase.STAND), ME, refused=False)
    assert may_stake(hearing(HearingPhase.TRIAL, "no events"), ME, refused=True)
    assert not may_stake(hearing(HearingPhase.TRIAL, voters=(OTHER,)), ME, refused=False)
