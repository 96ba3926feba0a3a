"""Games at random of many strangers, and what sampling promises in them."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from random import Random

import pytest
from scipy.stats import binom

from trainer_node.roles.sampling.draw import drawn, public_seed
from trainer_node.stake.deterrence import deterrence

from .board import COARSE, REWARD, STAKE, Board, Left
from .crowd import Played, go, play
from .roles import Sampler, trained
from .runs import WRONG, found

QUICK, MANY = 400, 20_000


@pytest.mark.parametrize(
    "count", [pytest.param(QUICK, id="quick"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.timeout(7200)
def test_games_at_random(count: int) -> None:
    played, began = Played(), time.process_time()
    for seed in range(count):
        play(("crowd", seed), played)
    print(
        f"{played.games} games at random, {sum(played.acts.values())} acts, {time.process_time() - began:.0f} s,"
    )
    print(f"violations: {len(played.lost)}; {dict(played.acts)}; {dict(played.ends)}; {dict(played.servers)}")
    assert not played.lost, played.lost[0]
    assert played.ends["accepted right"], "the play is worth something only if the right root may win"
    assert len(played.servers) == 5


# --- what sampling promises -------------------------------------------------------------------------------------------

INTERVALS = 50


def hit(seed: int, share: float, lie: int) -> bool:
    """Return whether a sampler that checks this share draws the interval of a lie."""
    count = math.ceil(share * INTERVALS)
    block, me = seed.to_bytes(32, "big"), "0x" + "11" * 20
    return lie in drawn(public_seed(block, me, found("w").against), INTERVALS, count)


@pytest.mark.parametrize("share", [0.1, 0.34])
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_stated_chance_of_detection_holds_whatever_strangers_do(share: float) -> None:
    """A lie is revealed in the first slot. It is kept out as often as its interval is drawn, served or not."""
    games, refuted = 2_000, 0
    for seed in range(games):
        rng = Random(repr(("chance", share, seed)))
        drew = hit(seed, share, rng.randint(1, INTERVALS))
        slots, played = rng.randint(1, 4), Played()
        role = Sampler(slots, draws=("w",) if drew else ())
        board = go(rng, role, slots, seed, played, first="w")
        assert not played.lost, played.lost[0]
        accepted = board.job.accepted
        assert not drew or accepted is None or board.named(accepted) != "w"
        refuted += drew and (accepted is None or board.named(accepted) != "w")
    chance = math.ceil(share * INTERVALS) / INTERVALS
    low, high = binom.ppf((1e-6, 1 - 1e-6), games, chance)
    print(f"share {share}: {refuted} of {games} lies are kept out; {low:.0f} to {high:.0f} are expected")
    assert low <= refuted <= high


def lies(reward: int, stake: int, *, drawn_: bool) -> int:
    """Return what a liar wins in a game, in wei, that refutes itself when it sees that it is found. All its accounts
    count. Stakes and rewards are scaled from those of the board."""
    board = trained(COARSE, Left(3), 1, ["w"])
    board = Sampler(1).begins(board).copied()
    if drawn_:
        board.refutes(found("w"))  # by an ally, before the sampler's refutation is there
        (number,) = board.opened
        board.ends(number, losers=1)
    while not board.over:
        board.now += 1
    board.finalize()
    won = sum(amount for who, amount in board.model.credits.items() if who in owners(board)) - board.staked
    prize, lost = (won, 0) if won > 0 else (0, won)
    return prize * reward // REWARD + lost * stake // STAKE


def owners(board: Board) -> set[str]:
    return {claim.owner for claim in board.job.claims}


@pytest.mark.parametrize("stake", [1.0, 3.0])
@pytest.mark.parametrize("reward", [0.1, 0.5, 1.0, 2.0])
def test_the_recommended_share_makes_lying_unprofitable_though_a_liar_refutes_itself(
    reward: float, stake: float
) -> None:
    view = trained(COARSE, Left(1), 1, ["w"]).view
    job = replace(view, stake=int(stake * STAKE), reward=int(reward * STAKE))
    needed = deterrence(job, 1)
    missed, caught = (lies(job.reward, job.stake, drawn_=drew) for drew in (False, True))
    assert missed == job.reward
    assert caught == -job.stake // 2, "an ally's prize is half of the stake"
    games = 2_000
    hits = sum(hit(seed, needed.share, Random(seed).randint(1, INTERVALS)) for seed in range(games))
    chance = needed.count(INTERVALS) / INTERVALS
    low, high = binom.ppf((1e-6, 1 - 1e-6), games, chance)
    assert low <= hits <= high
    assert chance * caught + (1 - chance) * missed <= 0
    # NOTE: what a share costs that counts with the whole stake.
    before = job.reward / (job.reward + job.stake)
    assert before * caught + (1 - before) * missed > 0


def two_lies(seen: tuple[str, ...]) -> int:
    """Return what a liar wins in a game, in wei, that holds two slots with two lies. It refutes those that are
    ``seen`` itself; one that is not seen beats the other."""
    board = Sampler(2).begins(trained(COARSE, Left(4), 2, WRONG)).copied()
    for name in seen:
        board.refutes(found(name))
    while not board.over:
        for number, match in board.running():
            names = [board.named(group) for group in match.groups]
            loser = next((side for side, name in enumerate(names) if name in seen), 1)
            board.ends(number, losers=1 << loser)
        board.now += 1
    board.finalize()
    return sum(amount for who, amount in board.model.credits.items() if who in owners(board)) - board.staked


@pytest.mark.parametrize("reward", [0.1, 0.5, 1.0, 2.0, 50.0])
def test_two_lies_gain_less_than_one(reward: float) -> None:
    """They play each other, so one of them is lost even if nobody sees it (docs/economics.md, section 10)."""
    none, one, both = (two_lies(seen) for seen in ((), ("w",), WRONG))
    assert none == one == REWARD - STAKE // 2
    assert both == -STAKE
    view = trained(COARSE, Left(1), 1, ["w"]).view
    chance = deterrence(replace(view, reward=int(reward * STAKE)), 1).chance
    gain = (1 - chance**2) * (reward - 1 / 2) - chance**2
    assert gain == pytest.approx(-1 / (4 * reward + 2), rel=1e-6)
