"""Jobs and money as stories: who gets what when claims meet."""

from __future__ import annotations

import pytest

from referee_py.game.book import Book
from referee_py.game.escrow import BURNED
from referee_py.game.jobs import JobPhase, commitment
from referee_py.game.refusals import (
    AlreadyCollected,
    JobRuns,
    LostClaim,
    NoSuchClaim,
    Refusal,
    RootClosed,
    Settling,
    TooSoon,
    WrongStake,
)
from referee_py.game.state import Phase, Reason, Timeout
from referee_py.game.withheld import Withheld
from referee_py.rounding.mode import Rounding

from .story import CLIENT, JOBS, PANEL, REFEREE, REWARD, STAKE, Story, claim, who


def test_all_agree_expect_reward_split_and_remainder_to_the_first() -> None:
    story = Story().trained("a", "a").finalized()
    assert story.job.ended is JobPhase.ACCEPTED
    assert story.credits(who(1), who(2), CLIENT, BURNED) == [STAKE + 151, STAKE + 150, 0, 0]
    assert story.conserved(REWARD + 2 * STAKE)


def test_full_commitments_and_reveals_expect_phases_end_at_once() -> None:
    story = Story()
    assert story.job.phase(1099) is JobPhase.TRAINING
    assert story.job.phase(1100) is JobPhase.REVEAL
    story.now = 1007
    story.trained("a", "b")
    assert (story.job.commit_end, story.job.reveal_end, story.job.challenge_end) == (1007, 1007, 1097)


def test_nobody_claims_expect_client_gets_the_reward_back() -> None:
    story = Story()
    story.book.join(story.id, who(1), STAKE, story.now)
    story.finalized()
    assert story.job.ended is JobPhase.UNCLAIMED
    assert story.credits(CLIENT, who(1), BURNED) == [REWARD, 0, STAKE], "an unused slot is not free"


def test_challenger_wins_expect_half_of_the_lost_stake_and_the_reward() -> None:
    story = Story(slots=1).trained("a").challenged(7, "b").ended(1, 0b01).finalized()
    assert story.credits(who(1), who(7), BURNED) == [0, STAKE // 2 + STAKE + REWARD, STAKE // 2]
    assert story.conserved(REWARD + 2 * STAKE)


def test_verifiers_decide_expect_a_tenth_for_those_who_voted_so() -> None:
    story = Story().trained("a", "b").ended(1, 0b10, Reason.OPERATOR, (who(91), who(93)))
    assert story.credits(who(91), who(92), who(93)) == [STAKE // 20, 0, STAKE // 20]
    assert story.credits(who(1), BURNED) == [STAKE // 2 - STAKE // 10, STAKE - STAKE // 2]


def test_both_lose_expect_no_prize_and_both_roots_claimable_again() -> None:
    story = Story().trained("a", "b")
    story.now += 85
    story.ended(1, 0b11)
    assert story.credits(who(1), who(2), BURNED) == [0, 0, 2 * STAKE]
    ends = story.now + 90
    assert story.job.settle_end == story.job.groups[0].until == ends, "time to claim a right root again"
    story.now = ends - 2
    story.challenged(7, "a").finalized()
    assert story.credits(who(7)) == [2 * STAKE + REWARD]


def test_spokesman_loses_expect_next_member_speaks_for_the_group() -> None:
    story = Story(slots=3).trained("a", "b", "b").ended(1, 0b10)
    match = story.book.matches[2]
    assert match.terms.players == (who(1), who(3)), "the winner waits, so it is side 0"
    story.ended(2, 0b01).finalized()
    assert story.credits(who(3)) == [STAKE // 2 + STAKE + REWARD]


def test_claims_of_a_living_root_expect_the_next_speakers_at_twice_the_price_each() -> None:
    story = Story(slots=1).trained("a").challenged(7, "a").challenged(8, "a").challenged(9, "b")
    assert [one.stake for one in story.job.claims] == [STAKE, 2 * STAKE, 4 * STAKE, STAKE]
    assert story.book.matches[1].terms.players == (who(1), who(9))
    story.ended(1, 0b01)
    assert story.book.matches[2].terms.players == (who(7), who(9))
    story.ended(2, 0b01)
    assert story.credits(who(9)) == [STAKE // 2 + STAKE], "half of what each opponent had staked"
    story.ended(3, 0b10).finalized()
    assert story.credits(who(8)) == [STAKE // 2 + 4 * STAKE + REWARD], "it holds no slot, but speaks"
    assert story.conserved(REWARD + STAKE + story.staked)


def test_new_roots_expect_each_dearer_by_a_sixteenth() -> None:
    story = Story(slots=1).trained("a")
    for k in range(40):
        assert (
            story.book.price_of(story.id, claim("b" if k == 0 else chr(500 + k)).root)
            == STAKE + k * STAKE // 16
        )
        story.challenged(100 + k, "b" if k == 0 else chr(500 + k))
    assert (story.job.founded, story.job.followers) == (40, 0)
    assert story.book.price_of(story.id, claim("a").root) == 2 * STAKE


def test_value_above_the_price_expect_credited_and_below_it_refused() -> None:
    story = Story(slots=1).trained("a").challenged(7, "b", 3 * STAKE)
    assert story.credits(who(7)) == [2 * STAKE]
    assert story.job.claims[1].stake == STAKE
    with pytest.raises(WrongStake):
        story.challenged(8, "c", STAKE + STAKE // 16 - 1)
    assert story.conserved(REWARD + STAKE + story.staked)


# --- when the challenge phase is over -----------------------------------------------------------------------------


def closed(story: Story) -> Story:
    story.now = story.job.challenge_end
    return story


def test_new_root_after_the_challenge_phase_expect_refused() -> None:
    story = Story(slots=1).trained("a").challenged(7, "b")
    with pytest.raises(RootClosed):
        closed(story).challenged(8, "c")


def test_root_that_has_lost_no_claim_expect_no_further_one_after_the_challenge_phase() -> None:
    story = closed(Story(slots=1).trained("a").challenged(7, "b"))
    with pytest.raises(RootClosed):
        story.challenged(8, "a")
    story.ended(1, 0b10)
    with pytest.raises(RootClosed):
        story.challenged(8, "a")


def test_root_that_is_lost_expect_claimed_again_until_a_period_after() -> None:
    story = closed(Story(slots=1).trained("a").challenged(7, "b")).ended(1, 0b01)
    until = story.job.groups[0].until
    assert until == story.now + 90
    story.now = until - 2  # and a second goes by between commitment and claim
    story.challenged(8, "a")
    assert story.job.claims[2].stake == 2 * STAKE
    assert story.job.groups[0].until == story.now + 90, "so long something can be demanded of it"
    story.ended(2, 0b10)
    story.now = story.job.groups[0].until - 1
    with pytest.raises(RootClosed):
        story.challenged(9, "a")


def test_root_with_a_lost_claim_and_a_living_one_expect_claimed_as_long_as_it_lives() -> None:
    story = Story(slots=2).trained("a", "a").challenged(7, "b")
    closed(story).ended(1, 0b01)
    story.now += 10_000
    story.challenged(8, "a")
    assert story.job.groups[0].members == [0, 1, 3]


def test_end_expect_waits_for_who_may_claim_a_lost_root() -> None:
    story = closed(Story(slots=1).trained("a").challenged(7, "b")).ended(1, 0b01)
    for now in (story.now, story.job.settle_end - 1):
        with pytest.raises(Settling):
            story.book.finalize(story.id, now)
    story.finalized()
    assert story.job.accepted == 1


# --- collecting ---------------------------------------------------------------------------------------------------


def test_collect_expect_each_claim_once_and_no_lost_one() -> None:
    story = Story(slots=1).trained("a").challenged(7, "b")
    with pytest.raises(JobRuns):
        story.book.collect(story.id, 0)
    closed(story).ended(1, 0b10).now = 10_000
    story.book.finalize(story.id, story.now)
    assert story.credits(who(1)) == [STAKE // 2], "the prize, so far"
    assert story.conserved(REWARD + 2 * STAKE)
    story.book.collect(story.id, 0)
    assert story.credits(who(1)) == [STAKE // 2 + STAKE + REWARD]
    with pytest.raises(AlreadyCollected):
        story.book.collect(story.id, 0)
    with pytest.raises(LostClaim):
        story.book.collect(story.id, 1)
    with pytest.raises(NoSuchClaim):
        story.book.collect(story.id, 2)
    assert story.conserved(REWARD + 2 * STAKE)


def test_three_roots_expect_winner_meets_the_waiting_group() -> None:
    story = Story(slots=3).trained("a", "b", "c")
    assert story.job.waiting == 2
    story.ended(1, 0b01)
    assert story.book.matches[2].groups == (2, 1)
    with pytest.raises(Refusal, match="all its matches"):
        story.finalized()
    story.ended(2, 0b10).finalized()
    assert story.credits(who(3), who(2), BURNED) == [STAKE // 2 + STAKE + REWARD, STAKE // 2, STAKE]
    assert story.conserved(REWARD + 3 * STAKE)


def test_move_of_a_match_that_ended_expect_refused() -> None:
    story = Story().trained("a", "b")
    story.now += 11
    story.book.play(1, [Timeout()], who(5), story.now)
    assert story.book.matches[1].state.losers == 0b11
    with pytest.raises(Refusal):
        story.book.play(1, [Timeout()], who(5), story.now)
    with pytest.raises(Refusal, match="no match"):
        story.book.play(9, [Timeout()], who(5), story.now)


def test_batch_with_one_bad_move_expect_nothing_done() -> None:
    story = Story().trained("a", "b")
    story.now += 11
    before = story.book.matches[1].state
    with pytest.raises(Refusal):
        story.book.play(1, [Timeout(), Timeout()], who(5), story.now)
    assert story.book.matches[1].state is before


def test_withdraw_expect_paid_once() -> None:
    story = Story().trained("a", "a").finalized()
    assert story.book.withdraw(who(1)) == STAKE + 151
    assert story.conserved(REWARD + 2 * STAKE)
    with pytest.raises(Refusal):
        story.book.withdraw(who(1))


def test_another_cannot_copy_a_commitment() -> None:
    story, shown, salt = Story(), claim("a"), bytes(32)
    hashed = commitment(31337, JOBS, story.id, who(1), shown.root, shown.last, bytes(32), salt)
    for k in (1, 2):
        story.book.join(story.id, who(k), STAKE, story.now)
        story.book.commit(story.id, hashed, who(k), story.now)
    story.book.reveal(story.id, shown, bytes(32), salt, who(1), 0, story.now)
    with pytest.raises(Refusal, match="committed"):
        story.book.reveal(story.id, shown, bytes(32), salt, who(2), 0, story.now)


def test_rounded_job_expect_its_logs_kept_with_the_job_and_known_to_its_matches() -> None:
    logs = b"L" * 32
    story = Story(slots=1, mode=Rounding().mode, logs=logs).trained("a").challenged(7, "b")
    assert story.job.logs == logs
    assert story.book.matches[1].terms.logs == logs


def test_eighty_claims_expect_the_right_one_left() -> None:
    story = Story(slots=1).trained("a")
    for k in range(1, 80):
        story.challenged(100 + k, chr(1000 + k))
    while story.job.open_matches:
        number, match = next(
            item for item in story.book.matches.items() if item[1].state.phase is not Phase.DONE
        )
        story.ended(number, 0b10 if match.terms.players[0] == who(1) else 0b01)
    story.finalized()
    assert (story.job.ended, story.job.accepted) == (JobPhase.ACCEPTED, 0)
    assert story.conserved(REWARD + STAKE + story.staked)


# --- withheld logs --------------------------------------------------------------------------------------------------

DEMANDER, LOGS = who(50), b"L" * 32


def rounded() -> Story:
    """A job with logs, whose one trainer claims a."""
    return Story(slots=1, mode=Rounding().mode, logs=LOGS).trained("a")


def withheld(story: Story, demander: str = DEMANDER) -> Story:
    Withheld(story.book).forfeit(story.id, LOGS, True, demander, story.now)
    return story


def test_withheld_logs_expect_the_trainer_loses_at_once_and_the_job_ends_void() -> None:
    story = withheld(rounded())
    assert (story.job.ended, story.job.finder) == (JobPhase.NONE, DEMANDER)
    assert story.credits(DEMANDER, BURNED, CLIENT) == [STAKE // 2, STAKE - STAKE // 2, 0]
    assert story.job.settle_end == 0, "nothing will be accepted, so nobody needs time to claim"
    story.finalized()
    assert story.job.ended is JobPhase.VOID
    assert story.credits(who(1), CLIENT) == [0, REWARD]
    assert story.conserved(REWARD + STAKE)


def test_logs_withheld_twice_expect_the_first_is_the_finder() -> None:
    story = withheld(withheld(rounded()), who(51)).finalized()
    assert story.credits(DEMANDER, who(51)) == [STAKE // 2, 0]


def test_a_demand_where_logs_are_withheld_expect_no_more_time() -> None:
    story = rounded()
    Withheld(story.book).extend(story.id, story.now, story.now + 100, story.now)
    end = story.job.challenge_end
    assert end == story.now + 190, "an answer and a period"
    withheld(story)
    Withheld(story.book).extend(story.id, story.now, story.now + 200, story.now)
    assert story.job.challenge_end == end


@pytest.mark.parametrize(
    ("losers", "want"),
    [
        (0b10, [STAKE // 2, 0, STAKE + STAKE // 16, STAKE // 2]),
        (0b01, [0, STAKE + STAKE // 2, STAKE + STAKE // 16, 0]),
        (0b11, [0, 0, STAKE + STAKE // 16, 0]),
    ],
)
def test_logs_withheld_in_a_match_expect_it_is_the_trainers_last(losers: int, want: list[int]) -> None:
    story = withheld(rounded().challenged(7, "b").challenged(8, "c"))
    assert story.credits(DEMANDER) == [0], "who shows the trainer wrong in its match has the prize"
    story.ended(1, losers)
    assert story.job.claims[0].lost
    assert story.job.groups[0].match_id == 0, "no other match puts its loss off"
    assert (story.job.open_matches, story.job.waiting) == (0, None), "nor does anybody play any more"
    story.finalized()
    assert story.job.ended is JobPhase.VOID
    assert story.credits(who(1), who(7), who(8), DEMANDER) == want
    assert story.conserved(REWARD + STAKE + story.staked)


def test_claims_beside_withheld_logs_expect_no_match_and_their_stakes_back() -> None:
    story = withheld(rounded().challenged(7, "b").ended(1, 0b01))
    assert story.credits(who(7), DEMANDER) == [STAKE // 2, 0], "the trainer gave its claim away, to an ally"
    story.challenged(8, "a").challenged(9, "c")
    assert (story.job.open_matches, story.job.waiting) == (0, None)
    story.finalized()
    assert (story.job.ended, story.job.accepted) == (JobPhase.VOID, None)
    assert story.credits(who(7), who(8), CLIENT) == [STAKE + STAKE // 2, 2 * STAKE, REWARD]
    assert story.conserved(REWARD + STAKE + story.staked)


# --- the age of a commitment ------------------------------------------------------------------------------------


def test_young_commitment_expect_refused_until_it_is_old_enough() -> None:
    story = Story(slots=1, book=Book(31337, JOBS, REFEREE, PANEL, commit_age=48)).trained("a")
    committed, shown = story.now, claim("b")
    story.meaning(7, shown)
    challenge = lambda: story.book.challenge(story.id, shown, bytes(32), who(7), STAKE, story.now)  # noqa: E731
    for story.now in (committed + 1, committed + 47):
        with pytest.raises(TooSoon):
            challenge()
    story.now = committed + 48
    challenge()
    assert len(story.job.claims) == 2


def test_copied_commitment_expect_too_young_for_as_long_as_the_claim_needs() -> None:
    story = Story(slots=1, book=Book(31337, JOBS, REFEREE, PANEL, commit_age=40)).trained("a")
    shown = claim("b")
    story.meaning(7, shown)
    story.now += 39  # from here on everybody sees the claim, but three blocks leave it out
    story.meaning(8, shown)
    story.now += 30
    with pytest.raises(TooSoon):
        story.book.challenge(story.id, shown, bytes(32), who(8), STAKE, story.now)
    story.book.challenge(story.id, shown, bytes(32), who(7), STAKE, story.now)
    story.now += 9
    story.book.challenge(story.id, shown, bytes(32), who(8), 2 * STAKE, story.now)
    assert story.job.spokesman(1).owner == who(7), "a copy speaks after it, at twice the price"
