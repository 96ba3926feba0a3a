"""One job under siege: liars who claim, play and lose as a strategy decides, and one honest challenger.

The jobs, groups and payments follow the rules (`referee_py.game.chain_model`). The strategy decides how long a match
lasts, up to its limit, and which of two liars loses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush

from referee_py.commit import Tag, Tree, fold_path
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, Rules, commitment
from referee_py.params import BURNED
from referee_py.program.modes import REPOPS_F32
from referee_py.program.terms import Terms
from referee_py.walk.reason import Reason
from tests.model.chain_model import ChainModel
from tests.model.jobs import Claim, Job, JobTerms, Match, Refutation

from .bounds import delay_bound, delay_by_levels

NO_ROOTS = bytes(32), bytes(32), bytes(32), bytes(32)

CHAIN, JOBS, REFEREE, PANEL, CLIENT = 31337, *("0x" + digit * 40 for digit in "1234")
SALT = bytes(32)
STAKE = 1 << 20
REWARD = 10 * STAKE
PERIOD = 1000
"""Seconds to challenge, and to claim a root again."""
LONGEST = 700
"""Maximum seconds of a match with its hearing."""
TRUTH = 0
"""The root of honest training; liars have all others."""


def run(number: int) -> Claim:
    """Return the claim of run `number`, different for each number: two checkpoints, with the proof of the last."""
    tree = Tree(Tag.RUN_TREE, [number.to_bytes(32, "big")] * 2)
    return Claim(tree.root, tree.leaves[1], tuple(tree.path(1)))


def who(number: int) -> str:
    return "0x" + number.to_bytes(20, "big").hex()


@dataclass(frozen=True, slots=True)
class Ending:
    """The course of a match that its strategy wants: seconds, and the sides that lose if no honest party speaks."""

    seconds: int = LONGEST
    losers: int = 1


class Strategy:
    """The behaviour of liars. In the base class each claims a root once, and plays for as long as possible."""

    def __init__(self, liars: int, trainers: tuple[int, ...] = (1,)) -> None:
        self.liars = liars
        self.trainers = trainers
        """The roots that slot holders reveal."""

    def claims(self, siege: Siege) -> list[int]:
        """Return the roots that liars claim now."""
        open_ = siege.job.phase(siege.now) is JobPhase.CHALLENGE
        return list(range(100, 100 + self.liars)) if open_ and not siege.job.founded else []

    def refutes(self, _: Siege) -> list[int]:
        """Return the roots that liars refute now."""
        return []

    def ending(self, _: Siege, __: Match) -> Ending:
        """Return the ending of a match that opens. NOTE: an honest party never loses, whatever this returns."""
        return Ending()

    def wait(self, siege: Siege) -> int | None:
        """Return an instant at which the strategy wants to act, besides those of other events, or None."""
        return siege.job.challenge_end - 1 if siege.now < siege.job.challenge_end - 1 else None


class Siege:
    """Plays a job from its post to its payments. ``now`` jumps from one event to the next."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.model = ChainModel(CHAIN, JOBS, REFEREE, PANEL, commit_age=0)
        program = Terms(1, REPOPS_F32.byte, 1, 0, 0, 2, *NO_ROOTS, (1,))
        slots = len(strategy.trainers)
        rules = Rules(0, PERIOD, PERIOD, PERIOD)
        terms = JobTerms(program, slots, STAKE, PERIOD, PERIOD, PERIOD, rules, ())
        self.now = 10 * PERIOD
        self.id = self.model.post(terms, CLIENT, REWARD, self.now)
        self.job: Job = self.model.jobs[self.id]
        self.roots = {run(TRUTH).root: TRUTH}
        self.honest: set[str] = set()
        self.paid: dict[str, int] = {}
        self.matches = 0
        self._people = 0
        self._ends: list[tuple[int, int]] = []
        self._seen = 0

    # --- moves ----------------------------------------------------------------------------------------------------

    def _person(self, *, honest: bool) -> str:
        self._people += 1
        if honest:
            self.honest.add(who(self._people))
        return who(self._people)

    def _train(self) -> None:
        people = [self._person(honest=False) for _ in self.strategy.trainers]
        for person in people:
            self.paid[person] = STAKE
            self.model.join(self.id, person, STAKE, self.now)
        runs = [run(number) for number in self.strategy.trainers]
        self.roots |= {shown.root: number for shown, number in zip(runs, self.strategy.trainers, strict=True)}
        for person, shown in zip(people, runs, strict=True):
            hashed = commitment(CHAIN, JOBS, self.id, person, shown.root, shown.last, SALT, SALT)
            self.model.commit(self.id, hashed, person, self.now)
        for person, shown in zip(people, runs, strict=True):
            self.model.reveal(self.id, shown, SALT, SALT, person, 0, self.now)

    def claim(self, number: int, *, honest: bool = False) -> None:
        shown, person = run(number), self._person(honest=honest)
        self.roots[shown.root] = number
        price = self.model.price_of(self.id, shown.root)
        hashed = commitment(CHAIN, JOBS, self.id, person, shown.root, shown.last, SALT, SALT)
        self.model.commit_challenge(self.id, hashed, self.now)
        self.model.challenge(self.id, shown, SALT, person, price, self.now)
        self.paid[person] = price

    def refute(self, number: int) -> None:
        """Let a liar state that the last checkpoint of a claimed run is wrong."""
        shown, person = run(number), self._person(honest=False)
        told = Refutation(shown.root, 1, shown.last, person.encode()[-32:], shown.last_path)
        root = fold_path(Tag.RUN_TREE, told.computed, 1, told.path)
        price = self.model.refutation_price_of(self.id, shown.root)
        hashed = commitment(CHAIN, JOBS, self.id, person, root, told.computed, told.root, SALT)
        self.model.commit_challenge(self.id, hashed, self.now)
        self.model.refute(self.id, told, SALT, person, price, self.now)
        self.paid[person] = price

    def refutable(self, number: int) -> bool:
        """Return whether the rules let anybody refute this root now."""
        phase, group = self.job.phase(self.now), self.job.group_of(run(number).root)
        if group is None or group.dead:
            return False
        return phase is JobPhase.CHALLENGE or (phase is JobPhase.CLOSING and group.refutable(self.now))

    def claimable(self, number: int) -> bool:
        """Return whether the rules let a challenger claim this root now."""
        phase, group = self.job.phase(self.now), self.job.group_of(run(number).root)
        if phase is JobPhase.CHALLENGE:
            return True
        return phase is JobPhase.CLOSING and group is not None and group.claimable(self.now)

    def _act_honestly(self) -> None:
        """Claim the right root if nobody does, or once it has lost a claim and fewer than two are left."""
        group = self.job.group_of(run(TRUTH).root)
        forsaken = group is None or (group.spokesman > 0 and len(group.members) - group.spokesman < 2)
        alive = group is not None and any(self.job.claims[k].owner in self.honest for k in group.members)
        if forsaken and not alive and self.claimable(TRUTH):
            self.claim(TRUTH, honest=True)

    def _open(self) -> None:
        """Decide how each new match will end."""
        for number in range(self._seen + 1, len(self.model.matches) + 1):
            match = self.model.matches[number]
            honest = sum(1 << side for side in (0, 1) if match.terms.players[side] in self.honest)
            ending = self.strategy.ending(self, match)
            losers = {1: 0b10, 2: 0b01}.get(honest, ending.losers)
            match.state = replace(match.state, losers=losers)
            heappush(self._ends, (self.now + min(ending.seconds, LONGEST), number))
        self._seen = self.matches = len(self.model.matches)

    def _end(self) -> None:
        """End the matches whose time is over."""
        while self._ends and self._ends[0][0] <= self.now:
            match = self.model.matches[heappop(self._ends)[1]]
            match.state = replace(match.state, phase=Phase.DONE, reason=Reason.TIMEOUT)
            self.model._resolve(match, (), self.now)
            self._open()

    # --- the whole ------------------------------------------------------------------------------------------------

    def play(self) -> Outcome:
        self._train()
        self._open()
        start = self.job.challenge_end
        while True:
            self._end()
            for number in self.strategy.claims(self):
                if self.claimable(number):
                    self.claim(number)
                    self._open()
            for number in self.strategy.refutes(self):
                if self.refutable(number):
                    self.refute(number)
                    self._open()
            self._act_honestly()
            self._open()
            first = self.job.challenge_end
            due = [first, self.job.reclaim_end, self._ends[0][0] if self._ends else 0]
            wish = self.strategy.wait(self)
            later = [instant for instant in (*due, wish or 0) if instant > self.now]
            if not later:
                break
            self.now = min(later)
        self.model.finalize(self.id, self.now)
        for number, claim in enumerate(self.job.claims):
            if not claim.lost:
                self.model.collect(self.id, number)
        return self._outcome(start)

    def _outcome(self, start: int) -> Outcome:
        job, owed = self.job, self.model.credits
        liars = [person for person in self.paid if person not in self.honest]
        accepted = None if job.accepted is None else self.roots[job.groups[job.accepted].root]
        refutations = sum(group.refutes is not None for group in job.groups)
        return Outcome(
            accepted=accepted,
            seconds=self.now - start,
            groups=len(job.groups) - refutations,
            refutations=refutations,
            lives=tuple(len(group.members + group.queue) for group in job.groups if group.refutes is None),
            reopened=job.reopened,
            spares=len(job.claims) - len(job.groups),
            matches=self.matches,
            liars_paid=sum(self.paid[person] for person in liars),
            liars_lost=sum(self.paid[person] - owed.get(person, 0) for person in liars),
            honest_paid=sum(self.paid[person] for person in self.honest),
            honest_won=sum(owed.get(person, 0) - self.paid[person] for person in self.honest),
            burned=owed.get(BURNED, 0),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """``seconds`` from the end of the challenge phase to that of the job; ``spares``: claims of a root that was
    claimed before; ``reopened``: the end of the challenge period that a refutation has opened, or 0. Amounts are wei;
    money that liars win from each other is not lost."""

    accepted: int | None
    seconds: int
    groups: int
    refutations: int
    lives: tuple[int, ...]
    """The number of claims and refutations of each root."""
    reopened: int
    spares: int
    matches: int
    liars_paid: int
    liars_lost: int
    honest_paid: int
    honest_won: int
    burned: int

    @property
    def bound(self) -> int:
        spares = self.spares + self.refutations
        # NOTE: a second challenge period begins at most a match after the first, and the count begins again at its end.
        again = delay_bound(self.groups, spares, LONGEST, PERIOD) + PERIOD if self.reopened else 0
        return delay_bound(self.groups, spares, LONGEST, PERIOD) + again

    @property
    def bound_by_levels(self) -> float:
        bound = delay_by_levels(self.lives, LONGEST, PERIOD)
        return 2 * bound + PERIOD if self.reopened else bound
