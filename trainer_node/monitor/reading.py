"""One job at one block, by the contracts and their events, and the parts that could not be read.

SAFETY: jobs, claims and requests are written by strangers, and an endpoint may be incomplete. What cannot be read makes
a part `unchecked`; it never makes anything look wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from referee_py.errors import AssayError
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase
from referee_py.panel.state import HearingPhase

from ..chain import HearingInfo, JobView, MatchInfo, Snapshot, TrialInfo
from ..chain.codec.availability import OpenRequest
from ..chain.snapshot import Registered
from ..errors import RpcCorrupt
from .forecast import Ending, Outcome, match_ending, outcome

MAX_REQUESTS = 2_000
"""Open requests of a job that are looked at; the contract allows 512 under each root."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MatchReading:
    """A match that is open, or whose hearing is. ``ending``: how it ends if nobody moves; None if that is not known."""

    info: MatchInfo
    hearing: HearingInfo | None
    trial: TrialInfo | None
    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A job. ``now``: the contracts' time; ``outcome``: how it ends if nobody moves, None if that is not known."""

    job: JobView
    now: int
    matches: tuple[MatchReading, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    verifiers: dict[str, Registered] = field(default_factory=dict)
    panel: str = ""
    """The deployment's panel, to which bonds answer."""
    outcome: Outcome | None = None
    foreign: str | None = None
    """The job's referee, if it is not the deployment's: its disputes mean nothing, and nothing is read of them."""
    unchecked: tuple[str, ...] = ()
    """Reads that failed, and why."""

    @property
    def done(self) -> bool:
        """True if nothing can happen any more but the collecting of money."""
        paid = all(claim.lost or claim.collected for claim in self.job.claims)
        return self.job.phase.ended and not self.matches and not self.unchecked and paid


class Verifiers:
    """The registry at one block, read once for each verifier."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._found: dict[str, Registered] = {}

    def of(self, address: str) -> Registered:
        """Return a verifier. Raises RpcUnavailable and RpcCorrupt."""
        if address not in self._found:
            self._found[address] = self._snapshot.registered(address)
        return self._found[address]


def read(snapshot: Snapshot, job: JobView, verifiers: Verifiers) -> Reading:
    """Read all that concerns a job. Errors of the endpoint become `Reading.unchecked`."""
    now, missing = snapshot.now, list[str]()
    if not job.is_under(snapshot.contracts.deployment.referee):
        return Reading(job, now, foreign=job.referee)

    def attempt(what: str, act: Callable[[], T], default: T) -> T:
        try:
            return act()
        except AssayError as error:
            missing.append(f"{what}: {type(error).__name__}: {error}"[:300])
            return default

    none: list[int] = []
    matches = []
    for number in attempt("matches", lambda: _numbers(snapshot, job), none):
        match = attempt(f"match {number:#x}"[:20], partial(_match, snapshot, job, number), None)
        if match is not None:
            matches.append(match)
    for found in matches:
        hidden = (
            found.info.hidden,
            found.hearing and found.hearing.hidden,
            found.trial and found.trial.hidden,
        )
        missing += [f"match {found.info.id:#x}"[:20] + f": {reason}" for reason in hidden if reason]
        if found.ending is None and found.info.state.phase is not Phase.DONE:
            missing.append(f"match {found.info.id:#x}"[:20] + ": how it ends is not known")
    asked = not job.phase.ended and job.phase >= JobPhase.CHALLENGE and bool(job.claims)
    requests = attempt("data requests", lambda: _requests(snapshot, job), None) if asked else ()
    unbonded: dict[str, Registered] = {}
    bonds = attempt("verifiers", lambda: _bonds(job, verifiers), unbonded)
    end = None
    if requests is not None and not missing:
        endings = {m.info.id: m.ending for m in matches}
        roots = {m.info.id: m.info.terms.roots for m in matches}
        end = outcome(job, endings, roots, _late(requests), now)
        if end is None:
            missing.append("outcome: the job's matches do not fit together; it is read again")
    return Reading(
        *(job, now, tuple(matches), requests or (), bonds, snapshot.contracts.deployment.panel, end),
        unchecked=tuple(missing),
    )


def _numbers(snapshot: Snapshot, job: JobView) -> list[int]:
    """Return the matches that may still change: the open ones; and all, where a hearing may outlast its match."""
    if len(job.groups) < 2:
        return []
    return snapshot.matches_of(job.id) if job.rules.has_verifiers else job.match_ids()


def _match(snapshot: Snapshot, job: JobView, number: int) -> MatchReading | None:
    """Return a match with its hearing and the running trial; None once all of it is over."""
    is_open = number in job.match_ids()
    hearing = snapshot.hearing(job, number) if not is_open else None
    if not is_open and (hearing is None or hearing.over):
        return None
    info = snapshot.match(job, number)
    if info.state.phase is Phase.HEARING:
        hearing = snapshot.hearing(job, number)
    trial = snapshot.trial(hearing) if hearing is not None and hearing.state.in_trial else None
    ending = None
    if info.state.phase is not Phase.DONE:
        of_trial = trial.state if trial else None
        ending = match_ending(info.state, hearing, of_trial, job.rules.clock, snapshot.now)
    if info.state.phase is not Phase.DONE or (hearing and hearing.state.phase is not HearingPhase.DONE):
        return MatchReading(info, hearing, trial, ending)
    return None


def _requests(snapshot: Snapshot, job: JobView) -> tuple[OpenRequest, ...]:
    """Return the open requests that bind somebody: of the logs, and of roots in the life in which they live."""
    living = [group for group in job.groups if group.refutes is None and not group.dead]
    lives = {group.root: group.life for group in living}
    opened = snapshot.ledger(job).open.values()
    of_logs = sum(request.life == 0 for request in opened)
    for group in living:
        told = of_logs + sum((r.root, r.life) == (group.root, group.life) for r in opened)
        # SAFETY: a request that is hidden would change who wins, so the contract's count is compared.
        if snapshot.pending(job, group) != told:
            raise RpcCorrupt("the endpoint has not all events of data requests; use one with complete logs")
    found = [r for r in opened if lives.get(r.root) == r.life or (r.life == 0 and job.finder is None)]
    return tuple(sorted(found, key=lambda request: request.until)[:MAX_REQUESTS])


def _late(requests: tuple[OpenRequest, ...]) -> dict[tuple[bytes, int], int]:
    """Return the first end of an answering time, by root and life."""
    found: dict[tuple[bytes, int], int] = {}
    for request in requests:
        key = request.root, request.life
        found[key] = min(found.get(key, request.until), request.until)
    return found


def _bonds(job: JobView, verifiers: Verifiers) -> dict[str, Registered]:
    return {} if job.phase.ended else {address: verifiers.of(address) for address in job.verifiers}
