"""The monitor: all jobs of a deployment, round after round, and what is remembered between rounds.

    jobs with a match, a request or an alert     every round
    all others                                   some a round, in turn: new ones first
    jobs that are over and paid                  a few a round, in case a reorganisation has brought one back

SAFETY: a round's work must not grow with the number of jobs, which are cheap to post. What is remembered of a job is a
line, and only until it is over.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace

import structlog

from referee_py.errors import AssayError, InvalidInput

from ..chain import JobPhase, Snapshot
from ..chain.client import ChainClient
from .accounts import Named, insolvent
from .alerts import Alert, Kind, Level, Rules, alerts_of
from .credits import Credits, Owed
from .lines import JobLine, line_of
from .reading import Reading, Verifiers, read
from .trusted import Trusted

PER_ROUND = 256
"""Jobs without anything urgent that a round looks at."""
PER_ROUND_OVER = 16
MAX_LINES = 10_000
MAX_STANDING = 5_000
"""Alerts after which those that are not warnings are not remembered."""
CHAIN = 0
"""The number under which alerts of the whole deployment are kept."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """An alert that stands. ``since``: the chain's time at which it was first seen. ``unchecked``: it could not be
    looked at again in the last round, and may be over."""

    alert: Alert
    since: int
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """Findings of one round. ``cleared``: alerts that stood before and no longer do."""

    block: int
    now: int
    """The contracts' time, in unix seconds."""
    head_age_s: float
    jobs: int
    phases: dict[str, int]
    lines: list[JobLine]
    alerts: list[Standing]
    cleared: list[Standing]
    unchecked: dict[int, tuple[str, ...]]
    """By job, what could not be read; 0 is the whole deployment."""

    @property
    def worst(self) -> Level | None:
        """The level of the most urgent alert, or None."""
        return max((standing.alert.level for standing in self.alerts), default=None)


@dataclass
class Monitor:
    """Looks at the deployment of ``client`` once a `round`."""

    client: ChainClient
    rules: Rules = field(default_factory=Rules)
    trusted: Trusted = field(default_factory=Trusted)
    per_round: int = PER_ROUND
    named: Named = field(default_factory=Named)

    def __post_init__(self) -> None:
        self._credits = Credits(self.client)
        self._lines: dict[int, JobLine] = {}
        self._phases: dict[int, JobPhase] = {}
        """Of jobs that are not over."""
        self._done: dict[int, str] = {}
        """Jobs that are over and paid, with how they ended."""
        self._urgent: set[int] = set()
        self._standing: dict[str, Standing] = {}
        self._unchecked: dict[int, tuple[str, ...]] = {}
        self._next, self._next_over, self._newest = 1, 1, 0
        self._block, self._now, self._count = 0, 0, 0

    # ------------------------------------------------------------------ rounds

    def round(self) -> Board:
        """Look once. Never raises an AssayError: what fails is unchecked."""
        try:
            return self._look(self.client.snapshot())
        except AssayError as error:
            return self._blind(f"{type(error).__name__}: {error}")

    def _look(self, snapshot: Snapshot) -> Board:
        self.trusted.refresh()
        now, count = snapshot.now, snapshot.job_count()
        verifiers = Verifiers(snapshot)
        readings: dict[int, Reading | str] = {}
        for number in self._due(count):
            try:
                job = snapshot.job(number)
                readings[number] = read(snapshot, job, verifiers)
            except AssayError as error:
                readings[number] = f"{type(error).__name__}: {error}"[:300]
        whole, deployment = self._deployment(
            snapshot, [r for r in readings.values() if isinstance(r, Reading)]
        )
        if not snapshot.still_canonical():
            return self._blind(
                f"block {snapshot.block.number} was replaced while it was read; it is read again"
            )
        self._block, self._now, self._count = snapshot.block.number, now, count
        # NOTE: from here on nothing asks the endpoint, so that a round counts as a whole or not at all.
        found: dict[int, list[Alert]] = {CHAIN: whole}
        self._unchecked.pop(CHAIN, None)
        if deployment:
            self._unchecked[CHAIN] = deployment
        for number, reading in readings.items():
            found[number] = self._note(number, reading, snapshot.block.number)
        cleared = self._update(found, snapshot.block.timestamp)
        self._prune(count)
        return self._board(snapshot.block.timestamp, cleared)

    def _due(self, count: int) -> list[int]:
        """Return the jobs of this round."""
        first = sorted(number for number in self._urgent if number <= count)
        chosen = dict.fromkeys(first)
        self._newest = min(self._newest, count)
        limit = len(chosen) + self.per_round
        while self._newest < count and len(chosen) < limit:
            self._newest += 1
            chosen[self._newest] = None
        for _ in range(min(count, self.per_round * 64)):
            if len(chosen) >= limit:
                break
            self._next = self._next if self._next <= count else 1
            if self._next not in self._done:
                chosen.setdefault(self._next)
            self._next += 1
        for _ in range(min(PER_ROUND_OVER, count)):
            self._next_over = self._next_over if self._next_over <= count else 1
            if self._next_over in self._done:
                chosen.setdefault(self._next_over)
            self._next_over += 1
        return list(chosen)

    def _note(self, number: int, reading: Reading | str, block: int) -> list[Alert]:
        """Remember what was read of a job; return its alerts."""
        if isinstance(reading, str):
            self._unchecked[number] = (reading,)
            return []
        missing, trusted = list(reading.unchecked), None
        try:
            trusted = self.trusted.of(reading.job)
        except InvalidInput as error:
            missing.append(str(error))
        if self.trusted.disagree(number):
            missing.append(
                "trusted roots: the sources disagree about this job, so its claims are not compared"
            )
        alerts = [*alerts_of(reading, trusted, self.rules), *self.named.unanswered(reading, self.rules)]
        self._unchecked.pop(number, None)
        if missing:
            self._unchecked[number] = tuple(missing)
        if reading.done and not missing and not alerts:
            self._forget(number)
            self._done[number] = reading.job.phase.name.lower()
            return []
        self._done.pop(number, None)
        self._phases[number] = reading.job.phase
        if reading.job.trainers or reading.job.claims:
            self._lines[number] = line_of(reading, trusted, tuple(missing), block)
        # SAFETY: unpaid money makes nothing urgent, or jobs that are cheap to post would.
        if reading.matches or reading.requests or missing or any(a.level > Level.INFO for a in alerts):
            self._urgent.add(number)
        else:
            self._urgent.discard(number)
        return alerts

    def _forget(self, number: int) -> None:
        self._lines.pop(number, None)
        self._phases.pop(number, None)
        self.client.matches.pop(number, None)
        self._urgent.discard(number)

    def _prune(self, count: int) -> None:
        """Keep what is remembered bounded. NOTE: after a reorganisation there may be fewer jobs."""
        for number in [number for number in self._phases if number > count]:
            self._forget(number)
            self._unchecked.pop(number, None)
            self._standing = {key: s for key, s in self._standing.items() if s.alert.job != number}
        while len(self._lines) > MAX_LINES:
            del self._lines[next(iter(self._lines))]

    # ------------------------------------------------------------------ the deployment

    def _deployment(self, snapshot: Snapshot, readings: list[Reading]) -> tuple[list[Alert], tuple[str, ...]]:
        """Return the alerts that concern no single job, and what could not be read."""
        alerts, missing = list[Alert](), list[str]()
        try:
            keeper = snapshot.timekeeper()
            if keeper.paused_until:
                text = f"{keeper.guardian} has stopped the clocks, until {keeper.paused_until} at the latest"
                alerts.append(Alert("0:paused", Kind.PAUSED, Level.WARNING, CHAIN, text, keeper.paused_until))
        except AssayError as error:
            missing.append(f"clocks: {error}"[:300])
        try:
            ages: dict[int, int] = {}
            outstanding = self._credits.owed(snapshot)
            alerts += insolvent(snapshot, outstanding, readings)
            for owed in outstanding:
                if owed.block not in ages:
                    ages[owed.block] = snapshot.block.timestamp - self.client.block(owed.block).timestamp
                if ages[owed.block] >= self.rules.grace_s:
                    alerts.append(_unclaimed(owed))
        except AssayError as error:
            missing.append(f"credits: {error}"[:300])
        try:
            alerts += self.named.poor(snapshot)
        except AssayError as error:
            missing.append(f"accounts: {error}"[:300])
        return alerts, tuple(missing)

    # ------------------------------------------------------------------ alerts

    def _update(self, found: dict[int, list[Alert]], at: int) -> list[Standing]:
        """Merge this round's alerts of the jobs that were looked at; return those that have cleared."""
        new = {alert.id: alert for alerts in found.values() for alert in alerts}
        cleared = []
        for key, standing in list(self._standing.items()):
            if key in new or standing.alert.job not in found:
                continue
            if standing.alert.job in self._unchecked:
                self._standing[key] = replace(standing, unchecked=True)
            else:
                cleared.append(self._standing.pop(key))
        for key, alert in new.items():
            before = self._standing.get(key)
            if before is None and len(self._standing) >= MAX_STANDING and alert.level is Level.INFO:
                self._unchecked[CHAIN] = (
                    f"alerts: {MAX_STANDING} stand; more that are not warnings are not shown",
                )
                continue
            if before is None:
                say = _log.info if alert.level is Level.INFO else _log.warning
                say("alert.raised", id=key, job=alert.job, urgency=alert.level.name.lower(), text=alert.text)
            self._standing[key] = Standing(alert, before.since if before else at)
        for standing in cleared:
            _log.info("alert.cleared", id=standing.alert.id, job=standing.alert.job)
        return cleared

    def _blind(self, reason: str) -> Board:
        """Return the board of a round that could not read the chain: no alert comes or goes."""
        self._unchecked[CHAIN] = (f"chain: {reason}"[:300],)
        self._standing = {key: replace(s, unchecked=True) for key, s in self._standing.items()}
        _log.warning("round.unchecked", reason=reason)
        return self._board(0, [])

    def _board(self, timestamp: int, cleared: list[Standing]) -> Board:
        phases = Counter(phase.name.lower() for phase in self._phases.values())
        phases.update(self._done.values())
        order = sorted(self._standing.values(), key=lambda s: (-s.alert.level, s.alert.job, s.alert.id))
        age = time.time() - timestamp if timestamp else float("nan")
        lines = sorted(self._lines.values(), key=lambda line: line.job)
        seen = (self._block, self._now, age, self._count, dict(phases))
        return Board(*seen, lines, order, cleared, dict(self._unchecked))


def _unclaimed(owed: Owed) -> Alert:
    text = f"{owed.account} has not withdrawn {owed.wei} wei from {owed.escrow}"
    key = f"0:{Kind.UNCLAIMED}:{owed.escrow}:{owed.account.lower()}"
    return Alert(key, Kind.UNCLAIMED, Level.INFO, CHAIN, text)
