"""A party that leaves the job of the demonstration to others: why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from referee_py.errors import AssayError
from trainer_node.stake.judge import LEFT

from .roles import Role

ABOUT_TIME = frozenset(
    {
        "TooLate",
        "TooSlow",
        "Hopeless",
        "TooManyPieces",
        "LogsTooSlow",
        "TooMuchAtOnce",
        "StatesLacking",
    }
)
"""Kinds of reasons that come and go with what else this machine computes."""
ABOUT_ROOM = frozenset({"NoRoom", "MemoryKept"})
BUSY = (
    "this machine is busier, or slower, than it was when the demonstration chose its periods: end what else computes "
    "here and try again, or give each party less to do with --steps"
)
_FULL = "make room on this disk or in memory, or name a --folder on another disk"


class TooFew(AssayError):
    """Training has ended, and not every trainer has taken a slot: they had no time to begin."""

    def __init__(self, took: int, slots: int) -> None:
        super().__init__(f"only {took} of {slots} trainers took a slot before training ended; {BUSY}")


class Declined(AssayError):
    """A party without which the demonstration cannot be played has left the job to others."""

    def __init__(self, party: str, reason: str, kind: str, log: str) -> None:
        self.party, self.kind = party, kind
        remedy = BUSY if kind in ABOUT_TIME else _FULL if kind in ABOUT_ROOM else f"see {log}"
        super().__init__(f"the {party} leaves the job to others: {reason.rstrip('. ')}; {remedy}")


def needed(part: Role, parts: Sequence[Role]) -> bool:
    """Return whether nothing can be shown without a party: a liar, an honest trainer, or who alone is honest."""
    honest = [other for other in parts if other.honest]
    return not part.honest or part.role == "trainer" or honest == [part]


def declined(part: Role, events: Sequence[Mapping[str, Any]], log: str) -> Declined | None:
    """Return why a party has left the job to others, by the events of its log; None if it has not.

    NOTE: a trainer that has a slot and gives it back says the same.
    """
    for event in events:
        if event.get("event") == LEFT and event.get("kind") != "LogsWithheld":
            return Declined(part.name, str(event.get("reason", "")), str(event.get("kind", "")), log)
    return None
