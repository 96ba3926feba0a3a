"""Collects what the moves of a match have published from its events, for the solver and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from referee_py.game.view import ChainLog
from referee_py.walk.reason import Reason

from .events import Event
from .rpc import guarded
from .views import known
from .wire import record_of


@dataclass
class History:
    """``log`` feeds the solver (``LoggedView``); the rest is for people and metrics."""

    log: ChainLog = field(default_factory=ChainLog)
    refined: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(side, level, root) of every refinement."""
    losers: int | None = None
    reason: Reason | None = None
    events: list[Event] = field(default_factory=list)


def build_history(events: Sequence[Event]) -> History:
    """Return the history from the events of one match, in their order. Raises RpcCorrupt."""
    history = History(events=list(events))
    log = history.log
    for event in events:
        args = event.args
        with guarded(f"event {event.name}"):
            match event.name:
                case "Entered" | "Descended":
                    log.children = [None, None]  # they belong to the previous position
                case "Revealed":
                    log.children[args["side"]] = tuple(args["children"])
                case "Refined":
                    history.refined.append((args["side"], args["level"], args["root"]))
                case "RecordOpened":
                    record = record_of(args["record"])
                    log.records[record.hash()] = record
                case "Decided":
                    history.losers = args["losers"]
                    history.reason = known(Reason, args["reason"], "event Decided")
    return history
