"""Data requests in order, with their money: the contract `DataAvailability` in Python.

INVARIANT: ether in = credits + deposits of open requests + ether withdrawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Protocol

from ..game.escrow import BURNED, Escrow
from ..game.refusals import require
from ..game.state import ProgramHeader
from . import refusals
from .pieces import check, check_kind, check_place
from .state import Piece, Place, RequestState, Response

ANSWER_GAS, BYTE_GAS = 150_000, 80
MAX_BYTES, MAX_BLOCK_BYTES = 13_312, 53_088
RECORD_SECONDS, LOG_SECONDS = 10, 60
"""For one more answer, of whoever sends 100,000 bytes a minute: seven of the longest leaves, one page of blocks."""
MAX_PLACES, MAX_OPEN = 256, 512
"""Of one call; and open under one root."""
STEP, MAX_RANK = 64, 15
"""A deposit doubles with every other checkpoint that is open, and with every so many open pieces: so often at most."""
CROWD = 32
"""Time counts as waited for pages of logs while so many are open."""
PRICE_UNIT = 1_000
"""A request's price is a whole number of these, in wei."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The job, and the root that a request is about."""

    job_id: int
    root: bytes


def rank_of(opened: int, others: int) -> int:
    """How often the deposit is doubled of a request that comes with so much open under its root."""
    return others + opened // STEP


def request_price(fee: int) -> int:
    """What a unit of gas counts for in a request, in wei, if it counts for ``fee`` in the job: rounded up."""
    return -(-fee // PRICE_UNIT) * PRICE_UNIT


def deposit_of(piece: Piece, price: int) -> int:
    """What a first request of this piece costs at most, in wei, at so many wei for a unit of gas."""
    return price * (ANSWER_GAS + BYTE_GAS * (MAX_BLOCK_BYTES if piece is Piece.BLOCKS else MAX_BYTES))


@dataclass(slots=True)
class DataRequest:
    requester: str
    until: int
    life: int
    rank: int
    price: int
    """What a unit of gas counts for, in wei."""
    state: RequestState = RequestState.OPEN

    def deposit(self, place: Place) -> int:
        """In wei, of a request of this place."""
        return deposit_of(place.piece, self.price) << self.rank


@dataclass(slots=True)
class OpenRequests:
    """What is open about one root, in one of its lives."""

    start: int = 0
    """Of logs, from when extensions count: the first request, later by the time that was waited for pages since."""
    since: int = 0
    """Of logs: until when that time has been counted."""
    wait: int = 0
    """Of logs: the most that may be counted for the pages that are open."""
    open: int = 0
    checkpoints: Counter[int] = field(default_factory=Counter)
    """Of records: how many pieces of a checkpoint are open; none that is zero."""

    def others(self, place: Place) -> int:
        """How many checkpoints are open besides the place's."""
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
            self.checkpoints += Counter()  # without what is zero
        elif not self.open:
            self.wait = 0

    def count(self, now: int) -> None:
        """The time in which enough pages of logs were open.

        SAFETY: time counts, and not pages. Otherwise a party that requests pages and answers them at once would put the
        end off for their gas, and one that requests the next when the last is answered, for one page a block.
        """
        self.start = self.start or now
        if self.open >= CROWD:
            waited = min(now - self.since, self.wait)
            self.start += waited
            self.wait -= waited
        self.since = now


class Jobs(Protocol):
    def program_of(self, job_id: int) -> ProgramHeader: ...

    def logs_of(self, job_id: int) -> bytes | None:
        """None in a mode without logs."""
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
        """What a unit of gas counts for in requests of a job now, in wei."""
        return request_price(self._jobs.fee_of(job_id))

    def deposits(self) -> int:
        """Those of all open requests."""
        return sum(
            request.deposit(place)
            for (_, place), request in self.requests.items()
            if request.state is RequestState.OPEN
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def request(self, subject: Subject, places: Sequence[Place], sender: str, value: int, now: int) -> None:
        require(bool(places), refusals.NothingRequested)
        require(len(places) <= MAX_PLACES, refusals.TooManyPlaces, len(places), MAX_PLACES)
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
            # NOTE: who claims a root after all who had claimed it lost does not answer for what was requested of them.
            stale = known is not None and known.state is RequestState.OPEN and known.life != life
            # NOTE: whoever is first to request one of many places must not keep another from the rest.
            if (known is not None and not stale) or place in new:
                continue
            rank = rank_of(requests.open, others)
            room = rank <= MAX_RANK and requests.open < MAX_OPEN
            require(room, refusals.TooManyOpen, requests.open, others)
            new[place] = DataRequest(sender, due + requests.open * each, life, rank, price)
            requests.add(place)
            # SAFETY: whoever follows the run by pages that come in their last second, 64 open at a time, is in time.
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
            return  # whoever is first with one of many answers does not undo the rest
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
        """A request is over without an answer: its deposit goes back, and the place can be requested again."""
        request = self.requests.pop((subject, place))
        self._open_places[subject, request.life].remove(place, now)
        self.credit(request.requester, request.deposit(place))

    # --- views ----------------------------------------------------------------------------------------------------

    def open_of(self, subject: Subject, place: Place) -> tuple[int, int]:
        """The pieces that are open under the root, and of how many checkpoints besides the place's."""
        requests = self._open_places.get((subject, self._checked(subject, place.piece.of_logs)))
        return (requests.open, requests.others(place)) if requests else (0, 0)

    def pending(self, job_id: int, logs: bytes, root: bytes, life: int) -> int:
        """Requests that are open: of the job's logs, and of this root in that life."""
        keys = (Subject(job_id, logs), 0), (Subject(job_id, root), life)
        return sum(requests.open for key in keys if (requests := self._open_places.get(key)))

    def _open(self, subject: Subject, place: Place) -> DataRequest:
        request = self.requests.get((subject, place))
        if request is None or request.state is not RequestState.OPEN:
            raise refusals.NoSuchRequest(f"{place} of job {subject.job_id}")
        return request

    def _checked(self, subject: Subject, of_logs: bool) -> int:
        """Which life the claimed root is in; 0 of logs."""
        if of_logs:
            require(self._jobs.logs_of(subject.job_id) == subject.root, refusals.NoSuchLogs, subject.root)
            return 0
        life, claimed = self._jobs.standing(subject.job_id, subject.root)
        require(claimed, refusals.NotClaimed, subject.root)
        return life
