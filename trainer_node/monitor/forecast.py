"""Forecast of a job if nobody moves any more. Pure functions of the chain's state.

    NOBODY MOVES   Nobody publishes, votes, claims, appeals or answers. What anybody may do once a period is over is
                   still done, at the first possible instant: timeouts, `escalate`, `proceed`, `close`, `finalize`.

So each clock runs out, each side that owes a move loses, and the groups that are left are paired as the contract does
(docs/protocol.md, section 6). A match that opens then ends after one clock with two losers: both sides owe a move.
All instants are those of the contracts' clocks, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from referee_py.game.state import MatchState
from referee_py.jobs import JobPhase
from referee_py.panel.state import HearingPhase
from referee_py.trial import TrialState
from referee_py.walk import clock
from referee_py.walk.clock import Clocked
from referee_py.walk.sides import BOTH, sides

from ..chain import HearingInfo, JobView

TRAINERS_GROUP = 0
"""The group of the one trainer, in a mode with rounding logs."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a match: the instant, and the losing sides as bits."""

    at: int
    losers: int
    by: str
    """The cause: timeout, verdict, trial or escalation."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a job: its last phase, the instant at which `finalize` is possible, and the accepted root, if any."""

    phase: JobPhase
    at: int
    root: bytes | None = None
    lost: tuple[bytes, ...] = ()
    """Roots that live now, and have no claim left at the end."""


# ---------------------------------------------------------------------- matches


def match_ending(
    state: MatchState, hearing: HearingInfo | None, trial: TrialState | None, period: int, now: int
) -> Ending | None:
    """Return how an open match ends; None if its hearing or its trial is needed and not known.

    ``period``: seconds of a whole clock of the job.
    """
    if clock.owing(state):
        return _timeout(state, now, "timeout")
    if hearing is None:
        return None
    told = hearing.state
    match told.phase:
        case HearingPhase.VOTING:
            # NOTE: the trial that follows begins with both clocks running.
            return Ending(max(told.until, now) + period + 1, BOTH, "escalation")
        case HearingPhase.RULED:
            return Ending(max(told.until, now), hearing.terms.submission.unlike(told.verdict), "verdict")
        case HearingPhase.TRIAL if trial is not None and clock.owing(trial):
            return _timeout(trial, now, "trial")
    return None


def _timeout(state: Clocked, now: int, by: str) -> Ending:
    first = clock.first_deadline(state) + 1
    return Ending(max(first, now), clock.late(state, first), by)


# ---------------------------------------------------------------------- jobs


@dataclass(slots=True)
class _Group:
    """A group as the forecast changes it. ``late``: the instant from which an unanswered request can be closed."""

    root: bytes
    alive: int
    playing: bool
    refutes: int | None
    late: int | None


@dataclass(slots=True)
class _Game:
    """The groups of one job, played to the end without a move."""

    job: JobView
    now: int
    groups: list[_Group]
    waiting: int | None
    withheld: bool
    challenge_end: int
    reclaim_end: int
    reopened: bool
    late_logs: int | None
    open: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Open matches: instant, the group of side 0, that of side 1, losers."""

    def play(self) -> None:
        while True:
            matches = sorted(self.open)
            closing = self._closing()
            if closing is not None and (not matches or closing <= matches[0][0]):
                self._close(closing)
            elif matches:
                self.open.remove(matches[0])
                self._end(*matches[0])
            else:
                return

    def _end(self, at: int, first: int, second: int, losers: int) -> None:
        self.now = max(self.now, at)
        pair = first, second
        for number in pair:
            self.groups[number].playing = False
        for side in sides(losers):
            self.groups[pair[side]].alive -= 1
        if self.groups[second].refutes is None:
            for number in pair:
                self._return(number)
            return
        # NOTE: a refutation that has lost has proved nothing: the root can be refuted again for a while.
        if losers >> 1 & 1 and not self.withheld:
            self.reclaim_end = self.now + self.job.challenge_period
        self._return(first)
        if self.waiting is None and not self.open and not self.withheld and not self.reopened:
            end = self.now + self.job.challenge_period
            if end > self.challenge_end:
                self.reopened, self.challenge_end = True, end

    def _return(self, number: int) -> None:
        """Let a group enter again after its match, or begin the time in which its root can be claimed again."""
        group = self.groups[number]
        if self.withheld:
            if number == TRAINERS_GROUP:
                self._condemn()
        elif group.alive:
            self._enter(number)
        else:
            self.reclaim_end = self.now + self.job.challenge_period

    def _condemn(self) -> None:
        """Take the claim of the trainer that withholds its logs, unless it is lost already; others of its root stay."""
        group = self.groups[TRAINERS_GROUP]
        if group.alive == len(self.job.groups[TRAINERS_GROUP].members):
            group.alive -= 1

    def _enter(self, number: int) -> None:
        queue = (k for k, g in enumerate(self.groups) if g.refutes == number and g.alive and not g.playing)
        refutation = next(queue, None)
        if refutation is not None:
            self._pair(number, refutation)
        elif self.waiting is None:
            self.waiting = number
        else:
            other, self.waiting = self.waiting, None
            self._pair(other, number)

    def _pair(self, first: int, second: int) -> None:
        for number in (first, second):
            self.groups[number].playing = True
        self.open.append((self.now + self.job.rules.clock + 1, first, second, BOTH))

    def _closing(self) -> int | None:
        """Return the instant at which a request that has an effect can be closed, or None."""
        found = []
        if self.late_logs is not None and not self.withheld:
            found.append(self.late_logs)
        found += [late for group in self._idle() if (late := group.late) is not None]
        at = max(min(found), self.now) if found else None
        # NOTE: where logs are withheld, the job ends without waiting for requests of claimed roots. Closing a request
        # wins a prize, and ending the job nothing, so what can be closed now is closed first.
        end = max(self.challenge_end, self.reclaim_end, self.now)
        if at is not None and self.withheld and not self.open and at > end:
            return None
        return at

    def _idle(self) -> list[_Group]:
        """Return the living groups in no match: they can lose by a request. Unless logs are withheld, one waits."""
        if not self.withheld:
            return [] if self.waiting is None else [self.groups[self.waiting]]
        return [group for group in self.groups if group.alive and not group.playing and group.refutes is None]

    def _close(self, at: int) -> None:
        self.now = max(self.now, at)
        if self.late_logs is not None and self.late_logs <= self.now and not self.withheld:
            self.withheld, self.waiting = True, None
            if not self.groups[TRAINERS_GROUP].playing:
                self._condemn()
            return
        group = min((g for g in self._idle() if g.late is not None), key=lambda g: g.late or 0)
        self.waiting, group.alive, group.late = None, 0, None
        if not self.withheld:
            self.reclaim_end = self.now + self.job.challenge_period


def outcome(
    job: JobView,
    endings: Mapping[int, Ending | None],
    roots: Mapping[int, tuple[bytes, bytes]],
    late: Mapping[tuple[bytes, int], int],
    now: int,
) -> Outcome | None:
    """Return how a job ends; None if one of its open matches has no known ending.

    ``endings``: by open match; ``roots``: its roots, by side; ``late``: the last second for an answer to the first
    overdue request under a root in one of its lives (life 0: the job's logs).
    """
    if job.phase.ended:
        return Outcome(job.phase, now, job.accepted_root if job.phase is JobPhase.ACCEPTED else None)
    ends = {match_id: endings.get(match_id) for match_id in job.match_ids()}
    if any(ending is None for ending in ends.values()) or len(ends) != job.open_matches:
        return None
    groups = [
        _Group(
            group.root,
            len(group.members) - group.spokesman,
            group.match_id != 0,
            group.refutes,
            None if group.refutes is not None else _after(late, [(group.root, group.life)]),
        )
        for group in job.groups
    ]
    logs = _after(late, [key for key in late if key[1] == 0])
    game = _Game(
        *(job, now, groups, job.waiting, job.finder is not None, job.challenge_end, job.reclaim_end),
        *(job.reopened > 0, logs),
    )
    for match_id, ending in ends.items():
        pair = job.pair(match_id)
        if pair is None or ending is None:
            return None
        first, second = sorted(pair, key=lambda group: group.root != roots[match_id][0])
        game.open.append((ending.at, first.index, second.index, ending.losers))
    game.play()
    at = max(now, game.now if job.open_matches else now, game.challenge_end, game.reclaim_end)
    lived = [group.root for group in job.groups if not group.dead and group.refutes is None]
    left = {group.root for group in game.groups if group.alive and group.refutes is None}
    lost = tuple(root for root in lived if root not in left)
    if game.waiting is not None:
        return Outcome(JobPhase.ACCEPTED, at, game.groups[game.waiting].root, lost)
    return Outcome(JobPhase.VOID if game.withheld else JobPhase.UNCLAIMED, at, None, lost)


def _after(late: Mapping[tuple[bytes, int], int], keys: Iterable[tuple[bytes, int]]) -> int | None:
    """Return the first instant at which a request under one of these is closed, or None."""
    found: Sequence[int] = [late[key] + 1 for key in keys if key in late]
    return min(found, default=None)
