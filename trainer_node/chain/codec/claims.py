"""Claims of a job by their events: the contract keeps neither URIs nor last checkpoints, and its views lack them.

An endpoint may lack an event, or show another one. So each is compared with the claim in the view, and what remains is
a job in which some claims are served nowhere: `JobView.hidden` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from referee_py.jobs import JobPhase

from ...errors import RpcCorrupt
from ..events import Event
from .base import Fold
from .job import EMPTY, ClaimView, Group, JobView


@dataclass(frozen=True, slots=True)
class ClaimEvent:
    """Event of a claim: owner in lower case, stake, group and root, which the view has, too; and what
    events alone have, its last checkpoint and where its author serves."""

    owner: str
    stake: int
    group: int
    root: bytes
    last: bytes
    uri: str

    def is_of(self, claim: ClaimView, group: Group) -> bool:
        """Return whether the event is of that claim of that group."""
        shown = claim.owner.lower(), claim.stake, claim.group, group.root
        return shown == (self.owner, self.stake, self.group, self.root)


@dataclass
class Claims(Fold, contract="Jobs"):
    """Claims of a job by their events, by number. The contract keeps neither URIs nor last checkpoints."""

    found: dict[int, ClaimEvent] = field(default_factory=dict)

    def on_claimed(
        self, owner: str, claim: int, group: int, root: bytes, last: bytes, stake: int, uri: str
    ) -> None:
        self.found.setdefault(claim, ClaimEvent(owner.lower(), stake, group, root, last, uri))


def with_events(job: JobView, events: Iterable[Event]) -> JobView:
    """Return a job with what the events of its claims say; `hidden` says so if one lacks, or is not of its claim.

    SAFETY: what lacks costs the data of that claim, and no move: the view has all that decides and all that is paid.
    NOTE: a refutation that keeps the last checkpoint of the root that it refutes says zero.
    """
    found = Claims.of(events).found
    told = {
        claim.index: found[claim.index]
        for claim in job.claims
        if claim.index in found and found[claim.index].is_of(claim, job.groups[claim.group])
    }
    lacks = [claim.index for claim in job.claims if claim.index not in told]
    lasts: list[bytes] = []
    for group in job.groups:
        founder = told.get(group.members[0])
        last = founder.last if founder is not None else EMPTY
        kept = last == EMPTY and founder is not None and group.refutes is not None
        lasts.append(lasts[group.refutes] if kept and group.refutes is not None else last)
    accepted = job.waiting if job.phase is JobPhase.ACCEPTED else None
    return replace(
        job,
        claims=tuple(replace(c, uri=told[c.index].uri if c.index in told else "") for c in job.claims),
        groups=tuple(replace(group, last=lasts[group.index]) for group in job.groups),
        accepted_last=EMPTY if accepted is None else lasts[accepted],
        hidden=_lacking(job, lacks) if lacks else None,
    )


def _lacking(job: JobView, claims: Sequence[int]) -> str:
    return (
        f"job {job.id}: the endpoint has no event of {len(claims)} of {len(job.claims)} claims (the first: "
        f"{claims[0]}), so nobody knows where these are served; use one with complete logs"
    )


@dataclass
class Refutations(Fold, contract="Jobs"):
    """Intervals, from 1, that refutations of a job are about, by their groups. Views lack them."""

    intervals: dict[int, int] = field(default_factory=dict)

    def on_refuted(self, group: int, interval: int) -> None:
        self.intervals[group] = interval + 1


def refuted_intervals(job: JobView, events: Iterable[Event]) -> dict[int, int]:
    """Return the interval of each refutation by its group. Raises RpcCorrupt if an event lacks.

    SAFETY: without it nobody finds the interval again on which a stake of ours rests.
    """
    found = Refutations.of(events).intervals
    lacking = [group.index for group in job.groups if group.refutes is not None and group.index not in found]
    if lacking:
        raise RpcCorrupt(
            f"job {job.id}: the endpoint has no event of {len(lacking)} refutations (group {lacking[0]}); use one with "
            "complete logs"
        )
    return found
