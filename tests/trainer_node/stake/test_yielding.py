"""Attack: cheap baits keep a node from stakes elsewhere. Jobs yield by what may be lost in them, and never at a loss.

The adversary posts jobs, lies and ends them as it likes, and opens matches in any of them at once. What is lost because
other jobs ask at the same time is never more than what these earn.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from trainer_node.reason import Reason
from trainer_node.run.cost_estimate import MARGIN
from trainer_node.stake import yielding
from trainer_node.stake.admission import Duty, Means, too_much_at_once
from trainer_node.stake.yielding import Weight, bears, choose, given, left, yields_to

CASES = 3000
MEANS = Means(0.0, 0.0, 2)


def duty(match_s: float, clock: int, stakes: int = 1) -> Duty:
    """Return the duty of a job in which we only refute."""
    return Duty(match_s, 0.0, 0.0, 0.0, 0.0, 0, clock, 0, 0, stakes)


@dataclass
class Node:
    """What a node holds; ``sent``: what it has put into each job."""

    weights: dict[int, Weight] = field(default_factory=dict)
    duties: dict[int, Duty] = field(default_factory=dict)
    prizes: dict[int, int] = field(default_factory=dict)

    def why(self, job: int, of: Duty, chosen: Collection[int]) -> Reason | None:
        """Return why a stake does not fit, as `DutyBook` asks."""
        held = {n: yields_to(self.weights, n) - {job} for n in self.duties.keys() - {job}}
        yields = {n: before | {job} if n in chosen else before for n, before in held.items()}
        return too_much_at_once(self.duties, job, of, MEANS, yields)

    def offered(self, job: int, of: Duty, wei: int, prize: int) -> bool:
        """Stake on a job, if the rule allows it."""
        chosen, reason = choose(self.weights, job, prize, lambda jobs: self.why(job, of, jobs))
        if reason is None and MARGIN * of.match_s * of.stakes <= of.clock:
            put = wei + (self.weights[job].wei or 0 if job in self.duties else 0)
            self.weights = given(self.weights, job, put, prize, chosen)
            self.duties[job], self.prizes[job] = of, prize
            return True
        return False

    def ended(self, job: int) -> None:
        """Let go of a job."""
        del self.duties[job]
        self.weights = left(self.weights, job)


def besieged(random: Random) -> int:
    """Let an adversary choose what it likes; return what the node has gained, in wei, without its stakes' return.

    Matches that are open count until the adversary gives them up. Whoever is late loses all that we have in its job.
    """
    node, open_, gained, lost = Node(), set[int](), 0, set[int]()
    for turn in range(random.randint(4, 14)):
        act = random.random()
        if act < 0.55 or not node.duties:
            again = [n for n in node.duties if n not in open_ | lost]
            grows = bool(again) and random.random() < 0.2
            job = random.choice(again) if grows else 100 + turn
            # NOTE: later jobs take more time and have longer clocks, as baits come first.
            clock = 10 * 2 ** random.randint(0, turn)
            of = duty(clock * random.choice((0.05, 0.2, 0.4)), clock)
            prize = random.choice((0, 2, 6, 18, 54))
            if grows:
                of, prize = replace(node.duties[job], stakes=node.duties[job].stakes + 1), node.prizes[job]
            node.offered(job, of, random.choice((1, 2, 5, 14)), prize)
        elif act < 0.75:
            open_ |= {n for n in node.duties if n not in lost and random.random() < 0.5}
            takes = MARGIN * sum(node.duties[n].match_s * node.duties[n].stakes for n in open_)
            late = {n for n in open_ if takes > node.duties[n].clock}
            gained -= sum(node.weights[n].wei or 0 for n in late)
            open_, lost = open_ - late, lost | late
        elif act < 0.85 and open_:
            job = random.choice(sorted(open_))
            gained, open_ = gained + node.prizes[job], open_ - {job}
        elif closed := sorted(node.duties.keys() - open_):
            node.ended(random.choice(closed))
    return gained + sum(node.prizes[n] for n in open_)


def test_whatever_is_asked_when_the_node_is_never_poorer_for_what_yields() -> None:
    assert min(besieged(Random(seed)) for seed in range(CASES)) >= 0
    assert any(besieged(Random(seed)) > 0 for seed in range(100)), "matches are won"


def test_a_weaker_rule_is_caught_by_the_same_adversary(monkeypatch: pytest.MonkeyPatch) -> None:
    def cheaper(weights: yielding.Weights, job: int, prize: int, why: object) -> object:
        """Count only what comes to yield, and not what yields already."""
        free = {n: Weight(0, of.prize, of.turn, of.since) if of.since else of for n, of in weights.items()}
        return yielding.choose(free, job, prize, why)  # type: ignore[arg-type]

    monkeypatch.setitem(globals(), "choose", cheaper)
    assert any(besieged(Random(seed)) < 0 for seed in range(CASES))


def chain() -> Node:
    """Return a node with a bait of 8 wei, which yields to a lie that earns 10."""
    node = Node()
    assert node.offered(1, duty(4.0, 10), 8, 3)
    assert not node.offered(2, duty(4.0, 100), 10, 7), "its prize is less than the bait"
    assert node.offered(2, duty(4.0, 100), 10, 10)
    assert yields_to(node.weights, 1) == {2}
    return node


def test_a_chain_of_larger_lies_counts_all_that_has_yielded() -> None:
    assert not chain().offered(3, duty(45.0, 1000), 20, 17), "both yield, with 18 wei"
    node = chain()
    assert node.offered(3, duty(45.0, 1000), 20, 18)
    assert yields_to(node.weights, 1) == {2, 3}
    assert yields_to(node.weights, 2) == {3}


def test_what_is_lost_counts_until_its_prize_is_won() -> None:
    """The bait is lost while the lie's match is open, and is over; if that match is lost, too, nothing has paid for the
    bait."""
    node = chain()
    node.ended(1)
    assert not node.offered(3, duty(47.0, 1000), 20, 17)
    node.ended(2)
    assert node.weights == {}
    node = chain()
    node.ended(2)
    assert not yields_to(node.weights, 1), "it stands again"
    assert node.weights[1].since == 0


def test_as_few_as_possible_yield_those_without_an_opponent_and_the_cheapest_first() -> None:
    node = Node()
    for job, match_s, clock, wei in ((1, 1.0, 10, 3), (2, 1.0, 12, 2), (3, 1.0, 90, 1), (4, 1.0, 11, 4)):
        assert node.offered(job, duty(match_s, clock), wei, 1)

    def chosen(match_s: float, prize: int) -> list[int]:
        of = duty(match_s, 1000)
        jobs, reason = choose(node.weights, 9, prize, lambda some: node.why(9, of, some))
        return sorted(jobs) if reason is None else [-1]

    assert chosen(0.5, 0) == []
    assert chosen(1.9, 9) == [1, 4], "the third is cheaper, and in nobody's way"
    assert chosen(1.9, 6) == [-1]
    assert chosen(9.0, 9) == [1, 2, 4]
    everybody = {n: replace(of, idle=n == 4) for n, of in node.weights.items()}
    jobs, _ = choose(everybody, 9, 9, lambda some: None if some else node.why(9, duty(1.9, 1000), some))
    assert jobs == {4}, "any would do"


def test_a_job_that_may_lose_what_nobody_knows_never_yields() -> None:
    node = Node()
    assert node.offered(1, duty(4.0, 10), 8, 3)
    node.weights[1] = replace(node.weights[1], wei=None)
    assert not node.offered(2, duty(4.0, 100), 10, 10**9)


def test_a_second_stake_in_a_bait_is_a_new_one() -> None:
    """The price of a refutation doubles: a job that yields takes more only where that fits beside those it yields to,
    or earns what they may lose; then it stands again."""
    node = chain()
    assert not node.offered(1, duty(4.0, 10, 2), 16, 9)
    assert node.weights[1].since > 0
    node = Node()
    assert node.offered(1, duty(2.0, 40), 8, 11)
    assert node.offered(3, duty(1.0, 20), 30, 11)
    assert node.offered(2, duty(17.5, 200), 10, 38)
    assert (yields_to(node.weights, 1), yields_to(node.weights, 3)) == ({2}, {2}), "two clocks are too short"
    assert not node.offered(1, duty(2.0, 40, 2), 16, 11)
    assert yields_to(node.weights, 1) == {2}, "as before"


def test_a_bond_goes_into_a_job_that_yields_only_where_a_prize_pays_for_it() -> None:
    node = chain()
    assert bears(node.weights, 1, 2)
    assert not bears(node.weights, 1, 3)
    assert bears(node.weights, 2, 10**9), "it yields to nobody"
