"""Transactions that decisions want sent. They are sent after each turn (`job_turns`); the next look decides again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..chain import Call, Receipt


@dataclass(frozen=True, slots=True)
class Due:
    """A transaction that is due. ``event``: how the log announces it, with the fields ``about``."""

    call: Call
    event: str | None = None
    about: Mapping[str, object] = field(default_factory=dict)
    dispute: bool = False
    """True for a move in a dispute: if it cannot be sent, that is the job's problem, which /readyz shows."""
    stakes: tuple[int, int] | None = None
    """The job that it stakes on, and the wei that the job may take from then on (`reserved_ether`)."""
    opens: bool = False
    """True if it stakes or deposits, or signs what a bond rests on, where nothing of ours is known to be yet: it waits
    until it is known which jobs are ours (`job_queue`)."""
    helps: int | None = None
    """The job, if the transaction is another party's business and wins us nothing (`helping`)."""
    exposes: bool = False
    """True if it puts money at risk, or disputes a claim, without anything of ours at stake yet: it waits until enough
    RPC endpoints agree about the chain."""
    make: Callable[[], Call] | None = None
    """Makes the call in its place, once nothing withholds it: what is signed is out as soon as it is simulated."""
    urgent: bool = False
    """True if it exposes little, and waiting costs more: it waits only while endpoints contradict each other."""
    sent: Callable[[int], None] | None = None
    """Called with its number in the outbox, which takes care of it; if given, nothing waits for the transaction."""
    then: Callable[[Receipt | None], None] = lambda _: None
    """Called afterwards, with the receipt if the transaction was mined in time."""
