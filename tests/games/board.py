"""A job from its post on, and what everybody can do in it: the contracts' rules in Python, matches as their results.

A side that is right and plays wins its match, within the longest time (tests/referee_py/game/test_exhaustive.py shows
that of matches). Every other result occurs: both sides may belong to strangers, who give a match away, by evidence or
by time, at once or in the last second.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from referee_py.availability.refusals import ResponseLate
from referee_py.availability.state import Piece, Place, RequestState
from referee_py.execute import RunClaim
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, Rules
from referee_py.program.modes import REPOPS_F32
from referee_py.program.terms import Terms
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import require
from tests.model.availability_hook import AvailabilityHook
from tests.model.chain_model import ChainModel
from tests.model.data_availability import DataAvailability, DataRequest, Subject
from tests.model.jobs import Group, Job, JobTerms, Match, Refutation, StakedClaim, Trainer
from trainer_node.chain import JobView
from trainer_node.run.refutation import Refuted

from .job_views import job_view
from .runs import (
    CHAIN,
    HONEST,
    INTERVALS,
    JOB,
    JOBS,
    NAMES,
    NO_LOGS,
    ROOTS,
    SALT,
    claim,
    hashed,
    hashed_of,
    hashed_refutation,
    result,
    who,
)

REFEREE, PANEL, CLIENT = ("0x" + digit * 40 for digit in "234")
STAKE, REWARD = 1 << 20, 300 << 20
NO_ROOTS = bytes(32), bytes(32), bytes(32), bytes(32)
PLACE = Place(Piece.RECORD, 0, 0)
"""The data that strangers request."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. NOTE: a search visits every second, so a period has as few as it takes to commit, to wait and to claim.

    ``period``: to challenge, to claim again, to respond; ``match``: the longest match; ``budget``: after which data
    that have not come are withheld; ``whole``: to replay a run, at most; ``age``: of a commitment, at least.
    """

    period: int
    match: int
    budget: int
    whole: int
    age: int
    training: int = 2
    reveal: int = 1


FINE = Times(period=4, match=3, budget=1, whole=1, age=1)
COARSE = Times(period=2, match=1, budget=1, whole=0, age=0)
"""As few seconds as there can be, so that longer games can be searched."""


@dataclass(frozen=True, slots=True)
class Left:
    """What strangers can still do: claim or refute (each with a stake), and request data."""

    stakes: int
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """What an account sends at an instant: a function of the contract Jobs, or the end of a match."""

    at: int
    sender: str
    function: str
    of: Any
    value: int = 0


class Board:
    """A job, the instant, and what the honest party knows. ``paid``: the wei that it has staked."""

    def __init__(self, times: Times, slots: int, left: Left, start: int = 100) -> None:
        model = ChainModel(CHAIN, JOBS, REFEREE, PANEL, commit_age=times.age)
        program = Terms(1, REPOPS_F32.byte, 1, 0, 0, INTERVALS, *NO_ROOTS, (1,))
        rules = Rules(0, times.period, times.period, times.period)
        terms = JobTerms(program, slots, STAKE, times.training, times.reveal, times.period, rules, ())
        self.times, self.now = times, start
        self.model, self.left = model, left
        model.post(terms, CLIENT, REWARD, self.now)
        self.opened: dict[int, int] = {}
        self.paid = self.staked = 0
        """Wei staked by the honest party, and by all."""
        self.accounts = 1 << 32 | start
        """NOTE: numbers of this size are nobody else's accounts on a chain."""
        self.calls: list[Call] | None = None
        """What was sent, if that is recorded."""
        self.chosen: dict[str, str] = {}
        """By slot holder: the run that it has committed to."""
        self._view: JobView | None = None
        self.knows: tuple[object, ...] = ()
        """What the honest party knows, as its role keeps it."""

    @property
    def job(self) -> Job:
        return self.model.jobs[JOB]

    @property
    def phase(self) -> JobPhase:
        return self.job.phase(self.now)

    @property
    def view(self) -> JobView:
        """What the chain shows of the job. NOTE: only copies of a board change, so a board has one view."""
        if self._view is None:
            self._view = job_view(self.model, JOB, self.now)
        return self._view

    def copied(self) -> Board:
        twin, job = _twin(self), _twin(self.job)
        model = twin.model = _twin(self.model)
        job.trainers, job.claims = [_trainer(t) for t in job.trainers], [_staked(c) for c in job.claims]
        job.groups, job.committed_at = [_group(g) for g in job.groups], dict(job.committed_at)
        for group in job.groups:
            group.members, group.queue = group.members[:], group.queue[:]
        model.jobs, model.credits = {JOB: job}, dict(model.credits)
        model.matches = dict(model.matches)
        for number in self.opened:
            model.matches[number] = _match(model.matches[number])
        twin.opened, twin.chosen, twin._view = dict(self.opened), dict(self.chosen), None
        twin.calls = None if self.calls is None else self.calls[:]
        return twin

    # --- what can be read -----------------------------------------------------------------------------------------

    def named(self, group: int) -> str:
        """Return the name of a group's run; "/" for a refutation."""
        found_ = self.job.groups[group]
        return "/" if found_.refutes is not None else NAMES[found_.root]

    def group(self, name: str) -> Group | None:
        return self.job.group_of(ROOTS[name])

    def running(self) -> list[tuple[int, Match]]:
        return [(k, match) for k, match in self.model.matches.items() if match.state.phase is not Phase.DONE]

    def late(self, match: int) -> bool:
        """Return whether a match has lasted as long as it can."""
        return self.now >= self.opened[match] + self.times.match

    def results(self, match: Match) -> tuple[int, ...]:
        """Return the losers of a match, as bits, in every way in which it may end."""
        for side, group in enumerate(match.groups):
            if self.job.spokesman(group).owner == HONEST:
                return (1 << (1 - side),)
        return 1, 2, 3

    @property
    def over(self) -> bool:
        """True if `finalize` is due."""
        return (
            self.phase is JobPhase.CLOSING and not self.job.open_matches and self.now >= self.job.reclaim_end
        )

    def spend(self) -> None:
        """Count a stake of strangers."""
        self.left = replace(self.left, stakes=self.left.stakes - 1)

    # --- acts of anybody ------------------------------------------------------------------------------------------

    def _account(self) -> str:
        self.accounts += 1
        return who(self.accounts)

    def join(self, owner: str | None = None) -> None:
        owner = owner or self._account()
        self.model.join(JOB, owner, STAKE, self.now)
        self._stakes(owner, STAKE)
        self._sent(owner, "join", None, STAKE)

    def commit(self, owner: str, name: str) -> None:
        self.model.commit(JOB, hashed(owner, name), owner, self.now)
        self.chosen[owner] = name
        self._sent(owner, "commit", name)

    def reveal(self, owner: str) -> None:
        self.model.reveal(JOB, claim(self.chosen[owner]), NO_LOGS, SALT, owner, 0, self.now)
        self._sent(owner, "reveal", self.chosen[owner])
        self._watch_matches()

    def claims(self, name: str) -> None:
        """Let a stranger claim a run. NOTE: it may have committed to everything long before."""
        owner = self._account()
        self._committed(hashed(owner, name))
        self._sent(owner, "committed before", result(name))
        self.challenge(owner, name)
        self.spend()

    def refutes(self, told: Refuted) -> None:
        """Let a stranger refute a run."""
        owner = self._account()
        self._committed(hashed_refutation(owner, told))
        self._sent(owner, "committed before", told)
        self.refute(owner, told)
        self.spend()

    def challenge(self, owner: str, name: str) -> None:
        shown = claim(name)
        price = self.model.price_of(JOB, shown.root)
        self.model.challenge(JOB, shown, SALT, owner, price, self.now)
        self._stakes(owner, price)
        self._sent(owner, "challenge", name, price)
        self._watch_matches()

    def refute(self, owner: str, told: Refuted) -> None:
        price = self.model.refutation_price_of(JOB, told.against)
        stated = Refutation(told.against, told.index, told.claimed, told.computed, told.siblings)
        self.model.refute(JOB, stated, SALT, owner, price, self.now)
        self._stakes(owner, price)
        self._sent(owner, "refute", told, price)
        self._watch_matches()

    def ends(self, number: int, losers: int) -> None:
        match = self.model.matches[number]
        match.state = replace(match.state, phase=Phase.DONE, losers=losers, reason=Reason.TIMEOUT)
        self.model._resolve(match, (), self.now)
        self._sent(CLIENT, "match", (number, losers, self.opened.pop(number)))
        self._watch_matches()

    def finalize(self) -> None:
        """End the job, and collect every claim."""
        self.model.finalize(JOB, self.now)
        self._sent(CLIENT, "finalize", None)
        for number, one in enumerate(self.job.claims):
            if not one.lost:
                self.model.collect(JOB, number)
                self._sent(one.owner, "collect", number)

    # --- requests for data ----------------------------------------------------------------------------------------

    def request(self, name: str) -> None:
        """Let a stranger request a record of a run."""
        self._own_requests().request(self.subject(name), [PLACE], self._account(), 1 << 40, self.now)
        self.left = replace(self.left, requests=self.left.requests - 1)

    def requested(self, name: str) -> DataRequest | None:
        """Return the open request for a run's data."""
        if not self.model.data_availability.requests:
            return None
        request = self.model.data_availability.requests.get((self.subject(name), PLACE))
        return request if request is not None and request.state is RequestState.OPEN else None

    def answer(self, name: str) -> None:
        """Answer a request. NOTE: the data are not checked, as moves of matches are not."""
        data, subject = self._own_requests(), self.subject(name)
        request = data.requests[subject, PLACE]
        require(self.now <= request.until, ResponseLate, request.until)
        request.state = RequestState.ANSWERED
        data._open_places[subject, request.life].remove(PLACE, self.now)

    def close(self, name: str) -> None:
        """Close a request that is late: the root has lost all its claims."""
        self._own_requests().close(self.subject(name), PLACE, self.now)
        self._watch_matches()

    @staticmethod
    @cache
    def subject(name: str) -> Subject:
        return Subject(JOB, ROOTS[name])

    def _own_requests(self) -> DataAvailability:
        """Return this board's requests, apart from those of the board that it was copied from."""
        data = self.model.data_availability = copy(self.model.data_availability)
        data._jobs = AvailabilityHook(self.model)
        data.requests, data._open_places = deepcopy(data.requests), deepcopy(data._open_places)
        data.credits = dict(data.credits)
        return data

    # --- the honest party's commitments, as its node keeps them ---------------------------------------------------

    def committed_at(self, of: RunClaim) -> int | None:
        """Return when the honest party has committed to a claim or a refutation; None if it has not."""
        return self.job.committed_at.get(hashed_of(of))

    def commits(self, of: RunClaim) -> None:
        self.model.commit_challenge(JOB, hashed_of(of), self.now)
        self._sent(HONEST, "commitChallenge", of)

    def deliver(self, of: RunClaim) -> Callable[[Board], None] | None:
        """Return what the honest party's node sends for a claim or a refutation: its commitment, then the act once that
        is old enough; None while it waits."""
        at = self.committed_at(of)
        if at is None:
            return lambda board: board.commits(of)
        if self.now < at + self.model.commit_age:
            return None
        if isinstance(of, Refuted):
            return lambda board: board.refute(HONEST, of)
        return lambda board: board.challenge(HONEST, NAMES[of.root])

    # --- inside ---------------------------------------------------------------------------------------------------

    def _committed(self, told: bytes) -> None:
        self.model.commit_challenge(JOB, told, self.now - self.model.commit_age)

    def _sent(self, sender: str, function: str, of: object, value: int = 0) -> None:
        if self.calls is not None:
            self.calls.append(Call(self.now, sender, function, of, value))

    def _stakes(self, owner: str, amount: int) -> None:
        self.staked += amount
        self.paid += amount * (owner == HONEST)

    def _watch_matches(self) -> None:
        for number in range(len(self.model.matches), 0, -1):
            if number in self.opened or self.model.matches[number].state.phase is Phase.DONE:
                break
            self.opened[number] = self.now


T = TypeVar("T")


def _twin(of: T) -> T:
    """Return a shallow copy. NOTE: `copy.copy` takes four times as long."""
    twin = object.__new__(type(of))
    if isinstance(of, Job):
        for slot in Job.__slots__:
            setattr(twin, slot, getattr(of, slot))
    else:
        twin.__dict__.update(of.__dict__)
    return twin


def _copier(kind: type[T]) -> Callable[[T], T]:
    """Return what copies a dataclass, shallowly."""
    fields_of = attrgetter(*(one.name for one in fields(kind)))  # type: ignore[arg-type]
    return lambda of: kind(*fields_of(of))


_trainer, _staked, _group, _match = _copier(Trainer), _copier(StakedClaim), _copier(Group), _copier(Match)
