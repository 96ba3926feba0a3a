"""Demands in order, with their money: the contract `Demands` in Python.

INVARIANT: ether in = credits + deposits of open demands + ether withdrawn.
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
from .state import Answer, DemandState, Piece, Place

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
"""A demand's price is a whole number of these, in wei."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The job, and the root that a demand is about."""

    job_id: int
    root: bytes


def rank_of(opened: int, others: int) -> int:
    """How often the deposit is doubled of a demand that comes with so much open under its root."""
    return others + opened // STEP


def demand_price(fee: int) -> int:
    """What a unit of gas counts for in a demand, in wei, if it counts for ``fee`` in the job: rounded up."""
    return -(-fee // PRICE_UNIT) * PRICE_UNIT


def deposit_of(piece: Piece, price: int) -> int:
    """What a first demand of this piece costs at most, in wei, at so many wei for a unit of gas."""
    return price * (ANSWER_GAS + BYTE_GAS * (MAX_BLOCK_BYTES if piece is Piece.BLOCKS else MAX_BYTES))


@dataclass(slots=True)
class Demand:
    demander: str
    until: int
    life: int
    rank: int
    price: int
    """What a unit of gas counts for, in wei."""
    state: DemandState = DemandState.OPEN

    def deposit(self, place: Place) -> int:
        """In wei, of a demand of this place."""
        return deposit_of(place.piece, self.price) << self.rank


@dataclass(slots=True)
class Docket:
    """What is open about one root, in one of its lives."""

    start: int = 0
    """Of logs, from when extensions count: the first demand, later by the time that was waited for pages since."""
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

        SAFETY: time that passes, and not pages, or whoever demands pages and answers them at once would put the end off
        for their gas; and whoever demands one when the one before is answered, for the gas of one page a block.
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


class Demands(Escrow):
    """Every move is one transaction: it takes effect whole or raises a Refusal."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self._jobs = jobs
        self.demands: dict[tuple[Subject, Place], Demand] = {}
        self._dockets: dict[tuple[Subject, int], Docket] = {}

    def price_of(self, job_id: int) -> int:
        """What a unit of gas counts for in demands of a job now, in wei."""
        return demand_price(self._jobs.fee_of(job_id))

    def deposits(self) -> int:
        """Those of all open demands."""
        return sum(
            demand.deposit(place)
            for (_, place), demand in self.demands.items()
            if demand.state is DemandState.OPEN
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def demand(self, subject: Subject, places: Sequence[Place], sender: str, value: int, now: int) -> None:
        require(bool(places), refusals.NothingDemanded)
        require(len(places) <= MAX_PLACES, refusals.TooManyPlaces, len(places), MAX_PLACES)
        of_logs, tree = places[0].piece.of_logs, places[0].tree
        program = self._jobs.program_of(subject.job_id)
        life = self._checked(subject, of_logs)
        docket = deepcopy(self._dockets.get((subject, life), Docket()))
        if of_logs:
            docket.count(now)
        others = docket.others(places[0])
        period = self._jobs.verdict_period(subject.job_id)
        due = now + (others + 1) * period
        each = LOG_SECONDS if of_logs else RECORD_SECONDS
        price = self.price_of(subject.job_id)
        new: dict[Place, Demand] = {}
        for place in places:
            require(place.piece.of_logs == of_logs, refusals.WrongPiece, place.piece, places[0].piece)
            require(of_logs or place.tree == tree, refusals.AnotherCheckpoint, place.tree, tree)
            check_place(program, place)
            known = self.demands.get((subject, place))
            # NOTE: who claims a root after all who had claimed it lost does not answer for what was demanded of them.
            stale = known is not None and known.state is DemandState.OPEN and known.life != life
            # NOTE: whoever is first to demand one of many places must not keep another from the rest.
            if (known is not None and not stale) or place in new:
                continue
            rank = rank_of(docket.open, others)
            room = rank <= MAX_RANK and docket.open < MAX_OPEN
            require(room, refusals.TooManyOpen, docket.open, others)
            new[place] = Demand(sender, due + docket.open * each, life, rank, price)
            docket.add(place)
            # SAFETY: whoever follows the run by pages that come in their last second, 64 open at a time, is in time.
            docket.wait += (LOG_SECONDS + period // STEP) * of_logs
        if new:
            self._jobs.check_extendable(subject.job_id, subject.root, of_logs, now)
        deposit = sum(demand.deposit(place) for place, demand in new.items())
        require(value >= deposit, refusals.WrongDeposit, value, deposit)
        self.credit(sender, value - deposit)
        if not new:
            return
        self._jobs.extend(subject.job_id, docket.start, max(demand.until for demand in new.values()), now)
        self._dockets[subject, life] = docket
        for place in new:
            if (subject, place) in self.demands:
                self._drop(subject, place, now)
        self.demands.update({(subject, place): demand for place, demand in new.items()})

    def answer(self, subject: Subject, place: Place, answer: Answer, sender: str, now: int) -> None:
        check_kind(place, answer)
        known = self.demands.get((subject, place))
        if known is not None and known.state is DemandState.ANSWERED:
            return  # whoever is first with one of many answers does not undo the rest
        demand = self._open(subject, place)
        require(now <= demand.until, refusals.AnsweredLate, demand.until)
        size = check(self._jobs.program_of(subject.job_id), subject.root, place, answer)
        demand.state = DemandState.ANSWERED
        self._dockets[subject, demand.life].remove(place, now)
        least, deposit = deposit_of(place.piece, demand.price), demand.deposit(place)
        fee = min(demand.price * (ANSWER_GAS + BYTE_GAS * size), least)
        burned = (deposit - least) // 2
        self.credit(sender, fee)
        self.credit(BURNED, burned)
        self.credit(demand.demander, deposit - fee - burned)

    def close(self, subject: Subject, place: Place, now: int) -> None:
        demand, of_logs = self._open(subject, place), place.piece.of_logs
        moot = self._jobs.over(subject.job_id, now)
        if not moot and not of_logs:
            moot = self._jobs.standing(subject.job_id, subject.root) != (demand.life, True)
        require(moot or now > demand.until, refusals.NotLate, demand.until)
        if not moot:
            self._jobs.forfeit(subject.job_id, subject.root, of_logs, demand.demander, now)
        self._drop(subject, place, now)

    def _drop(self, subject: Subject, place: Place, now: int) -> None:
        """A demand is over without an answer: its deposit goes back, and the place can be demanded again."""
        demand = self.demands.pop((subject, place))
        self._dockets[subject, demand.life].remove(place, now)
        self.credit(demand.demander, demand.deposit(place))

    # --- views ----------------------------------------------------------------------------------------------------

    def open_of(self, subject: Subject, place: Place) -> tuple[int, int]:
        """The pieces that are open under the root, and of how many checkpoints besides the place's."""
        docket = self._dockets.get((subject, self._checked(subject, place.piece.of_logs)))
        return (docket.open, docket.others(place)) if docket else (0, 0)

    def pending(self, job_id: int, logs: bytes, root: bytes, life: int) -> int:
        """Demands that are open: of the job's logs, and of this root in that life."""
        keys = (Subject(job_id, logs), 0), (Subject(job_id, root), life)
        return sum(docket.open for key in keys if (docket := self._dockets.get(key)))

    def _open(self, subject: Subject, place: Place) -> Demand:
        demand = self.demands.get((subject, place))
        if demand is None or demand.state is not DemandState.OPEN:
            raise refusals.NoSuchDemand(f"{place} of job {subject.job_id}")
        return demand

    def _checked(self, subject: Subject, of_logs: bool) -> int:
        """Which life the claimed root is in; 0 of logs."""
        if of_logs:
            require(self._jobs.logs_of(subject.job_id) == subject.root, refusals.NoSuchLogs, subject.root)
            return 0
        life, claimed = self._jobs.standing(subject.job_id, subject.root)
        require(claimed, refusals.NotClaimed, subject.root)
        return life
