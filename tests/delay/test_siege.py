"""No strategy of liars delays a job's end beyond the bound, and honest parties lose nothing and are paid."""

from __future__ import annotations

import pytest

from .bounds import levels
from .siege import LONGEST, PERIOD, REWARD, STAKE, TRUTH, Outcome, Siege, Strategy, run
from .strategies import (
    LIE,
    AtOnce,
    AtRandom,
    Behind,
    Choices,
    Every,
    GiveAway,
    GiveAwayForALie,
    InHalves,
    OneByOne,
    Refuting,
)


def held(outcome: Outcome) -> Outcome:
    """Check all that must hold for any behaviour of liars."""
    assert outcome.accepted == TRUTH
    assert outcome.seconds <= outcome.bound
    assert outcome.seconds <= outcome.bound_by_levels
    assert outcome.honest_won >= 0
    assert 2 * outcome.burned >= outcome.liars_lost, "at most half of what one liar loses is another's"
    return outcome


@pytest.mark.parametrize("liars", [1, 3, 15, 63, 255])
def test_all_at_once_expect_rounds_as_the_logarithm_of_the_liars(liars: int) -> None:
    for strategy in (Strategy(liars), AtOnce(liars)):
        outcome = held(Siege(strategy).play())
        assert outcome.groups == liars + 2, "theirs, their trainer's and the right one"
        assert outcome.honest_won >= REWARD + STAKE // 2


@pytest.mark.parametrize("liars", [2, 5, 10])
def test_one_by_one_expect_each_to_pay_twice_as_much(liars: int) -> None:
    outcome = held(Siege(OneByOne(liars)).play())
    assert outcome.spares == liars - 1
    assert outcome.liars_lost >= sum(STAKE << k for k in range(1, liars)) // 2
    assert outcome.seconds <= (liars + 2) * 2 * PERIOD


@pytest.mark.parametrize("again", [0, 1, 4, 9])
@pytest.mark.parametrize("trainers", [1, 3])
def test_giving_away_expect_the_honest_claim_costs_four_times_what_they_lose_at_most(
    again: int, trainers: int
) -> None:
    outcome = held(Siege(GiveAway(again, trainers)).play())
    assert outcome.spares == trainers - 1 + again + 1
    assert outcome.honest_paid == STAKE << (again + 1)
    assert outcome.honest_paid <= 4 * outcome.liars_lost


class Limited(Siege):
    """An honest challenger that has so many wei."""

    def __init__(self, strategy: Strategy, wei: int) -> None:
        super().__init__(strategy)
        self.wei = wei

    def claim(self, number: int, *, honest: bool = False) -> None:
        if not honest or self.model.price_of(self.id, run(number).root) <= self.wei:
            super().claim(number, honest=honest)


@pytest.mark.parametrize("behind", [0, 1, 2, 6])
def test_claims_behind_a_lie_expect_the_right_root_is_no_dearer_for_them(behind: int) -> None:
    """Their stakes come back if the lie is accepted, so they must not keep anybody from the right root."""
    outcome = held(Limited(GiveAwayForALie(behind), 2 * STAKE).play())
    assert outcome.honest_paid == 2 * STAKE
    assert outcome.liars_lost >= outcome.liars_paid - STAKE // 2, (
        "all but half of what the lie won from its ally"
    )


def test_without_the_price_of_a_second_claim_expect_the_lie_is_accepted() -> None:
    outcome = Limited(GiveAwayForALie(6), 2 * STAKE - 1).play()
    assert (outcome.accepted, outcome.honest_paid) == (LIE, 0)


@pytest.mark.parametrize(("liars", "lives"), [(1, 1), (8, 1), (1, 4), (8, 2), (8, 4), (16, 3)])
def test_roots_that_keep_their_spares_expect_the_logarithm_of_the_roots_for_each(
    liars: int, lives: int
) -> None:
    outcome = held(Siege(InHalves(liars, lives)).play())
    rounds = -(-outcome.seconds // LONGEST)
    print(f"{liars} roots of {lives} claims: {rounds} rounds, {levels(outcome.lives):.1f} at most")
    assert rounds <= levels(outcome.lives) + 2 * PERIOD / LONGEST


@pytest.mark.parametrize("depth", [1, 4, 10])
def test_speakers_behind_a_lie_expect_a_round_each_at_twice_the_price(depth: int) -> None:
    outcome = held(Siege(Behind(depth)).play())
    assert outcome.spares == depth - 1
    assert outcome.liars_lost >= (STAKE << depth) // 2


@pytest.mark.parametrize("times", [1, 2, 5, 10])
def test_refuting_the_right_root_expect_a_match_and_a_period_each_at_twice_the_price(times: int) -> None:
    outcome = held(Siege(Refuting(times)).play())
    assert outcome.refutations == times
    assert outcome.seconds == times * (LONGEST + PERIOD) - times
    assert 2 * outcome.burned == STAKE * (2**times - 1), "half of each is burned"
    at_once = held(Siege(Refuting(times, at_once=True)).play())
    assert at_once.seconds == times * LONGEST + PERIOD - 1


def test_a_thousand_liars_expect_eleven_rounds() -> None:
    outcome = held(Siege(AtOnce(1000)).play())
    assert outcome.groups == 1002
    assert outcome.seconds <= 11 * 700 + PERIOD


@pytest.mark.parametrize(
    "count", [pytest.param(400, id="quick"), pytest.param(1500, id="slow", marks=pytest.mark.slow)]
)
def test_strategies_at_random_expect_nothing_above_the_bound(count: int) -> None:
    for seed in range(count):
        held(Siege(AtRandom(seed % 40, seed)).play())


def every(trainers: tuple[int, ...], claims: int, refutations: int = 0) -> tuple[int, float]:
    """Play all games with this many claims and refutations; return their number, and the longest as a fraction of its
    bound."""
    choices, games, worst = Choices(), 0, 0.0
    for play in choices.plays():
        outcome = held(Siege(Every(play, trainers, claims, refutations)).play())
        games, worst = games + 1, max(worst, outcome.seconds / outcome.bound)
    return games, worst


@pytest.mark.parametrize("trainers", [(LIE,), (TRUTH,), (TRUTH, LIE), (TRUTH, TRUTH)])
def test_every_game_of_two_claims_expect_nothing_above_the_bound(trainers: tuple[int, ...]) -> None:
    games, worst = every(trainers, 2 if len(trainers) == 1 else 1)
    assert games > 50
    assert worst > 0.4, "the play is worth something only if it lasts"


@pytest.mark.parametrize("trainers", [(LIE,), (TRUTH,), (TRUTH, LIE)])
def test_every_game_of_a_claim_and_a_refutation_expect_nothing_above_the_bound(
    trainers: tuple[int, ...],
) -> None:
    games, worst = every(trainers, 2 - len(trainers), 1)
    assert games > 10
    print(f"{trainers}: {games} games, the longest {worst:.4f} of the bound")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trainers", [(LIE,), (TRUTH,), (TRUTH, LIE)])
def test_every_game_with_two_refutations_expect_nothing_above_the_bound(trainers: tuple[int, ...]) -> None:
    games, worst = every(trainers, 1, 2)
    print(f"{trainers}: {games} games, the longest {worst:.4f} of the bound")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trainers", [(LIE,), (TRUTH,), (TRUTH, LIE), (TRUTH, TRUTH)])
def test_every_game_of_three_claims_expect_nothing_above_the_bound(trainers: tuple[int, ...]) -> None:
    games, worst = every(trainers, 3)
    print(f"{trainers}: {games} games, the longest {worst:.4f} of the bound")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_liars_at_random_expect_nothing_above_the_bound() -> None:
    found = [held(Siege(AtRandom(1000, ("many", seed))).play()) for seed in range(200)]
    print(f"the longest {max(outcome.seconds / outcome.bound for outcome in found):.4f} of the bound")
