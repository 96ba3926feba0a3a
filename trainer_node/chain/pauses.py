"""The pauses of a deployment's clocks, from the events of its Timekeeper."""

from __future__ import annotations

from collections.abc import Iterable

from referee_py.walk.pauses import Pause

from ..errors import RpcCorrupt
from .events import Event

EVENTS = ("Paused", "Resumed")


def read_pauses(events: Iterable[Event]) -> tuple[Pause, ...]:
    """All pauses, in order; the last may not be over. Raises RpcCorrupt for events that no contract gives."""
    pauses: list[Pause] = []
    for event in events:
        last = pauses[-1] if pauses else Pause(0, 0)
        if event.name == "Paused":
            since, until = int(event.args["since"]), int(event.args["until"])
            # NOTE: a pause that nobody ended was over when its budget was.
            if since < last.end:
                raise RpcCorrupt(
                    f"the clocks were stopped at {since}, before {last.end}, when they ran again"
                )
            pauses.append(Pause(since, until))
            continue
        instant = int(event.args["instant"])
        if not last.begin <= instant < last.end:
            raise RpcCorrupt(f"the clocks were started at {instant}, and did not stand still then")
        pauses[-1] = Pause(last.begin, instant)
    return tuple(pauses)
