"""Reads the pauses of a deployment's clocks from the events of its Timekeeper."""

from __future__ import annotations

from collections.abc import Iterable

from referee_py.walk.pauses import Pause

from ..errors import RpcCorrupt
from .events import Event

EVENTS = ("Paused", "Resumed")


def read_pauses(events: Iterable[Event]) -> tuple[Pause, ...]:
    """Return all pauses, in order; the last may still last. Raises RpcCorrupt for events that no contract emits."""
    pauses: list[Pause] = []
    for event in events:
        last = pauses[-1] if pauses else Pause(0, 0)
        if event.name == "Paused":
            since, until = int(event.args["since"]), int(event.args["until"])
            # NOTE: a pause that nobody ended is over when its budget is used up.
            if since < last.end:
                raise RpcCorrupt(f"the clocks were stopped at {since}, but ran again only at {last.end}")
            pauses.append(Pause(since, until))
            continue
        instant = int(event.args["instant"])
        if not last.begin <= instant < last.end:
            raise RpcCorrupt(f"the clocks were started at {instant}, but did not stand still then")
        pauses[-1] = Pause(last.begin, instant)
    return tuple(pauses)
