"""The requests of a job and the responses, from the events of the contract DataAvailability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.availability import Blocks, Digests, LeafShown, Piece, Place, RecordShown, Response, StepProof
from referee_py.availability.prices import deposit_of
from referee_py.params import MAX_RANK

from ..errors import RpcCorrupt
from .events import Event
from .rpc import guarded
from .wire import hashes, record_of, values

EVENTS = ("Requested", "DigestsProvided", "BlocksProvided", "RecordProvided", "LeafProvided", "Closed")
MAX_REQUESTS = 1_000_000
"""Events of a job's requests that are read at most; each costs its author some 50,000 gas or more."""


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
class Ledger:
    """Open requests, answered requests, and their responses, by root and place."""

    open: dict[tuple[bytes, Place], OpenRequest] = field(default_factory=dict)
    answered: dict[tuple[bytes, Place], OpenRequest] = field(default_factory=dict)
    answers: dict[tuple[bytes, Place], Response] = field(default_factory=dict)


def read_ledger(events: Sequence[Event]) -> Ledger:
    """Return the ledger from the events of one job, in their order. The contract has checked every response. Raises
    RpcCorrupt."""
    ledger = Ledger()
    for event in events:
        args = event.args
        with guarded(f"event {event.name}"):
            root, place = bytes(args["root"]), _place(args["place"])
            if event.name == "Requested":
                ledger.open[root, place] = _open_request(root, place, args)
                continue
            requested = ledger.open.pop((root, place), None)
            if requested is None:
                raise RpcCorrupt("the endpoint lacks events of requests; use one with complete logs")
            if event.name != "Closed":
                ledger.answers[root, place] = _answer(event.name, args)
                ledger.answered[root, place] = requested
    return ledger


def _open_request(root: bytes, place: Place, args: dict[str, Any]) -> OpenRequest:
    life, until, rank = int(args["life"]), int(args["until"]), int(args["rank"])
    if rank > MAX_RANK:
        raise RpcCorrupt(f"a request of rank {rank}; there is none above {MAX_RANK}")
    return OpenRequest(root, place, str(args["requester"]), life, until, rank, int(args["price"]))


def _place(raw: Any) -> Place:
    piece, tree, node, tensor, part = values(raw)
    return Place(Piece(piece), tree, node, tensor, part)


def _answer(name: str, args: dict[str, Any]) -> Response:
    match name:
        case "DigestsProvided":
            return Digests(hashes(args["digests"]), hashes(args["path"]), _step(args["step"]))
        case "BlocksProvided":
            log, log_path, step, elements, root, blocks, path = values(args["response"])
            shown = tuple(map(bytes, blocks)), hashes(path)
            return Blocks(bytes(log), hashes(log_path), _step(step), elements, bytes(root), *shown)
        case "RecordProvided":
            return _record(args["response"])
    kind, root, leaf, path = values(args["tensor"])
    dtype, shape = values(kind)
    tensor = dtype, tuple(shape), bytes(root), bytes(leaf), hashes(path)
    return LeafShown(_record(args["response"]), *tensor)


def _record(raw: Any) -> RecordShown:
    record, path, checkpoint, checkpoint_path = values(raw)
    return RecordShown(record_of(record), hashes(path), bytes(checkpoint), hashes(checkpoint_path))


def _step(raw: Any) -> StepProof:
    root, path = values(raw)
    return StepProof(bytes(root), hashes(path))
