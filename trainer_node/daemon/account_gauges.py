"""Money, claims, matches and deadlines as gauges, from what each round reads of the chain anyway.

A job's numbers stay until the job is looked at again, or is over. Nothing here decides anything.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from referee_py.execute import RunClaim
from referee_py.jobs import EMPTY_COMMITMENT
from referee_py.walk import clock
from referee_py.walk.sides import sides

from ..chain import JobPhase, JobView, Seat
from ..chain.fees import ETHER
from ..ids import whole
from ..observe.metrics import Metrics

MAX_JOBS = 4096
"""Jobs whose claims are counted: those looked at last."""
VERDICTS = ("valid", "invalid", "unchecked")
_OPEN = (JobPhase.REVEAL, JobPhase.CHALLENGE, JobPhase.CLOSING)


@dataclass
class _Seen:
    """State of a job as a round has seen it. Deadlines are seconds since 1970, of this machine's clock."""

    staked: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    matches: dict[int, tuple[str, float]] = field(default_factory=dict)
    """By match: its phase, and the first deadline; 0 if no clock runs."""
    due: float = 0.0


class Gauges:
    """The gauges of one account; ``me`` is None without a key."""

    def __init__(self, metrics: Metrics, me: str | None) -> None:
        self._metrics, self._me = metrics, me
        self._seen: dict[int, _Seen] = {}
        self._checked: set[tuple[int, bytes]] = set()

    def job(self, job: JobView, own: RunClaim | None, now: int) -> None:
        """Note a job. ``own``: our result, if there is one; ``now``: the instant of the block on the chain."""
        seen = self._seen.pop(job.id, _Seen())
        if job.phase.ended:
            self.over(job)
        self._seen[job.id] = seen
        while len(self._seen) > MAX_JOBS:
            del self._seen[next(iter(self._seen))]
        seen.staked, seen.due = self._staked(job), self._due(job, now)
        seen.verdicts = Counter() if job.phase.ended else self._verdicts(job, own)
        for match in [number for number in seen.matches if number not in job.match_ids()]:
            self._drop_match(job.id, match)
            del seen.matches[match]
        if job.phase.ended and not seen.staked:
            del self._seen[job.id]

    def match(self, job: JobView, seat: Seat, now: int) -> None:
        """Note an open match in which our result is at stake."""
        state, me, here = seat.match.state, seat.side, time.time()
        owed = clock.owing(state)
        for side, name in ((me, "own"), (1 - me, "opponent")):
            spent = now - state.tick if owed >> side & 1 else 0
            left = state.clock[side] - spent
            self._metrics.set("clock_seconds_left", left, str(job.id), whole(seat.match.id), name)
        runs = [clock.deadline(state, side) for side in sides(owed)]
        first = here + min(runs) - now if runs else 0.0
        self._seen.setdefault(job.id, _Seen()).matches[seat.match.id] = state.phase.name.lower(), first

    def over(self, job: JobView) -> None:
        """Drop what is shown of a job that is over."""
        seen = self._seen.get(job.id)
        for match in seen.matches if seen else ():
            self._drop_match(job.id, match)
        self._checked = {key for key in self._checked if key[0] != job.id}

    def round(self, *, balance: int | None, reserved: int, owed: int | None, pending: int) -> None:
        """Show the sums. Amounts are wei; None: unknown, or there is no account."""
        metrics, seen = self._metrics, list(self._seen.values())
        if balance is not None:
            metrics.set("balance_ether", balance / ETHER)
        if owed is not None:
            metrics.set("credits_ether", owed / ETHER)
        metrics.set("reserved_ether", reserved / ETHER)
        metrics.set("staked_ether", sum(one.staked for one in seen) / ETHER)
        metrics.set("open_transactions", pending)
        verdicts = sum((one.verdicts for one in seen), Counter[str]())
        for verdict in VERDICTS:
            metrics.set("claims", verdicts[verdict], verdict)
        matches = [match for one in seen for match in one.matches.values()]
        metrics.drop("open_matches")
        for phase, count in Counter(phase for phase, _ in matches).items():
            metrics.set("open_matches", count, phase)
        instants = [one.due for one in seen if one.due] + [first for _, first in matches if first]
        metrics.set("next_deadline_timestamp_seconds", min(instants, default=0.0))

    def _staked(self, job: JobView) -> int:
        if self._me is None:
            return 0
        claim, slot = job.claim_of(self._me), job.trainer(self._me)
        staked = sum(one.stake for one in job.stakes_of(self._me) if not one.lost and not one.collected)
        holds = slot is not None and claim is None and not job.phase.ended
        return staked + (slot.stake if slot is not None and holds else 0)

    def _due(self, job: JobView, now: int) -> float:
        """Return when our commitment or reveal is due at the latest; 0 if neither is owed."""
        slot = job.trainer(self._me) if self._me is not None else None
        if slot is None or slot.revealed:
            return 0.0
        if job.phase is JobPhase.TRAINING and slot.commitment == EMPTY_COMMITMENT:
            return time.time() + job.commit_end - now
        if job.phase is JobPhase.REVEAL and slot.commitment != EMPTY_COMMITMENT:
            return time.time() + job.reveal_end - now
        return 0.0

    def _verdicts(self, job: JobView, own: RunClaim | None) -> Counter[str]:
        found = Counter[str]()
        if job.phase not in _OPEN:
            return found
        for group in job.groups:
            if group.refutes is not None:
                continue
            verdict = "unchecked" if own is None else "valid" if group.root == own.root else "invalid"
            # NOTE: a claim may have lost before we know that it is wrong; it is checked all the same.
            found[verdict] += not group.dead
            if own is not None and (job.id, group.root) not in self._checked:
                self._checked.add((job.id, group.root))
                self._metrics.add("claims_checked", verdict)
        return found

    def _drop_match(self, job: int, match: int) -> None:
        self._metrics.drop("clock_seconds_left", str(job), whole(match))
