"""Requests of data and the responses (the contract DataAvailability): to calldata, and from events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from referee_py.availability import Blocks, Digests, LeafShown, Place, RecordShown, Response, StepProof
from referee_py.availability.prices import deposit_of
from referee_py.availability.state import RESPONSES, TensorShown
from referee_py.params import MAX_RANK

from ...errors import RpcCorrupt
from .base import Calls, Fold, Made

MAX_REQUESTS = 1_000_000
"""Events of a job's requests that are read at most; each costs its author some 50,000 gas or more."""

Subject = tuple[str, int, bytes]
"""Address of Jobs, number of the job, and the root that the data is under."""


@dataclass(frozen=True)
class _Request:
    function: ClassVar[str] = "request"
    places: tuple[Place, ...]


@dataclass(frozen=True)
class _Close:
    function: ClassVar[str] = "close"


_CALLS = Calls[Response | _Request | _Close](
    "DataAvailability",
    {"subject": Subject, "place": Place},
    *(*RESPONSES, _Request, _Close),
)


def request_call(subject: Subject, places: Sequence[Place]) -> Made:
    """Return the function that requests these places, and its arguments."""
    return _CALLS.encode(_Request(tuple(places)), subject=subject)


def provide_call(subject: Subject, place: Place, answer: Response) -> Made:
    """Return the function that answers a request, and its arguments."""
    return _CALLS.encode(answer, subject=subject, place=place)


def close_call(subject: Subject, place: Place) -> Made:
    """Return the function that closes a request without a response, and its arguments."""
    return _CALLS.encode(_Close(), subject=subject, place=place)


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """An open request. ``until`` is the last second for an answer; its deposit is doubled ``rank`` times.

    ``life``: the root's life in which the request was made (:attr:`Group.life`); zero for the job's logs.
    """

    root: bytes
    place: Place
    requester: str
    life: int
    until: int
    rank: int
    price: int
    """Wei that a unit of gas counts for in this request."""

    @property
    def deposit(self) -> int:
        """The deposit in wei."""
        return deposit_of(self.place.piece, self.price) << self.rank


@dataclass
class Ledger(Fold, contract="DataAvailability"):
    """Open requests, answered requests, and their responses, by root and place; of the events of one job.

    The contract has checked every response.
    """

    open: dict[tuple[bytes, Place], OpenRequest] = field(default_factory=dict)
    answered: dict[tuple[bytes, Place], OpenRequest] = field(default_factory=dict)
    answers: dict[tuple[bytes, Place], Response] = field(default_factory=dict)

    def on_requested(
        self, root: bytes, place: Place, requester: str, life: int, until: int, rank: int, price: int
    ) -> None:
        if rank > MAX_RANK:
            raise RpcCorrupt(f"a request of rank {rank}; there is none above {MAX_RANK}")
        self.open[root, place] = OpenRequest(root, place, requester, life, until, rank, price)

    def on_digests_provided(
        self,
        root: bytes,
        place: Place,
        digests: tuple[bytes, ...],
        path: tuple[bytes, ...],
        step: StepProof,
    ) -> None:
        self._answer(root, place, Digests(digests, path, step))

    def on_blocks_provided(self, root: bytes, place: Place, response: Blocks) -> None:
        self._answer(root, place, response)

    def on_record_provided(self, root: bytes, place: Place, response: RecordShown) -> None:
        self._answer(root, place, response)

    def on_leaf_provided(self, root: bytes, place: Place, response: RecordShown, tensor: TensorShown) -> None:
        self._answer(root, place, LeafShown(response, tensor))

    def on_closed(self, root: bytes, place: Place) -> None:
        self._end(root, place)

    def _answer(self, root: bytes, place: Place, answer: Response) -> None:
        self.answered[root, place] = self._end(root, place)
        self.answers[root, place] = answer

    def _end(self, root: bytes, place: Place) -> OpenRequest:
        requested = self.open.pop((root, place), None)
        if requested is None:
            raise RpcCorrupt("the endpoint lacks events of requests; use one with complete logs")
        return requested
