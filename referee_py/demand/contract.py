"""Demands in order, with their money: the contract `Demands` in Python.

INVARIANT: ether in = credits + deposits of open demands + ether withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..game.escrow import Escrow
from ..game.refusals import require
from ..game.state import ProgramHeader
from . import refusals
from .pieces import check, check_kind, check_place
from .state import Answer, DemandState, Piece, Place

ANSWER_GAS, BYTE_GAS = 150_000, 80
MAX_BYTES, MAX_BLOCK_BYTES = 13_312, 102_464


@dataclass(frozen=True, slots=True)
class Subject:
    """The job, and the root that a demand is about."""

    job_id: int
    root: bytes


@dataclass(slots=True)
class Demand:
    demander: str
    until: int
    members: int
    state: DemandState = DemandState.OPEN


@dataclass(slots=True)
class Docket:
    """What is open about one root, in the hands of the same members."""

    first: int
    open: int = 0
    checkpoint: int = 0


class Jobs(Protocol):
    def program_of(self, job_id: int) -> ProgramHeader: ...

    def logs_of(self, job_id: int) -> bytes | None:
        """None in a mode without logs."""
        ...

    def over(self, job_id: int, now: int) -> bool: ...

    def standing(self, job_id: int, root: bytes) -> tuple[int, bool]: ...

    def check_extendable(self, job_id: int, now: int) -> None: ...

    def extend(self, job_id: int, first: int, now: int) -> int: ...

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None: ...


class Demands(Escrow):
    """Every move is one transaction: it takes effect whole or raises a Refusal."""

    def __init__(self, price: int, jobs: Jobs) -> None:
        super().__init__()
        self.price = price
        self._jobs = jobs
        self.demands: dict[tuple[Subject, Place], Demand] = {}
        self._dockets: dict[tuple[Subject, int], Docket] = {}

    def deposit_of(self, piece: Piece) -> int:
        """What a demand costs at most, in wei."""
        return self.price * (
            ANSWER_GAS + BYTE_GAS * (MAX_BLOCK_BYTES if piece is Piece.BLOCKS else MAX_BYTES)
        )

    def deposits(self) -> int:
        """Those of all open demands."""
        return sum(
            self.deposit_of(place.piece)
            for (_, place), demand in self.demands.items()
            if demand.state is DemandState.OPEN
        )

    # --- moves ----------------------------------------------------------------------------------------------------

    def demand(self, subject: Subject, places: Sequence[Place], sender: str, value: int, now: int) -> None:
        require(bool(places), refusals.NothingDemanded)
        of_logs = places[0].piece.of_logs
        program = self._jobs.program_of(subject.job_id)
        members = self._checked(subject, of_logs)
        known = self._dockets.get((subject, members))
        docket = Docket(now) if known is None else Docket(known.first, known.open, known.checkpoint)
        new: dict[Place, None] = {}
        for place in places:
            require(place.piece.of_logs == of_logs, refusals.WrongPiece, place.piece, places[0].piece)
            check_place(program, place)
            # NOTE: whoever is first to demand one of many places must not keep another from the rest.
            if (subject, place) in self.demands or place in new:
                continue
            if not new:
                self._jobs.check_extendable(subject.job_id, now)
            if not docket.open:
                docket.checkpoint = place.tree
            same = of_logs or place.tree == docket.checkpoint
            require(same, refusals.AnotherCheckpoint, place.tree, docket.checkpoint)
            docket.open += 1
            new[place] = None
        deposit = sum(self.deposit_of(place.piece) for place in new)
        require(value >= deposit, refusals.WrongDeposit, value, deposit)
        self.credit(sender, value - deposit)
        if not new:
            return
        until = self._jobs.extend(subject.job_id, docket.first, now)
        self._dockets[subject, members] = docket
        for place in new:
            self.demands[subject, place] = Demand(sender, until, members)

    def answer(self, subject: Subject, place: Place, answer: Answer, sender: str, now: int) -> None:
        check_kind(place, answer)
        known = self.demands.get((subject, place))
        if known is not None and known.state is DemandState.ANSWERED:
            return  # whoever is first with one of many answers does not undo the rest
        demand = self._open(subject, place)
        require(now <= demand.until, refusals.AnsweredLate, demand.until)
        size = check(self._jobs.program_of(subject.job_id), subject.root, place, answer)
        demand.state = DemandState.ANSWERED
        self._dockets[subject, demand.members].open -= 1
        deposit = self.deposit_of(place.piece)
        fee = min(self.price * (ANSWER_GAS + BYTE_GAS * size), deposit)
        self.credit(sender, fee)
        self.credit(demand.demander, deposit - fee)

    def close(self, subject: Subject, place: Place, now: int) -> None:
        demand, of_logs = self._open(subject, place), place.piece.of_logs
        moot = self._jobs.over(subject.job_id, now)
        if not moot and not of_logs:
            moot = self._jobs.standing(subject.job_id, subject.root) != (demand.members, True)
        require(moot or now > demand.until, refusals.NotLate, demand.until)
        if not moot:
            self._jobs.forfeit(subject.job_id, subject.root, of_logs, demand.demander, now)
        del self.demands[subject, place]
        self._dockets[subject, demand.members].open -= 1
        self.credit(demand.demander, self.deposit_of(place.piece))

    # --- views ----------------------------------------------------------------------------------------------------

    def pending(self, job_id: int, logs: bytes, root: bytes, members: int) -> int:
        """Demands that are open: of the job's logs, and of this root in the hands of so many members."""
        keys = (Subject(job_id, logs), 0), (Subject(job_id, root), members)
        return sum(docket.open for key in keys if (docket := self._dockets.get(key)))

    def _open(self, subject: Subject, place: Place) -> Demand:
        demand = self.demands.get((subject, place))
        if demand is None or demand.state is not DemandState.OPEN:
            raise refusals.NoSuchDemand(f"{place} of job {subject.job_id}")
        return demand

    def _checked(self, subject: Subject, of_logs: bool) -> int:
        """The members who have claimed the root so far; none of logs."""
        if of_logs:
            require(self._jobs.logs_of(subject.job_id) == subject.root, refusals.NoSuchLogs, subject.root)
            return 0
        members, claimed = self._jobs.standing(subject.job_id, subject.root)
        require(claimed, refusals.NotClaimed, subject.root)
        return members
