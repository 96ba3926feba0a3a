"""Decisions of trainer and challenger, as a table of situations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from referee_py.execute import RunClaim as Result
from referee_py.jobs import EMPTY_COMMITMENT, Rules
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.program.terms import Terms
from trainer_node.chain import ClaimView, Group, JobPhase, JobView, Trainer
from trainer_node.play.actions import (
    JobAction,
    challenger_actions,
    disagreements,
    stands_for,
    trainer_actions,
)
from trainer_node.play.salts import Salts
from trainer_node.run.refutation import Refuted
from trainer_node.settings.extent import Mode
from trainer_node.stake.policy import too_uncertain
from trainer_node.storage.database import Database

ME, OTHER = "0x" + "aa" * 20, "0x" + "bb" * 20
RIGHT, WRONG = b"\x01" * 32, b"\x02" * 32
RESULT = Result(RIGHT, bytes(32), ())
ROOT = bytes(32)
NOW = 50


def job(phase: JobPhase, **changes: object) -> JobView:
    base = JobView(
        id=1,
        phase=phase,
        program=Terms(1, 1, 1, 1, 1, 10, ROOT, ROOT, ROOT, ROOT, (1,)),
        program_file=ROOT,
        uri="http://client",
        referee="0x" + "cc" * 20,
        slots=2,
        stake=1,
        low_fee=1,
        high_fee=1,
        train_period=1,
        watch_period=0,
        reveal_period=1,
        challenge_period=1,
        rules=Rules(1, 1, 1, 1),
        verifiers=(),
        client=OTHER,
        posted=0,
        reward=1,
        commit_end=0,
        reveal_end=0,
        challenge_end=NOW + 1,
        reclaim_end=0,
        commitments=0,
        reveals=0,
        open_matches=0,
        waiting=None,
        founded=0,
        reopened=0,
        accepted_root=ROOT,
        accepted_last=ROOT,
        logs=ROOT,
        finder=None,
        trainers=(),
        claims=(),
        groups=(),
        base_fee=0,
        stake_gas=1,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def claimed(phase: JobPhase, *roots: bytes, owner: str = OTHER, **changes: object) -> JobView:
    claims = tuple(ClaimView(i, owner, 1, i, True, False, False, "") for i in range(len(roots)))
    groups = tuple(Group(i, root, ROOT, 0, 0, 0, 0, (i,)) for i, root in enumerate(roots))
    return job(phase, claims=claims, groups=groups, **changes)


def slot(commitment: bytes = EMPTY_COMMITMENT, revealed: bool = False) -> dict[str, object]:
    return {"trainers": (Trainer(ME, revealed, 1, commitment),)}


FULL = {"trainers": (Trainer(OTHER, False, 1, ROOT), Trainer("0x" + "dd" * 20, False, 1, ROOT))}


@pytest.mark.parametrize(
    ("situation", "own", "willing", "acts"),
    [
        (job(JobPhase.TRAINING), None, True, [JobAction.JOIN]),
        (job(JobPhase.TRAINING), None, False, []),
        (job(JobPhase.TRAINING, **FULL), None, True, []),
        (job(JobPhase.TRAINING, **slot()), None, True, []),
        (job(JobPhase.TRAINING, **slot()), RESULT, True, [JobAction.COMMIT]),
        (job(JobPhase.TRAINING, **slot(b"\x01" * 32)), RESULT, True, []),
        (job(JobPhase.REVEAL, **slot(b"\x01" * 32)), RESULT, True, [JobAction.REVEAL]),
        (job(JobPhase.REVEAL, **slot(b"\x01" * 32)), None, True, []),
        (job(JobPhase.REVEAL, **slot()), RESULT, True, []),
        (job(JobPhase.REVEAL, **slot(b"\x01" * 32, True)), RESULT, True, []),
        (claimed(JobPhase.CLOSING, RIGHT, owner=ME), RESULT, True, [JobAction.FINALIZE]),
        (claimed(JobPhase.CLOSING, RIGHT, owner=ME, open_matches=1), RESULT, True, []),
        (claimed(JobPhase.CLOSING, RIGHT, owner=ME, reclaim_end=NOW + 1), RESULT, True, []),
        (claimed(JobPhase.CLOSING, RIGHT, owner=ME, reclaim_end=NOW), RESULT, True, [JobAction.FINALIZE]),
        (claimed(JobPhase.CLOSING, RIGHT), RESULT, True, []),
    ],
)
def test_a_trainer(situation: JobView, own: Result | None, willing: bool, acts: list[JobAction]) -> None:
    assert trainer_actions(situation, ME, own, NOW, willing=willing) == acts


@pytest.mark.parametrize("own", [None, RESULT])
def test_a_trainer_that_cannot_be_in_time_gives_its_slot_back_unless_it_has_committed(
    own: Result | None,
) -> None:
    def acts(situation: JobView) -> list[JobAction]:
        return trainer_actions(situation, ME, own, NOW, willing=True, keeps=False)

    assert acts(job(JobPhase.TRAINING, **slot())) == [JobAction.RESIGN]
    assert acts(job(JobPhase.TRAINING, **slot(b"\x01" * 32))) == []
    assert acts(job(JobPhase.REVEAL, **slot())) == []
    assert acts(job(JobPhase.TRAINING)) == [JobAction.JOIN]


DEAD = claimed(JobPhase.CHALLENGE, RIGHT, WRONG)
DEAD = replace(DEAD, groups=(replace(DEAD.groups[0], spokesman=1, until=NOW + 1), DEAD.groups[1]))


def later(until: int = NOW + 1, members: int = 1, spokesman: int = 1) -> JobView:
    """Return a job after its challenge phase whose right root has this many claims, `spokesman` of which have lost."""
    right = replace(DEAD.groups[0], until=until, members=tuple(range(members)), spokesman=spokesman)
    return replace(DEAD, phase=JobPhase.CLOSING, groups=(right, DEAD.groups[1]))


@pytest.mark.parametrize(
    ("situation", "own", "mode", "acts"),
    [
        (claimed(JobPhase.CHALLENGE, WRONG), RESULT, Mode.CHALLENGE, [JobAction.CHALLENGE]),
        (claimed(JobPhase.CHALLENGE, WRONG), RESULT, Mode.DEFEND, []),
        (claimed(JobPhase.CHALLENGE, WRONG), RESULT, Mode.WATCH, []),
        (claimed(JobPhase.CHALLENGE, RIGHT), RESULT, Mode.CHALLENGE, []),
        (claimed(JobPhase.CHALLENGE, WRONG, RIGHT), RESULT, Mode.CHALLENGE, []),
        # The right claim's spokesman gave it away: it is claimed again.
        (DEAD, RESULT, Mode.CHALLENGE, [JobAction.CHALLENGE]),
        (later(), RESULT, Mode.CHALLENGE, [JobAction.CHALLENGE]),
        (later(until=NOW), RESULT, Mode.CHALLENGE, []),
        # The remaining spokesman may give it away, too: it is claimed behind him, unless that has been done.
        (later(members=2), RESULT, Mode.CHALLENGE, [JobAction.CHALLENGE]),
        (later(members=3), RESULT, Mode.CHALLENGE, []),
        (later(members=3, spokesman=2, until=0), RESULT, Mode.CHALLENGE, [JobAction.CHALLENGE]),
        (later(spokesman=0), RESULT, Mode.CHALLENGE, []),
        (claimed(JobPhase.CLOSING, WRONG), RESULT, Mode.CHALLENGE, []),
        # With withheld logs nothing will be accepted.
        (replace(DEAD, finder=OTHER), RESULT, Mode.CHALLENGE, []),
        # SAFETY: a party that could not replay does not dispute.
        (claimed(JobPhase.CHALLENGE, WRONG), None, Mode.CHALLENGE, []),
        (claimed(JobPhase.CHALLENGE, WRONG, owner=ME), RESULT, Mode.CHALLENGE, []),
        (claimed(JobPhase.REVEAL, WRONG), RESULT, Mode.CHALLENGE, []),
        (job(JobPhase.CHALLENGE), RESULT, Mode.CHALLENGE, []),
    ],
)
def test_a_challenger(situation: JobView, own: Result | None, mode: Mode, acts: list[JobAction]) -> None:
    assert challenger_actions(situation, ME, own, mode, NOW) == acts


ROUNDINGS = [Rounding(b, bounds, form) for b in (26, 32) for bounds in Bounds for form in Form]


@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_who_chooses_data_may_make_a_result_wrong_that_is_within_probable_bounds(rounding: Rounding) -> None:
    """The arithmetic is in rounded/test_chosen_data.py."""
    situation = job(JobPhase.TRAINING)
    assert too_uncertain(situation, False) is None, "repops-f32"
    rounded = replace(situation, program=replace(situation.program, mode=rounding.mode))
    reason = too_uncertain(rounded, False)
    assert (reason is not None) == (rounding.bounds is Bounds.PROBABLE)
    assert reason is None or "allow_probable_bounds" in str(reason)
    assert too_uncertain(rounded, True) is None
    strange = replace(situation, program=replace(situation.program, mode=77))
    assert too_uncertain(strange, False) is None, "a job with a referee of its own"


def test_disagreement_needs_an_own_result() -> None:
    situation = claimed(JobPhase.CHALLENGE, RIGHT, WRONG)
    assert [group.root for group in disagreements(situation, RESULT)] == [WRONG]
    assert disagreements(situation, None) == []


def test_a_strangers_refutation_with_the_root_of_our_claim_is_its_own_to_play() -> None:
    """A root that is wrong in one leaf, refuted there by an ally of its author: with the root of our claim."""
    wrong = Group(1, WRONG, bytes(32), 7, 0, 0, 0, (1,))
    refutation = Group(2, RIGHT, bytes(32), 7, 0, 0, 0, (2,), refutes=1)
    claim = Group(0, RIGHT, bytes(32), 7, 0, 0, 0, (0,))
    ours = Refuted(RIGHT, bytes(32), (), against=WRONG)
    assert not stands_for(RESULT, (wrong, refutation))
    assert stands_for(RESULT, (wrong, claim))
    assert stands_for(ours, (refutation, wrong)), "our own refutation"
    assert not stands_for(ours, (claim, Group(3, b"\x03" * 32, bytes(32), 7, 0, 0, 0, (3,))))


def test_a_salt_is_stable_secret_and_bound_to_its_job() -> None:
    account, stranger = Account.from_key(b"\x01" * 32), Account.from_key(b"\x02" * 32)

    def salt_of(who: LocalAccount, chain_id: int, jobs: str, number: int) -> bytes:
        return Salts(who, Database(None)).of(chain_id, jobs, number)

    salt = salt_of(account, 1, ME, 7)
    assert len(salt) == 32
    assert salt == salt_of(account, 1, ME.upper().replace("X", "x"), 7)
    others = [(stranger, 1, ME, 7), (account, 2, ME, 7), (account, 1, OTHER, 7), (account, 1, ME, 8)]
    assert len({salt, *(salt_of(*other) for other in others)}) == 5
