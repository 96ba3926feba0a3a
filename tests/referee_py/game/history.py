"""A history of a job in the model: what has happened, which of it still matters, and the moves that go on from it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

from referee_py.commit import Tag, fold_path
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, commitment
from referee_py.walk.reason import Reason
from tests.model.chain_model import ChainModel
from tests.model.jobs import Job, Match, Refutation

from .scenario import JOBS, STAKE, claim, run_tree

NO_LOGS = SALT = bytes(32)
REFUTES = "/"
"""What a person has committed to: the name of a run, or this and the name of a run that it refutes."""


@dataclass
class History:
    """A job from its post on. `opened`: the instant at which each match began."""

    model: ChainModel
    now: int
    opened: dict[int, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    """The root that each person has committed to in a slot."""
    meant: dict[str, str] = field(default_factory=dict)
    """What each person has last committed to as a challenger."""

    @property
    def job(self) -> Job:
        return self.model.jobs[1]

    @property
    def phase(self) -> JobPhase:
        return self.job.phase(self.now)

    @property
    def running(self) -> dict[int, Match]:
        return {k: match for k, match in self.model.matches.items() if match.state.phase is not Phase.DONE}

    def copied(self) -> History:
        model, job = copy(self.model), copy(self.job)
        job.trainers, job.claims = list(map(copy, job.trainers)), list(map(copy, job.claims))
        job.groups, job.committed_at = list(map(copy, job.groups)), dict(job.committed_at)
        for group in job.groups:
            group.members, group.queue = list(group.members), list(group.queue)
        model.jobs, model.credits = {1: job}, dict(model.credits)
        model.matches = {k: copy(match) for k, match in model.matches.items()}
        return History(model, self.now, dict(self.opened), dict(self.chosen), dict(self.meant))

    def key(self) -> object:
        """Return all that matters of a history. NOTE: instants are relative to now; past ones are zero."""
        job, now = self.job, self.now
        return (
            *(
                max(instant - now, 0)
                for instant in (job.commit_end, job.reveal_end, job.challenge_end, job.reclaim_end)
            ),
            *(job.ended, job.waiting, job.accepted, bool(job.reopened)),
            tuple((trainer.owner, trainer.commitment, trainer.revealed) for trainer in job.trainers),
            tuple((one.owner, one.stake, one.group, one.slot, one.lost) for one in job.claims),
            tuple((g.root, tuple(g.members), g.spokesman) for g in job.groups),
            tuple((max(g.until - now, 0), max(g.refutable_until - now, 0)) for g in job.groups),
            tuple((g.refutes, tuple(g.queue), g.next) for g in job.groups),
            *(job.founded, job.followers),
            tuple(sorted((hashed, now > at) for hashed, at in job.committed_at.items())),
            tuple((match.groups, now - self.opened[k]) for k, match in self.running.items()),
            frozenset(self.model.credits.items()),
        )

    def forsaken(self, root: bytes) -> bool:
        """Return whether a root can be claimed, and is unclaimed or has lost a claim and has at most one left."""
        group = self.job.group_of(root)
        if group is None:
            return self.phase is JobPhase.CHALLENGE and bool(self.job.claims)
        left = len(group.members) - group.spokesman
        open_ = self.phase is JobPhase.CHALLENGE or group.claimable(self.now)
        return group.spokesman > 0 and left < 2 and open_

    def committed(self, person: str, name: str) -> int | None:
        """Return the instant at which a person has committed to something as a challenger."""
        return self.job.committed_at.get(_hashed(person, name))

    def refutations(self, person: str) -> int:
        """Return how many refutations a person has made."""
        job = self.job
        return sum(one.owner == person and job.groups[one.group].refutes is not None for one in job.claims)

    def disputed(self, root: bytes) -> bool:
        """Return whether a refutation of a root waits for its match, or plays, whoever has made it."""
        groups = self.job.groups
        return any(g.refutes is not None and groups[g.refutes].root == root and not g.dead for g in groups)

    # --- moves --------------------------------------------------------------------------------------------------------

    def join(self, person: str) -> None:
        self.model.join(1, person, STAKE, self.now)

    def resign(self, person: str) -> None:
        self.model.resign(1, person, self.now)

    def commit(self, person: str, name: str) -> None:
        self.model.commit(1, _hashed(person, name), person, self.now)
        self.chosen[person] = name

    def reveal(self, person: str) -> None:
        self.model.reveal(1, claim(self.chosen[person]), NO_LOGS, SALT, person, 0, self.now)

    def commit_challenge(self, person: str, name: str) -> None:
        self.model.commit_challenge(1, _hashed(person, name), self.now)
        self.meant[person] = name

    def challenge(self, person: str, name: str) -> None:
        if name.startswith(REFUTES):
            told = refutation(name)
            price = self.model.refutation_price_of(1, told.root)
            self.model.refute(1, told, SALT, person, price, self.now)
            return
        shown = claim(name)
        self.model.challenge(1, shown, SALT, person, self.model.price_of(1, shown.root), self.now)

    def finalize(self) -> None:
        """Finalize the job and collect every claim."""
        self.model.finalize(1, self.now)
        for number, one in enumerate(self.job.claims):
            if not one.lost:
                self.model.collect(1, number)

    def ends(self, number: int, losers: int, reason: Reason) -> None:
        match = self.model.matches[number]
        match.state = replace(match.state, phase=Phase.DONE, losers=losers, reason=reason)
        self.model._resolve(match, (), self.now)


def refutation(name: str) -> Refutation:
    """Return the statement that the second checkpoint of a run is wrong. NOTE: all intervals are alike here."""
    tree = run_tree(name.removeprefix(REFUTES))
    return Refutation(tree.root, 1, tree.leaves[1], b"other".rjust(32), tuple(tree.path(1)))


def _hashed(person: str, name: str) -> bytes:
    if name.startswith(REFUTES):
        told = refutation(name)
        root = fold_path(Tag.RUN_TREE, told.computed, told.interval, told.path)
        return commitment(31337, JOBS, 1, person, root, told.computed, told.root, SALT)
    shown = claim(name)
    return commitment(31337, JOBS, 1, person, shown.root, shown.last, NO_LOGS, SALT)
