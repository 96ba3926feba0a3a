"""Data requests and their money: the contract `DataAvailability` in Python (docs/protocol.md, section 8).

INVARIANT: ether in = credits + deposits of open requests + ether withdrawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Protocol

from referee_py.availability import refusals
from referee_py.availability.pieces import check, check_kind, check_place
from referee_py.availability.prices import deposit_of, rank_of, request_price
from referee_py.availability.state import Place, RequestState, Response
from referee_py.params import (
    ANSWER_GAS,
    BURNED,
    BYTE_GAS,
    CROWD,
    LOG_SECONDS,
    MAX_OPEN,
    MAX_RANK,
    MAX_REQUEST_PLACES,
    RECORD_SECONDS,
    STEP,
)
from referee_py.program.terms import Terms
from referee_py.walk.refusals import require

from .escrow import Escrow


@dataclass(frozen=True, slots=True)
class Subject:
    """The job and the root of a request."""

    job_id: int
    root: bytes


@dataclass(slots=True)
class DataRequest:
    requester: str
    until: int
    life: int
    rank: int
    price: int
    """Price of a unit of gas, in wei."""
    state: RequestState = RequestState.OPEN

    def deposit(self, place: Place) -> int:
        """Return the deposit of this request, whose place is ``place``, in wei."""
        return deposit_of(place.piece, self.price) << self.rank


@dataclass(slots=True)
class OpenRequests:
    """The open requests under one root, in one of its lives. Times are seconds."""

    start: int = 0
    """Logs: the instant from which extensions count, the first request plus the time waited for pages."""
    since: int = 0
    """Logs: the instant up to which the time waited is counted."""
    wait: int = 0
    """Logs: the most that may still be counted for the open pages."""
    open: int = 0
    checkpoints: Counter[int] = field(default_factory=Counter)
    """Records: number of open pieces of each checkpoint; no entry is zero."""

    def others(self, place: Place) -> int:
        """Return the number of open checkpoints other than the place's."""
        return len(self.checkpoints) - (not place.piece.of_logs and place.tree in self.checkpoints)

    def add(self, place: Place) -> None:
        self.open += 1
        if not place.piece.of_logs:
            self.checkpoints[place.tree] += 1

    def remove(self, place: Place, now: int) -> None:
        if place.piece.of_logs:
            self.count(now)
        self.open -= 1
        if not place.piece.of_logs:
            self.checkpoints[place.tree] -= 1
            self.checkpoints += Counter()  # drops entries that are zero
        elif not self.open:
            self.wait = 0

    def count(self, now: int) -> None:
        """Add the time in which at least `CROWD` pages of logs were open to ``start``.

        SAFETY: time counts, not pages. Otherwise a party that requests pages and answers them at once could put the end
        off for their gas. NOTE: `CROWD` prevents a party from doing so with one page a block.
        """
        self.start = self.start or now
        if self.open >= CROWD:
            waited = min(now - self.since, self.wait)
            self.start += waited
            self.wait -= waited
        self.since = now


class Jobs(Protocol):
    def program_of(self, job_id: int) -> Terms: ...

    def logs_of(self, job_id: int) -> bytes | None:
        """Return the job's log root; None in a mode without logs."""
        ...

    def over(self, job_id: int, now: int) -> bool: ...

    def standing(self, job_id: int, root: bytes) -> tuple[int, bool]: ...

    def check_extendable(self, job_id: int, root: bytes, of_logs: bool, now: int) -> None: ...

    def fee_of(self, job_id: int) -> int: ...

    def verdict_period(self, job_id: int) -> int: ...

    def extend(self, job_id: int, start: int, until: int, now: int) -> None: ...

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None: ...


class DataAvailability(Escrow):
    """Every move is one transaction: it takes effect whole or raises a Refusal."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs
        self.requests: dict[tuple[Subject, Place], DataRequest] = {}
        self._open_places: dict[tuple[Subject, int], OpenRequests] = {}

    def price_of(self, job_id: int) -> int:
        """Return the present price of a unit of gas in requests of a job, in wei."""
        return request_price(self._jobs.fee_of(job_id))

    def deposits(self) -> int:
        """Return the sum of the deposits of all open requests, in wei."""
        return sum(
            request.deposit(place)
            for (_, place), request in self.requests.items()
            if request.state is RequestState.OPEN
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def request(self, subject: Subject, places: Sequence[Place], sender: str, value: int, now: int) -> None:
        require(bool(places), refusals.NothingRequested)
        require(len(places) <= MAX_REQUEST_PLACES, refusals.TooManyPlaces, len(places), MAX_REQUEST_PLACES)
        of_logs, tree = places[0].piece.of_logs, places[0].tree
        program = self._jobs.program_of(subject.job_id)
        life = self._checked(subject, of_logs)
        requests = deepcopy(self._open_places.get((subject, life), OpenRequests()))
        if of_logs:
            requests.count(now)
        others = requests.others(places[0])
        period = self._jobs.verdict_period(subject.job_id)
        due = now + (others + 1) * period
        each = LOG_SECONDS if of_logs else RECORD_SECONDS
        price = self.price_of(subject.job_id)
        new: dict[Place, DataRequest] = {}
        for place in places:
            require(place.piece.of_logs == of_logs, refusals.WrongPiece, place.piece, places[0].piece)
            require(of_logs or place.tree == tree, refusals.AnotherCheckpoint, place.tree, tree)
            check_place(program, place)
            known = self.requests.get((subject, place))
            # NOTE: if all earlier claims of a root were lost, a new claimant does not answer for requests to those.
            stale = known is not None and known.state is RequestState.OPEN and known.life != life
            # NOTE: skipped, so that nobody spoils another's batch by requesting one of its places first.
            if (known is not None and not stale) or place in new:
                continue
            rank = rank_of(requests.open, others)
            room = rank <= MAX_RANK and requests.open < MAX_OPEN
            require(room, refusals.TooManyOpen, requests.open, others)
            new[place] = DataRequest(sender, due + requests.open * each, life, rank, price)
            requests.add(place)
            # SAFETY: a party that follows the run by pages is in time, even if 64 at a time come in the last second.
            requests.wait += (LOG_SECONDS + period // STEP) * of_logs
        if new:
            self._jobs.check_extendable(subject.job_id, subject.root, of_logs, now)
        deposit = sum(request.deposit(place) for place, request in new.items())
        require(value >= deposit, refusals.WrongDeposit, value, deposit)
        self.credit(sender, value - deposit)
        if not new:
            return
        self._jobs.extend(subject.job_id, requests.start, max(request.until for request in new.values()), now)
        self._open_places[subject, life] = requests
        for place in new:
            if (subject, place) in self.requests:
                self._drop(subject, place, now)
        self.requests.update({(subject, place): request for place, request in new.items()})

    def answer(self, subject: Subject, place: Place, answer: Response, sender: str, now: int) -> None:
        check_kind(place, answer)
        known = self.requests.get((subject, place))
        if known is not None and known.state is RequestState.ANSWERED:
            return  # so that nobody spoils another's batch by answering a part of it first
        request = self._open(subject, place)
        require(now <= request.until, refusals.ResponseLate, request.until)
        size = check(self._jobs.program_of(subject.job_id), subject.root, place, answer)
        request.state = RequestState.ANSWERED
        self._open_places[subject, request.life].remove(place, now)
        least, deposit = deposit_of(place.piece, request.price), request.deposit(place)
        fee = min(request.price * (ANSWER_GAS + BYTE_GAS * size), least)
        burned = (deposit - least) // 2
        self.credit(sender, fee)
        self.credit(BURNED, burned)
        self.credit(request.requester, deposit - fee - burned)

    def close(self, subject: Subject, place: Place, now: int) -> None:
        request, of_logs = self._open(subject, place), place.piece.of_logs
        moot = self._jobs.over(subject.job_id, now)
        if not moot and not of_logs:
            moot = self._jobs.standing(subject.job_id, subject.root) != (request.life, True)
        require(moot or now > request.until, refusals.NotLate, request.until)
        if not moot:
            self._jobs.forfeit(subject.job_id, subject.root, of_logs, request.requester, now)
        self._drop(subject, place, now)

    def _drop(self, subject: Subject, place: Place, now: int) -> None:
        """End a request without a response: its deposit goes back, and the place can be requested again."""
        request = self.requests.pop((subject, place))
        self._open_places[subject, request.life].remove(place, now)
        self.credit(request.requester, request.deposit(place))

    # --- views ----------------------------------------------------------------------------------------------------

    def open_of(self, subject: Subject, place: Place) -> tuple[int, int]:
        """Return the number of open pieces under the root, and of open checkpoints other than the place's."""
        requests = self._open_places.get((subject, self._checked(subject, place.piece.of_logs)))
        return (requests.open, requests.others(place)) if requests else (0, 0)

    def pending(self, job_id: int, logs: bytes, root: bytes, life: int) -> int:
        """Return the number of open requests of the job's logs and of this root in that life."""
        keys = (Subject(job_id, logs), 0), (Subject(job_id, root), life)
        return sum(requests.open for key in keys if (requests := self._open_places.get(key)))

    def _open(self, subject: Subject, place: Place) -> DataRequest:
        request = self.requests.get((subject, place))
        if request is None or request.state is not RequestState.OPEN:
            raise refusals.NoSuchRequest(f"{place} of job {subject.job_id}")
        return request

    def _checked(self, subject: Subject, of_logs: bool) -> int:
        """Return the life of a claimed root; 0 for logs. Raises NoSuchLogs or NotClaimed."""
        if of_logs:
            require(self._jobs.logs_of(subject.job_id) == subject.root, refusals.NoSuchLogs, subject.root)
            return 0
        life, claimed = self._jobs.standing(subject.job_id, subject.root)
        require(claimed, refusals.NotClaimed, subject.root)
        return life
