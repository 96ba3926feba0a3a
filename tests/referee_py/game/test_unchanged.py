"""Whatever book or rules refuse has a name and changes nothing. In Solidity: tests/contracts/Unchanged.t.sol."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from referee_py.errors import InvalidProof
from referee_py.game import refusals
from referee_py.game.jobs import commitment
from referee_py.game.refusals import Refusal
from referee_py.game.state import Reveal
from referee_py.program import MODE_REPOPS_F32
from referee_py.rounding.mode import Rounding

from .story import STAKE, Story, claim, who

SALT = bytes(32)


def snapshot(story: Story) -> list[dict[str, object]]:
    """All that a chain keeps."""
    book = story.book
    parts = [vars(part) for part in (book, book.panel, book.panel.registry, book.demands)]
    others = ("panel", "registry", "demands", "_settle", "_bond", "_jobs")
    plain = [{k: v for k, v in part.items() if k not in others} for part in parts]
    return copy.deepcopy(plain)


def refused(story: Story, name: str, act: Callable[[], object]) -> None:
    """The act is refused by that name, and the whole book is as it was."""
    before = snapshot(story)
    with pytest.raises((Refusal, InvalidProof)) as caught:
        act()
    assert type(caught.value).__name__ == name
    assert str(caught.value)
    assert snapshot(story) == before


def test_insufficient_stake_expect_no_slot_and_no_claim() -> None:
    story = Story()
    refused(story, "WrongStake", lambda: story.book.join(story.id, who(1), STAKE - 1, story.now))
    story.trained("a", "a")
    story.meaning(3, claim("b"))
    refused(
        story,
        "WrongStake",
        lambda: story.book.challenge(story.id, claim("b"), SALT, who(3), STAKE - 1, story.now),
    )
    story.challenged(3, "b")
    assert len(story.job.claims) == 3


def test_double_claim_expect_refused() -> None:
    story = Story().trained("a", "a")
    again = [
        ("AlreadyClaimed", 1, "b"),
        ("NothingCommitted", 3, "a"),
    ]
    for name, number, run in again:
        refused(
            story,
            name,
            lambda number=number, run=run: story.book.challenge(  # type: ignore[misc]
                story.id, claim(run), SALT, who(number), STAKE, story.now
            ),
        )
    story.challenged(3, "b")
    refused(
        story,
        "AlreadyClaimed",
        lambda: story.book.challenge(story.id, claim("c"), SALT, who(3), STAKE, story.now),
    )


def test_late_moves_expect_refused() -> None:
    story = Story().trained("a", "a")
    join = lambda: story.book.join(story.id, who(5), STAKE, story.now)  # noqa: E731
    reveal = lambda: story.book.reveal(story.id, claim("a"), bytes(32), SALT, who(1), 0, story.now)  # noqa: E731
    refused(story, "WrongPhase", join)
    refused(story, "WrongPhase", reveal)
    story.meaning(5, claim("b"))
    story.now = story.job.challenge_end
    challenge = lambda: story.book.challenge(story.id, claim("b"), SALT, who(5), STAKE, story.now)  # noqa: E731
    refused(story, "RootClosed", challenge)
    story.now -= 1
    challenge()


def test_late_move_of_a_match_expect_refused() -> None:
    story = Story().trained("a", "b")
    tree = [ord("a").to_bytes(32, "big")] * 4
    move = Reveal(0, tuple(tree))
    deadline = story.now + story.terms.rules.clock
    refused(story, "Late", lambda: story.book.play(1, [move], who(1), deadline + 1))
    story.book.play(1, [move], who(1), deadline)
    assert story.book.matches[1].state.posted == 1


def test_wrong_proof_expect_no_claim() -> None:
    story = Story().trained("a", "a")
    right = claim("b")
    wrong = (
        replace(right, last=bytes(32)),
        replace(right, last_path=right.last_path[:-1]),
        replace(right, root=bytes(32)),
    )
    for shown in wrong:
        story.meaning(3, shown)
        before = snapshot(story)
        with pytest.raises((Refusal, InvalidProof)):
            story.book.challenge(story.id, shown, SALT, who(3), STAKE, story.now)
        assert snapshot(story) == before
    story.meaning(3, right)
    story.book.challenge(story.id, right, SALT, who(3), STAKE, story.now)


def test_challenge_of_another_expect_refused() -> None:
    story = Story().trained("a", "a")
    refused_as = lambda name, number, run: refused(  # noqa: E731
        story, name, lambda: story.book.challenge(story.id, claim(run), SALT, who(number), STAKE, story.now)
    )
    refused_as("NothingCommitted", 3, "b")
    refused(
        story, "EmptyCommitment", lambda: story.book.commit_challenge(story.id, bytes(32), who(3), story.now)
    )
    story.meaning(3, claim("b"))
    refused_as("WrongCommitment", 3, "c")
    # Who sees the claim on its way commits to it in the same second at the earliest.
    story.meaning(4, claim("b"))
    story.now -= 1
    refused_as("TooSoon", 4, "b")
    story.book.challenge(story.id, claim("b"), SALT, who(3), STAKE, story.now)
    story.now += 1
    refused_as("WrongStake", 4, "b")


def test_logs_in_a_mode_without_them_expect_no_claim() -> None:
    story, shown, logs = Story(slots=1), claim("a"), b"L" * 32
    story.book.join(story.id, who(1), STAKE, story.now)
    where = (31337, story.book.address, story.id, who(1))
    hashed = commitment(*where, shown.root, shown.last, logs, SALT)
    story.book.commit(story.id, hashed, who(1), story.now)
    reveal = partial(story.book.reveal, story.id, shown)
    refused(story, "WrongCommitment", lambda: reveal(bytes(32), SALT, who(1), 0, story.now))
    refused(story, "UnexpectedLogs", lambda: reveal(logs, SALT, who(1), 0, story.now))


@pytest.mark.parametrize("mode", [MODE_REPOPS_F32, Rounding().mode])
def test_nothing_revealed_expect_no_challenge(mode: int) -> None:
    story = Story(slots=1, mode=mode)
    story.now = story.job.reveal_end
    challenge = lambda: story.book.challenge(story.id, claim("b"), SALT, who(5), STAKE, story.now)  # noqa: E731
    refused(story, "NothingRevealed", challenge)


def test_every_refusal_has_a_name_of_the_contract() -> None:
    names = {kind.__name__ for kind in Refusal.__subclasses__()}
    assert {"WrongStake", "AlreadyClaimed", "RootClosed", "WrongPhase", "Late", "NotSpokesman"} <= names
    assert issubclass(refusals.Late, Refusal)
