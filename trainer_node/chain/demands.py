"""What was demanded in a job and what was answered, from the events of the contract Demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from referee_py.demand import Answer, Blocks, Digests, LeafShown, Piece, Place, RecordShown, StepProof
from referee_py.demand.contract import MAX_RANK, deposit_of

from ..errors import RpcCorrupt
from .events import Event
from .rpc import guarded
from .wire import hashes, record_of, values

EVENTS = ("Demanded", "DigestsAnswered", "BlocksAnswered", "RecordAnswered", "LeafAnswered", "Closed")
MAX_DEMANDS = 1_000_000
"""Events of a job's demands that are read; each costs its author some 50,000 gas or more."""


@dataclass(frozen=True, slots=True)
class Demanded:
    """An open demand. ``until`` is the last second for an answer; its deposit is doubled ``rank`` times.

    ``life``: which of the root's lives it was made in (:attr:`Group.life`); zero for the job's logs.
    """

    root: bytes
    place: Place
    demander: str
    life: int
    until: int
    rank: int
    price: int
    """What a unit of gas counts for in it, in wei."""

    @property
    def deposit(self) -> int:
        """In wei."""
        return deposit_of(self.place.piece, self.price) << self.rank


@dataclass
class Ledger:
    """Open demands, those that were answered, and their answers, by root and place."""

    open: dict[tuple[bytes, Place], Demanded] = field(default_factory=dict)
    answered: dict[tuple[bytes, Place], Demanded] = field(default_factory=dict)
    answers: dict[tuple[bytes, Place], Answer] = field(default_factory=dict)


def read_ledger(events: Sequence[Event]) -> Ledger:
    """The ledger that these events of one job tell, in their order: the contract has checked every answer. Raises
    RpcCorrupt."""
    ledger = Ledger()
    for event in events:
        args = event.args
        with guarded(f"event {event.name}"):
            root, place = bytes(args["root"]), _place(args["place"])
            if event.name == "Demanded":
                ledger.open[root, place] = _demanded(root, place, args)
                continue
            demanded = ledger.open.pop((root, place), None)
            if demanded is None:
                raise RpcCorrupt("the endpoint has not all events of demands; use one with complete logs")
            if event.name != "Closed":
                ledger.answers[root, place] = _answer(event.name, args)
                ledger.answered[root, place] = demanded
    return ledger


def _demanded(root: bytes, place: Place, args: dict[str, Any]) -> Demanded:
    life, until, rank = int(args["life"]), int(args["until"]), int(args["rank"])
    if rank > MAX_RANK:
        raise RpcCorrupt(f"a demand of rank {rank}; there is none above {MAX_RANK}")
    return Demanded(root, place, str(args["demander"]), life, until, rank, int(args["price"]))


def _place(raw: Any) -> Place:
    piece, tree, node, tensor, part = values(raw)
    return Place(Piece(piece), tree, node, tensor, part)


def _answer(name: str, args: dict[str, Any]) -> Answer:
    match name:
        case "DigestsAnswered":
            return Digests(hashes(args["digests"]), hashes(args["path"]), _step(args["step"]))
        case "BlocksAnswered":
            log, log_path, step, elements, root, blocks, path = values(args["answer"])
            shown = tuple(map(bytes, blocks)), hashes(path)
            return Blocks(bytes(log), hashes(log_path), _step(step), elements, bytes(root), *shown)
        case "RecordAnswered":
            return _record(args["answer"])
    kind, root, leaf, path = values(args["tensor"])
    dtype, shape = values(kind)
    tensor = dtype, tuple(shape), bytes(root), bytes(leaf), hashes(path)
    return LeafShown(_record(args["answer"]), *tensor)


def _record(raw: Any) -> RecordShown:
    record, path, checkpoint, checkpoint_path = values(raw)
    return RecordShown(record_of(record), hashes(path), bytes(checkpoint), hashes(checkpoint_path))


def _step(raw: Any) -> StepProof:
    root, path = values(raw)
    return StepProof(bytes(root), hashes(path))
