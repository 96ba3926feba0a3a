"""All games of an honest party's daemon against strangers: it loses nothing, and no wrong run that it could know is
accepted. And the search sees errors: with a decision that is known to be wrong, it finds the loss."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.model.chain_model import ChainModel
from tests.model.pairing import Pairing
from trainer_node.chain import JobView
from trainer_node.play.actions import JobAction
from trainer_node.roles.sampling.decide import forsaken
from trainer_node.run.refutation import Refuted

from . import roles
from .board import COARSE, FINE, Board, Left, Times
from .roles import Challenger, Role, Sampler, Trainer, challenges, decides
from .rows import ROWS, Row, searched
from .runs import HONEST, RIGHT, ROOTS
from .search import Search


def found(role: Role, times: Times, left: Left) -> Search:
    """Search until something is violated."""
    return Search(role, times, left, most=1).run()


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=str(r), marks=pytest.mark.slow if r.slow else ()) for r in ROWS]
)
@pytest.mark.timeout(7200)
def test_every_game(row: Row) -> None:
    search = searched(row)
    assert not search.violations, search.violations[0]
    assert search.longest <= row.bound
    assert search.ends["accepted right"], "the play is worth something only if the honest party may win"


# --- the search sees errors --------------------------------------------------------------------------------------


def test_the_search_finds_an_ally_who_plays_first_where_a_lost_refutation_opens_no_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without R2 (docs/protocol.md, section 6) nobody may wait for another's refutation."""
    after = Pairing._end_refutation

    def forgets(model: ChainModel, job_id: int, refuted: int, refutation: int, now: int) -> None:
        job = model.jobs[job_id]
        group, end = job.groups[refuted], job.reclaim_end
        before = group.refutable_until
        after(model, job_id, refuted, refutation, now)
        if not group.dead:
            group.refutable_until, job.reclaim_end = before, end

    monkeypatch.setattr(Pairing, "_end_refutation", forgets)
    told, path = found(Sampler(1, withholds=False, replays=False), FINE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert any(step.startswith("/ loses") for step in path)


def test_the_search_finds_one_claim_for_each_account() -> None:
    """A sampler that refutes one lie alone leaves the second one to nobody."""

    def once(board: Board, job: object, lies: object) -> list:
        staked = any(claim.owner == HONEST for claim in board.view.claims)
        return [] if staked else decides(board, board.view, lies)[:1]  # type: ignore[arg-type]

    told, path = found(Sampler(2, decide=once, withholds=False, replays=False), COARSE, Left(2)).violations[0]
    assert told in ("v is accepted", "w is accepted")
    assert {"finds w", "finds v", "refutes"} <= set(path)


def test_the_search_finds_that_a_lost_refutation_is_taken_for_the_duty_done() -> None:
    """A sampler that keeps silent once anybody has refuted the root, lost or not."""

    def silent(board: Board, job: object, lies: object) -> list:
        told = {g.refutes for g in board.view.groups if g.refutes is not None}
        due = decides(board, board.view, lies)  # type: ignore[arg-type]
        return [lie for lie in due if board.view.group_of_root(lie.against).index not in told]  # type: ignore[union-attr]

    told, path = found(Sampler(1, decide=silent, withholds=False, replays=False), FINE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert "right refutation of w" in path or "refutation of w" in path


def test_the_search_finds_a_whole_run_that_is_not_begun_once_the_challenges_are_over() -> None:
    """The right root may be lost in Closing, and be claimed again by who replays the whole then."""

    def before_the_end(board: Board, wrong: set[bytes]) -> float:
        return board.job.challenge_end - board.now

    told, path = found(Sampler(1, time_left=before_the_end), FINE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert "gets nothing of w" in path


def test_the_search_finds_a_withheld_root_that_dies_and_comes_back_in_the_last_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sampler that looks at living roots alone begins too late to replay the whole."""
    monkeypatch.setattr(roles, "at_large", lambda _, group, __: not group.dead)
    told, path = found(Sampler(1), FINE, Left(3)).violations[0]
    assert told in ("v is accepted", "w is accepted")
    assert "gets nothing of w" in path
    assert any(step.startswith(("w loses", "r+w loses")) for step in path)


def test_the_search_finds_a_challenger_that_leaves_a_claimed_root_to_its_claimants() -> None:
    def trusts(board: Board) -> list[JobAction]:
        claimed = board.view.group_of_root(ROOTS[RIGHT]) is not None
        return [act for act in challenges(board) if not (claimed and act is JobAction.CHALLENGE)]

    told, path = found(Challenger(1, decide=trusts), COARSE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert any(step.startswith("r loses") for step in path)


def test_the_search_finds_a_trainer_that_answers_no_request() -> None:
    told, path = found(Trainer(1, responds=False), COARSE, Left(1, requests=1)).violations[0]
    assert told.startswith("the honest party loses")
    assert path[-1] == "r is withheld"


def test_the_search_finds_a_sampler_that_leaves_a_lie_to_another_ones_right_claim() -> None:
    """Only a claim of our own plays for certain: strangers give theirs away, when it is too late to refute."""

    def trusting(board: Board, job: JobView, lies: Sequence[Refuted]) -> list[Refuted]:
        right = job.group_of_root(ROOTS[RIGHT])
        return [] if right is not None and not right.dead else decides(board, job, lies)

    role = Sampler(1, decide=trusting, withholds=False, replays=False)
    told, path = found(role, COARSE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert any(step.startswith("r loses") for step in path)


# --- a late root that nobody serves -------------------------------------------------------------------------------


def test_the_search_finds_that_nobody_claims_the_right_root_before_a_late_one_that_nobody_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sampler that refutes the lie that it has found, and replays the whole only once a second one, of the last
    second of the challenge phase, is withheld: it knows the right root, and cannot claim it."""
    monkeypatch.setattr(roles, "forsaken", lambda *_, **__: False)
    told, path = found(Sampler(1), FINE, Left(2)).violations[0]
    assert told == "v is accepted"
    assert {"finds w", "claim of v", "gets nothing of v"} <= set(path)


def test_the_search_finds_a_late_root_that_hides_a_lie_while_it_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second lie comes before the first is found. It may be right until its data are withheld: too late."""
    monkeypatch.setattr(roles, "forsaken", lambda *known, **_: forsaken(*known))
    told, path = found(Sampler(1), COARSE, Left(2)).violations[0]
    assert told == "v is accepted"
    assert path.index("claim of v") < path.index("finds w")


def test_the_search_finds_what_is_left_of_a_root_that_nobody_serves_where_the_whole_is_too_much() -> None:
    """Known and told (docs/security.md, what is open): who would not replay a whole run has nothing but what it finds
    in parts."""
    told, path = found(Sampler(1, replays=False), FINE, Left(2)).violations[0]
    assert told == "w is accepted"
    assert "gets nothing of w" in path
