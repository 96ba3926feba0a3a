"""Jobs and money in scenarios: payments after matches between claims."""

from __future__ import annotations

import pytest

from referee_py.game.state import Phase, Timeout
from referee_py.jobs import JobPhase, commitment
from referee_py.params import BURNED
from referee_py.program.modes import Rounding
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal, WrongStake
from tests.model.availability_hook import AvailabilityHook
from tests.model.chain_model import ChainModel
from tests.model.refusals import (
    AlreadyCollected,
    JobRuns,
    LostClaim,
    NoSuchClaim,
    ReclaimsOpen,
    RootClosed,
    TooSoon,
)

from .scenario import CLIENT, JOBS, PANEL, REFEREE, REWARD, STAKE, Scenario, claim, who


def test_all_agree_expect_reward_split_and_remainder_to_the_first() -> None:
    scenario = Scenario().trained("a", "a").finalized()
    assert scenario.job.ended is JobPhase.ACCEPTED
    assert scenario.credits(who(1), who(2), CLIENT, BURNED) == [STAKE + 151, STAKE + 150, 0, 0]
    assert scenario.conserved(REWARD + 2 * STAKE)


def test_full_commitments_and_reveals_expect_phases_end_at_once() -> None:
    scenario = Scenario()
    assert scenario.job.phase(1099) is JobPhase.TRAINING
    assert scenario.job.phase(1100) is JobPhase.REVEAL
    scenario.now = 1007
    scenario.trained("a", "b")
    assert (scenario.job.commit_end, scenario.job.reveal_end, scenario.job.challenge_end) == (
        1007,
        1007,
        1097,
    )


def test_nobody_claims_expect_client_gets_the_reward_back() -> None:
    scenario = Scenario()
    scenario.model.join(scenario.id, who(1), STAKE, scenario.now)
    scenario.finalized()
    assert scenario.job.ended is JobPhase.UNCLAIMED
    assert scenario.credits(CLIENT, who(1), BURNED) == [REWARD, 0, STAKE], "an unused slot is not free"


def test_challenger_wins_expect_half_of_the_lost_stake_and_the_reward() -> None:
    scenario = Scenario(slots=1).trained("a").challenged(7, "b").ended(1, 0b01).finalized()
    assert scenario.credits(who(1), who(7), BURNED) == [0, STAKE // 2 + STAKE + REWARD, STAKE // 2]
    assert scenario.conserved(REWARD + 2 * STAKE)


def test_verifiers_decide_expect_a_tenth_for_those_who_voted_so() -> None:
    scenario = Scenario().trained("a", "b").ended(1, 0b10, Reason.OPERATOR, (who(91), who(93)))
    assert scenario.credits(who(91), who(92), who(93)) == [STAKE // 20, 0, STAKE // 20]
    assert scenario.credits(who(1), BURNED) == [STAKE // 2 - STAKE // 10, STAKE - STAKE // 2]


def test_both_lose_expect_no_prize_and_both_roots_claimable_again() -> None:
    scenario = Scenario().trained("a", "b")
    scenario.now += 85
    scenario.ended(1, 0b11)
    assert scenario.credits(who(1), who(2), BURNED) == [0, 0, 2 * STAKE]
    ends = scenario.now + 90
    assert scenario.job.reclaim_end == scenario.job.groups[0].until == ends, (
        "time to claim a right root again"
    )
    scenario.now = ends - 2
    scenario.challenged(7, "a").finalized()
    assert scenario.credits(who(7)) == [2 * STAKE + REWARD]


def test_spokesman_loses_expect_next_member_speaks_for_the_group() -> None:
    scenario = Scenario(slots=3).trained("a", "b", "b").ended(1, 0b10)
    match = scenario.model.matches[2]
    assert match.terms.players == (who(1), who(3)), "the winner waits, so it is side 0"
    scenario.ended(2, 0b01).finalized()
    assert scenario.credits(who(3)) == [STAKE // 2 + STAKE + REWARD]


def test_claims_of_a_living_root_expect_the_next_speakers_at_twice_the_price_each() -> None:
    scenario = Scenario(slots=1).trained("a").challenged(7, "a").challenged(8, "a").challenged(9, "b")
    assert [one.stake for one in scenario.job.claims] == [STAKE, 2 * STAKE, 4 * STAKE, STAKE]
    assert scenario.model.matches[1].terms.players == (who(1), who(9))
    scenario.ended(1, 0b01)
    assert scenario.model.matches[2].terms.players == (who(7), who(9))
    scenario.ended(2, 0b01)
    assert scenario.credits(who(9)) == [STAKE // 2 + STAKE], "half of what each opponent had staked"
    scenario.ended(3, 0b10).finalized()
    assert scenario.credits(who(8)) == [STAKE // 2 + 4 * STAKE + REWARD], "it holds no slot, but speaks"
    assert scenario.conserved(REWARD + STAKE + scenario.staked)


def test_new_roots_expect_each_dearer_by_a_sixteenth() -> None:
    scenario = Scenario(slots=1).trained("a")
    for k in range(40):
        assert (
            scenario.model.price_of(scenario.id, claim("b" if k == 0 else chr(500 + k)).root)
            == STAKE + k * STAKE // 16
        )
        scenario.challenged(100 + k, "b" if k == 0 else chr(500 + k))
    assert (scenario.job.founded, scenario.job.followers) == (40, 0)
    assert scenario.model.price_of(scenario.id, claim("a").root) == 2 * STAKE


def test_value_above_the_price_expect_credited_and_below_it_refused() -> None:
    scenario = Scenario(slots=1).trained("a").challenged(7, "b", 3 * STAKE)
    assert scenario.credits(who(7)) == [2 * STAKE]
    assert scenario.job.claims[1].stake == STAKE
    with pytest.raises(WrongStake):
        scenario.challenged(8, "c", STAKE + STAKE // 16 - 1)
    assert scenario.conserved(REWARD + STAKE + scenario.staked)


# --- when the challenge phase is over -----------------------------------------------------------------------------


def closed(scenario: Scenario) -> Scenario:
    scenario.now = scenario.job.challenge_end
    return scenario


def test_new_root_after_the_challenge_phase_expect_refused() -> None:
    scenario = Scenario(slots=1).trained("a").challenged(7, "b")
    with pytest.raises(RootClosed):
        closed(scenario).challenged(8, "c")


def test_root_that_has_lost_no_claim_expect_no_further_one_after_the_challenge_phase() -> None:
    scenario = closed(Scenario(slots=1).trained("a").challenged(7, "b"))
    with pytest.raises(RootClosed):
        scenario.challenged(8, "a")
    scenario.ended(1, 0b10)
    with pytest.raises(RootClosed):
        scenario.challenged(8, "a")


def test_root_that_is_lost_expect_claimed_again_until_a_period_after() -> None:
    scenario = closed(Scenario(slots=1).trained("a").challenged(7, "b")).ended(1, 0b01)
    until = scenario.job.groups[0].until
    assert until == scenario.now + 90
    scenario.now = until - 2  # a second passes between commitment and claim
    scenario.challenged(8, "a")
    assert scenario.job.claims[2].stake == 2 * STAKE
    assert scenario.job.groups[0].until == scenario.now + 90, "so long something can be requested of it"
    scenario.ended(2, 0b10)
    scenario.now = scenario.job.groups[0].until - 1
    with pytest.raises(RootClosed):
        scenario.challenged(9, "a")


def test_root_with_a_lost_claim_and_a_living_one_expect_claimed_as_long_as_it_lives() -> None:
    scenario = Scenario(slots=2).trained("a", "a").challenged(7, "b")
    closed(scenario).ended(1, 0b01)
    scenario.now += 10_000
    scenario.challenged(8, "a")
    assert scenario.job.groups[0].members == [0, 1, 3]


def test_end_expect_waits_for_who_may_claim_a_lost_root() -> None:
    scenario = closed(Scenario(slots=1).trained("a").challenged(7, "b")).ended(1, 0b01)
    for now in (scenario.now, scenario.job.reclaim_end - 1):
        with pytest.raises(ReclaimsOpen):
            scenario.model.finalize(scenario.id, now)
    scenario.finalized()
    assert scenario.job.accepted == 1


# --- collecting ---------------------------------------------------------------------------------------------------


def test_collect_expect_each_claim_once_and_no_lost_one() -> None:
    scenario = Scenario(slots=1).trained("a").challenged(7, "b")
    with pytest.raises(JobRuns):
        scenario.model.collect(scenario.id, 0)
    closed(scenario).ended(1, 0b10).now = 10_000
    scenario.model.finalize(scenario.id, scenario.now)
    assert scenario.credits(who(1)) == [STAKE // 2], "the prize, so far"
    assert scenario.conserved(REWARD + 2 * STAKE)
    scenario.model.collect(scenario.id, 0)
    assert scenario.credits(who(1)) == [STAKE // 2 + STAKE + REWARD]
    with pytest.raises(AlreadyCollected):
        scenario.model.collect(scenario.id, 0)
    with pytest.raises(LostClaim):
        scenario.model.collect(scenario.id, 1)
    with pytest.raises(NoSuchClaim):
        scenario.model.collect(scenario.id, 2)
    assert scenario.conserved(REWARD + 2 * STAKE)


def test_three_roots_expect_winner_meets_the_waiting_group() -> None:
    scenario = Scenario(slots=3).trained("a", "b", "c")
    assert scenario.job.waiting == 2
    scenario.ended(1, 0b01)
    assert scenario.model.matches[2].groups == (2, 1)
    with pytest.raises(Refusal, match="all its matches"):
        scenario.finalized()
    scenario.ended(2, 0b10).finalized()
    assert scenario.credits(who(3), who(2), BURNED) == [STAKE // 2 + STAKE + REWARD, STAKE // 2, STAKE]
    assert scenario.conserved(REWARD + 3 * STAKE)


def test_move_of_a_match_that_ended_expect_refused() -> None:
    scenario = Scenario().trained("a", "b")
    scenario.now += 11
    scenario.model.play(1, [Timeout()], who(5), scenario.now)
    assert scenario.model.matches[1].state.losers == 0b11
    with pytest.raises(Refusal):
        scenario.model.play(1, [Timeout()], who(5), scenario.now)
    with pytest.raises(Refusal, match="no match"):
        scenario.model.play(9, [Timeout()], who(5), scenario.now)


def test_batch_with_one_bad_move_expect_nothing_done() -> None:
    scenario = Scenario().trained("a", "b")
    scenario.now += 11
    before = scenario.model.matches[1].state
    with pytest.raises(Refusal):
        scenario.model.play(1, [Timeout(), Timeout()], who(5), scenario.now)
    assert scenario.model.matches[1].state is before


def test_withdraw_expect_paid_once() -> None:
    scenario = Scenario().trained("a", "a").finalized()
    assert scenario.model.withdraw(who(1)) == STAKE + 151
    assert scenario.conserved(REWARD + 2 * STAKE)
    with pytest.raises(Refusal):
        scenario.model.withdraw(who(1))


def test_another_cannot_copy_a_commitment() -> None:
    scenario, shown, salt = Scenario(), claim("a"), bytes(32)
    hashed = commitment(31337, JOBS, scenario.id, who(1), shown.root, shown.last, bytes(32), salt)
    for k in (1, 2):
        scenario.model.join(scenario.id, who(k), STAKE, scenario.now)
        scenario.model.commit(scenario.id, hashed, who(k), scenario.now)
    scenario.model.reveal(scenario.id, shown, bytes(32), salt, who(1), 0, scenario.now)
    with pytest.raises(Refusal, match="committed"):
        scenario.model.reveal(scenario.id, shown, bytes(32), salt, who(2), 0, scenario.now)


def test_rounded_job_expect_its_logs_kept_with_the_job_and_known_to_its_matches() -> None:
    logs = b"L" * 32
    scenario = Scenario(slots=1, mode=Rounding().mode, logs=logs).trained("a").challenged(7, "b")
    assert scenario.job.logs == logs
    assert scenario.model.matches[1].terms.logs == logs


def test_eighty_claims_expect_the_right_one_left() -> None:
    scenario = Scenario(slots=1).trained("a")
    for k in range(1, 80):
        scenario.challenged(100 + k, chr(1000 + k))
    while scenario.job.open_matches:
        number, match = next(
            item for item in scenario.model.matches.items() if item[1].state.phase is not Phase.DONE
        )
        scenario.ended(number, 0b10 if match.terms.players[0] == who(1) else 0b01)
    scenario.finalized()
    assert (scenario.job.ended, scenario.job.accepted) == (JobPhase.ACCEPTED, 0)
    assert scenario.conserved(REWARD + STAKE + scenario.staked)


# --- withheld logs --------------------------------------------------------------------------------------------------

REQUESTER, LOGS = who(50), b"L" * 32


def rounded() -> Scenario:
    """Return a job with logs, whose one trainer claims run a."""
    return Scenario(slots=1, mode=Rounding().mode, logs=LOGS).trained("a")


def withheld(scenario: Scenario, requester: str = REQUESTER) -> Scenario:
    AvailabilityHook(scenario.model).forfeit(scenario.id, LOGS, True, requester, scenario.now)
    return scenario


def test_withheld_logs_expect_the_trainer_loses_at_once_and_the_job_ends_void() -> None:
    scenario = withheld(rounded())
    assert (scenario.job.ended, scenario.job.finder) == (JobPhase.NONE, REQUESTER)
    assert scenario.credits(REQUESTER, BURNED, CLIENT) == [STAKE // 2, STAKE - STAKE // 2, 0]
    assert scenario.job.reclaim_end == 0, "nothing will be accepted, so nobody needs time to claim"
    scenario.finalized()
    assert scenario.job.ended is JobPhase.VOID
    assert scenario.credits(who(1), CLIENT) == [0, REWARD]
    assert scenario.conserved(REWARD + STAKE)


def test_logs_withheld_twice_expect_the_first_is_the_finder() -> None:
    scenario = withheld(withheld(rounded()), who(51)).finalized()
    assert scenario.credits(REQUESTER, who(51)) == [STAKE // 2, 0]


def test_a_request_where_logs_are_withheld_expect_no_more_time() -> None:
    scenario = rounded()
    AvailabilityHook(scenario.model).extend(scenario.id, scenario.now, scenario.now + 100, scenario.now)
    end = scenario.job.challenge_end
    assert end == scenario.now + 190, "an answer and a period"
    withheld(scenario)
    AvailabilityHook(scenario.model).extend(scenario.id, scenario.now, scenario.now + 200, scenario.now)
    assert scenario.job.challenge_end == end


@pytest.mark.parametrize(
    ("losers", "want"),
    [
        (0b10, [STAKE // 2, 0, STAKE + STAKE // 16, STAKE // 2]),
        (0b01, [0, STAKE + STAKE // 2, STAKE + STAKE // 16, 0]),
        (0b11, [0, 0, STAKE + STAKE // 16, 0]),
    ],
)
def test_logs_withheld_in_a_match_expect_it_is_the_trainers_last(losers: int, want: list[int]) -> None:
    scenario = withheld(rounded().challenged(7, "b").challenged(8, "c"))
    assert scenario.credits(REQUESTER) == [0], "who shows the trainer wrong in its match has the prize"
    scenario.ended(1, losers)
    assert scenario.job.claims[0].lost
    assert scenario.job.groups[0].match_id == 0, "no other match puts its loss off"
    assert (scenario.job.open_matches, scenario.job.waiting) == (0, None), "nor does anybody play any more"
    scenario.finalized()
    assert scenario.job.ended is JobPhase.VOID
    assert scenario.credits(who(1), who(7), who(8), REQUESTER) == want
    assert scenario.conserved(REWARD + STAKE + scenario.staked)


def test_claims_beside_withheld_logs_expect_no_match_and_their_stakes_back() -> None:
    scenario = withheld(rounded().challenged(7, "b").ended(1, 0b01))
    assert scenario.credits(who(7), REQUESTER) == [STAKE // 2, 0], (
        "the trainer gave its claim away, to an ally"
    )
    scenario.challenged(8, "a").challenged(9, "c")
    assert (scenario.job.open_matches, scenario.job.waiting) == (0, None)
    scenario.finalized()
    assert (scenario.job.ended, scenario.job.accepted) == (JobPhase.VOID, None)
    assert scenario.credits(who(7), who(8), CLIENT) == [STAKE + STAKE // 2, 2 * STAKE, REWARD]
    assert scenario.conserved(REWARD + STAKE + scenario.staked)


# --- the age of a commitment ------------------------------------------------------------------------------------


def test_young_commitment_expect_refused_until_it_is_old_enough() -> None:
    scenario = Scenario(slots=1, model=ChainModel(31337, JOBS, REFEREE, PANEL, commit_age=48)).trained("a")
    committed, shown = scenario.now, claim("b")
    scenario.meaning(7, shown)
    challenge = lambda: scenario.model.challenge(scenario.id, shown, bytes(32), who(7), STAKE, scenario.now)  # noqa: E731
    for scenario.now in (committed + 1, committed + 47):
        with pytest.raises(TooSoon):
            challenge()
    scenario.now = committed + 48
    challenge()
    assert len(scenario.job.claims) == 2


def test_copied_commitment_expect_too_young_for_as_long_as_the_claim_needs() -> None:
    scenario = Scenario(slots=1, model=ChainModel(31337, JOBS, REFEREE, PANEL, commit_age=40)).trained("a")
    shown = claim("b")
    scenario.meaning(7, shown)
    scenario.now += 39  # from now on everybody sees the claim, but three blocks do not include it
    scenario.meaning(8, shown)
    scenario.now += 30
    with pytest.raises(TooSoon):
        scenario.model.challenge(scenario.id, shown, bytes(32), who(8), STAKE, scenario.now)
    scenario.model.challenge(scenario.id, shown, bytes(32), who(7), STAKE, scenario.now)
    scenario.now += 9
    scenario.model.challenge(scenario.id, shown, bytes(32), who(8), 2 * STAKE, scenario.now)
    assert scenario.job.spokesman(1).owner == who(7), "a copy speaks after it, at twice the price"
