"""Every history of small jobs: an honest person loses nothing, the right root is accepted, ether is conserved, all end.

One honest person claims the right root as a trainer. Otherwise it claims the root if nobody does, or if a claim of it
was lost and at most one claimant is left. One to three others do anything that the model accepts, in any order: take
slots and not use one, commit to the right root or to one of two wrong ones, reveal or not, challenge in the first or
the last second, claim a root that is claimed or lost, in the challenge phase and after it, and give it away. A match
is abstracted to its result, at once or after the longest time. Every result occurs, except that a side that is right
and plays always wins (test_exhaustive.py shows that of matches).

With refutations the others also refute any claimed root, right or wrong, their own too, once and again. In the jobs of
a sampler the honest person claims nothing: with one account it refutes every wrong root that is claimed, and no wrong
root is ever accepted. It lets others refute first: while a refutation of a root is alive, it waits. So the others may
refute before it and give away, and win only what a period that opens again could not mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from referee_py.jobs import JobPhase
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.delay.bounds import delay_bound
from tests.model.jobs import Group, Match

from .history import REFUTES, History
from .scenario import REWARD, STAKE, Scenario, claim, who

HONEST, OTHERS = who(1), (who(2), who(3), who(4))
RIGHT, WRONG = "r", ("w", "v")
MATCH_SECONDS = 40
"""Both clocks, and a hearing."""
SLOW = (pytest.mark.slow, pytest.mark.timeout(7200))
TRAIN, REVEAL, CHALLENGE = 100, 50, 90
"""The periods of `Scenario`."""


Act = Callable[[History], None]


@dataclass
class World:
    """All states that can be reached, explored. `trains`: the honest person takes a slot if one is free."""

    others: tuple[str, ...]
    trains: bool
    slots: int
    refutes: bool = False
    """The others refute, too."""
    samples: bool = False
    """The honest person claims nothing, and refutes what is wrong."""
    often: int = 1
    """The most refutations of each of the others."""
    seen: dict[object, int] = field(default_factory=dict)
    """The most seconds that each state can last."""
    ends: set[tuple[JobPhase, int, int]] = field(default_factory=set)
    most_matches: int = 0
    longest: int = 0

    def explore(self) -> None:
        scenario = Scenario(slots=self.slots)
        people = 1 + len(self.others)
        # NOTE: a refutation adds a match, as a second claim of a root does; and one in all adds a challenge period. The
        # sampler refutes each wrong root once, since it loses no refutation.
        more = (len(self.others) * self.often if self.refutes else 0) + (len(WRONG) if self.samples else 0)
        delays = [delay_bound(people - k, k + more, MATCH_SECONDS, CHALLENGE) for k in range(people)]
        reopened = CHALLENGE + MATCH_SECONDS if self.refutes or self.samples else 0
        bound = TRAIN + REVEAL + CHALLENGE + max(delays) + reopened
        self.longest = self._go(History(scenario.model, scenario.now))
        assert self.longest <= bound, (self.longest, bound)

    def _go(self, history: History) -> int:
        """Explore a history. Return the most seconds until the job has ended."""
        key = history.key()
        if key in self.seen:
            return self.seen[key]
        self._check(history)
        if history.job.ended:
            return self.seen.setdefault(key, 0)
        seconds = 0
        due = self._due(history)
        acts = [due] if due else []
        for act in (*acts, *self._any(history)):
            after = history.copied()
            try:
                act(after)
            except (Refusal, KeyError):
                continue
            after.opened = {k: after.opened.get(k, after.now) for k in after.model.matches}
            seconds = max(seconds, self._go(after))
        for instant in [] if due else self._instants(history):
            after = history.copied()
            after.now = instant
            seconds = max(seconds, instant - history.now + self._go(after))
        return self.seen.setdefault(key, seconds)

    # --- acts of each person ------------------------------------------------------------------------------------------

    def _due(self, history: History) -> Act | None:
        """Return the honest person's act at this instant; None if it has nothing to do."""
        job, now = history.job, history.now
        mine = next((trainer for trainer in job.trainers if trainer.owner == HONEST), None)
        match history.phase:
            case JobPhase.TRAINING if mine is None and self.trains and len(job.trainers) < job.terms.slots:
                return lambda after: after.join(HONEST)
            case JobPhase.TRAINING if mine is not None and HONEST not in history.chosen:
                return lambda after: after.commit(HONEST, RIGHT)
            case JobPhase.REVEAL if mine is not None and not mine.revealed:
                return lambda after: after.reveal(HONEST)
            case JobPhase.CHALLENGE | JobPhase.CLOSING if self.samples and (act := self._refute(history)):
                return act
            case JobPhase.CHALLENGE | JobPhase.CLOSING if self._must_claim(history):
                at = history.committed(HONEST, RIGHT)
                if at is None:
                    return lambda after: after.commit_challenge(HONEST, RIGHT)
                return (lambda after: after.challenge(HONEST, RIGHT)) if now > at else None
            case JobPhase.CLOSING if not job.open_matches and now >= job.reclaim_end:
                return lambda after: after.finalize()
        return None

    def _refute(self, history: History) -> Act | None:
        """Return what the sampler does about a wrong root that can be refuted: it commits at once, and refutes when no
        refutation of the root is alive, its own or another's."""
        for name in WRONG:
            group, told = history.job.group_of(claim(name).root), REFUTES + name
            if group is None or group.dead:
                continue
            at = history.committed(HONEST, told)
            if at is None:
                return partial(lambda told, after: after.commit_challenge(HONEST, told), told)
            late = history.phase is JobPhase.CLOSING and not group.refutable(history.now)
            if history.now > at and not late and not history.disputed(group.root):
                return partial(lambda told, after: after.challenge(HONEST, told), told)
        return None

    def _must_claim(self, history: History) -> bool:
        return (
            not self.samples and history.forsaken(claim(RIGHT).root) and not history.job.has_claimed(HONEST)
        )

    def _any(self, history: History) -> Iterator[Act]:
        for person in self.others:
            # NOTE: both wrong roots are alike, so the first one to be committed to is always the same.
            told_of = {*history.chosen.values(), *history.meant.values()}
            names = (RIGHT, *WRONG) if WRONG[0] in told_of else (RIGHT, WRONG[0])
            match history.phase:
                case JobPhase.TRAINING:
                    yield partial(lambda person, after: after.join(person), person)
                    for name in names:
                        yield partial(lambda person, name, after: after.commit(person, name), person, name)
                case JobPhase.REVEAL:
                    yield partial(lambda person, after: after.reveal(person), person)
                case JobPhase.CHALLENGE | JobPhase.CLOSING:
                    if person not in history.meant:
                        told = tuple(REFUTES + name for name in names) if self.refutes else ()
                        for name in (*names, *told):
                            yield partial(
                                lambda person, name, after: after.commit_challenge(person, name), person, name
                            )
                    name = history.meant.get(person, RIGHT)
                    if not name.startswith(REFUTES) or history.refutations(person) < self.often:
                        yield partial(lambda person, name, after: after.challenge(person, name), person, name)
        for number, match in history.running.items():
            for losers, reason in self._results(history, match):
                yield partial(
                    lambda number, losers, reason, after: after.ends(number, losers, reason),
                    number,
                    losers,
                    reason,
                )

    def _results(self, history: History, match: Match) -> Iterator[tuple[int, Reason]]:
        speaking = [history.job.spokesman(group).owner for group in match.groups]
        honest = [side for side, owner in enumerate(speaking) if owner == HONEST]
        if honest:
            yield 1 << (1 - honest[0]), Reason.TIMEOUT
        else:
            yield from ((losers, Reason.TIMEOUT) for losers in (1, 2, 3))

    def _instants(self, history: History) -> list[int]:
        """Return the next instant at which something changes, or the second before. NOTE: matches end in time."""
        job, now = history.job, history.now
        ends = [history.opened[number] + MATCH_SECONDS for number in history.running]
        found = {job.commit_end, job.reveal_end, job.challenge_end, job.reclaim_end, *ends}
        found |= {group.until for group in job.groups} | {group.refutable_until for group in job.groups}
        found |= {instant - 1 for instant in found} | {at + 1 for at in job.committed_at.values()}
        latest = min(ends, default=max(found))
        return sorted(instant for instant in found if now < instant <= latest)[:1]

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _check(self, history: History) -> None:
        job, model = history.job, history.model
        staked = len(job.trainers) * STAKE + sum(one.stake for one in job.claims if not one.slot)
        assert sum(model.credits.values()) + model.at_risk() == REWARD + staked
        assert not any(one.lost for one in job.claims if one.owner == HONEST)
        self.most_matches = max(self.most_matches, len(model.matches))
        if not job.ended:
            return
        staked = sum(one.stake for one in job.claims if one.owner == HONEST)
        if self.samples:
            assert model.credits.get(HONEST, 0) >= staked
            accepted = job.groups[job.accepted] if job.accepted is not None else None
            assert accepted is None or accepted.root == claim(RIGHT).root
            assert accepted is not None or job.ended is JobPhase.UNCLAIMED
            self.ends.add((job.ended, len(job.claims), sum(one.lost for one in job.claims)))
            return
        assert staked or all(trainer.owner != HONEST for trainer in job.trainers)
        assert model.credits.get(HONEST, 0) >= staked
        if not job.claims:
            assert job.ended is JobPhase.UNCLAIMED, "nothing is claimed where no trainer has shown anything"
            return
        assert job.ended is JobPhase.ACCEPTED
        assert job.accepted is not None
        assert job.groups[job.accepted].root == claim(RIGHT).root
        self.ends.add((job.ended, len(job.claims), sum(one.lost for one in job.claims)))


def explored(others: int, slots: int, trains: bool, refutes: bool = False) -> None:
    world = World(OTHERS[:others], trains, slots, refutes)
    world.explore()
    # The play tests something only if the honest person has to fight.
    assert world.most_matches >= others
    assert (JobPhase.ACCEPTED, others + 1, others) in world.ends
    print(f"{len(world.seen)} states, {len(world.ends)} ends, at most {world.most_matches} matches")


@pytest.mark.parametrize("trains", [True, False], ids=["trainer", "challenger"])
@pytest.mark.parametrize(("others", "slots"), [(1, 1), (1, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_every_job(others: int, slots: int, trains: bool) -> None:
    explored(others, slots, trains)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("trains", [True, False], ids=["trainer", "challenger"])
@pytest.mark.parametrize("slots", [2, 3])
def test_every_job_of_three_people_and_more_slots(slots: int, trains: bool) -> None:
    explored(2, slots, trains)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("trains", [True, False], ids=["trainer", "challenger"])
def test_every_job_of_four_people(trains: bool) -> None:
    explored(3, 1, trains)


@pytest.mark.parametrize("trains", [True, False], ids=["trainer", "challenger"])
@pytest.mark.parametrize(("others", "slots"), [(1, 1), (1, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_every_job_with_refutations(others: int, slots: int, trains: bool) -> None:
    explored(others, slots, trains, refutes=True)


def sampled(others: int, slots: int, often: int) -> World:
    """Explore the jobs that one sampler watches, in which each of the others refutes up to ``often`` times."""
    world = World(OTHERS[:others], False, slots, often > 0, samples=True, often=often)
    world.explore()
    return world


@pytest.mark.parametrize(
    ("others", "slots", "often"),
    [
        *((1, 1, often) for often in range(4)),
        *(pytest.param(2, slots, often, marks=SLOW) for slots in (1, 2) for often in (0, 1)),
    ],
)
def test_every_job_that_a_sampler_watches(others: int, slots: int, often: int) -> None:
    world = sampled(others, slots, often)
    assert (JobPhase.UNCLAIMED, others + 1, others) in world.ends
    print(f"{len(world.seen)} states, {len(world.ends)} ends, at most {world.most_matches} matches")


def test_a_sampler_that_lets_an_ally_play_first_needs_the_period_that_opens_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampled(1, 1, 3)
    monkeypatch.setattr(Group, "refutable", lambda group, now: not group.dead and now < group.until)
    with pytest.raises(AssertionError):
        sampled(1, 1, 3)
