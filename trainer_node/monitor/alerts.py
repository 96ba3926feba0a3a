"""Alerts, which a person should look at: pure functions of readings, by rules that need no judgement.

    near        at most the share `Rules.near` of a period or a clock is left
    overdue     somebody could have acted for `Rules.grace_s` seconds, and nobody has

SAFETY: an alert is raised only by what the chain shows. Where something could not be read, the job is unchecked, and
rules that need it stay silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from referee_py.game.state import Phase
from referee_py.jobs import JobPhase, fee_at
from referee_py.panel.state import HearingPhase
from referee_py.walk import clock
from referee_py.walk.clock import Clocked
from referee_py.walk.sides import sides

from ..chain import JobView
from ..chain.codec.job import NEVER
from ..ids import side_of
from .forecast import Outcome
from .reading import MatchReading, Reading


class Level(IntEnum):
    """Urgency of an alert."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


class Kind(StrEnum):
    """Subject of an alert."""

    WRONG_CLAIM = "wrong_claim"
    DOUBTFUL_CLAIM = "doubtful_claim"
    CLOCK = "clock"
    HEARING = "hearing"
    OVERDUE = "overdue"
    REQUEST = "request"
    WITHHELD = "withheld"
    BOND = "bond"
    UNCLAIMED = "unclaimed"
    REFUTATION = "refutation"
    PAUSED = "paused"
    POOR = "poor"
    UNANSWERED = "unanswered"
    INSOLVENT = "insolvent"


@dataclass(frozen=True, slots=True)
class Rules:
    """``near``: share of a period; ``grace_s``: seconds that something due may stay undone."""

    near: float = 0.25
    grace_s: int = 600


@dataclass(frozen=True, slots=True)
class Alert:
    """INVARIANT: ``id`` is the same for as long as the same thing is wrong. ``at``: the instant that it is about, on
    the contracts' clocks; 0 if it has none."""

    id: str
    kind: Kind
    level: Level
    job: int
    text: str
    at: int = 0


def alerts_of(reading: Reading, trusted: bytes | None, rules: Rules) -> list[Alert]:
    """Return the alerts about a job. ``trusted``: the root that a trusted run has given, if there is one."""
    if reading.foreign is not None:
        return []
    found = [
        *_claims(reading, trusted, rules),
        *_refutations(reading.job),
        *_requests(reading, rules),
        *_bonds(reading),
        *_ends(reading, rules),
    ]
    for match in reading.matches:
        found += _match(reading, match, rules)
    return found


# ---------------------------------------------------------------------- claims


def _claims(reading: Reading, trusted: bytes | None, rules: Rules) -> Iterator[Alert]:
    job, end = reading.job, reading.outcome
    if job.phase.ended:
        if trusted is not None and job.phase is JobPhase.ACCEPTED and job.accepted_root != trusted:
            text = f"accepted root {short(job.accepted_root)}, but a trusted run has {short(trusted)}"
            yield Alert(_id(job, Kind.WRONG_CLAIM), Kind.WRONG_CLAIM, Level.CRITICAL, job.id, text)
        return
    if job.finder is not None:
        text = f"the rounding logs are withheld, as {job.finder} has shown: the job will end void"
        yield Alert(_id(job, Kind.WITHHELD), Kind.WITHHELD, Level.WARNING, job.id, text, end.at if end else 0)
    if end is None or not job.claims:
        return
    if trusted is not None:
        yield from _wrong(reading, end, trusted, rules)
    elif end.root is not None and is_near(end.at - reading.now, job.challenge_period, rules):
        group = job.group_of_root(end.root)
        if group is not None and group.spokesman:
            text = f"root {short(end.root)} will be accepted at {end.at}, and {group.spokesman} of its claims were lost"
            yield Alert(
                _id(job, Kind.DOUBTFUL_CLAIM), Kind.DOUBTFUL_CLAIM, Level.WARNING, job.id, text, end.at
            )


def _wrong(reading: Reading, end: Outcome, trusted: bytes, rules: Rules) -> Iterator[Alert]:
    """Raise that a wrong root will be accepted, or that the right one will lose, once little time is left to act."""
    job = reading.job
    accepted = end.root is not None and end.root != trusted
    if not accepted and trusted not in end.lost:
        return
    at, period = _last_chance(reading, end, trusted)
    if not is_near(at - reading.now, period, rules):
        return
    what = (
        f"the wrong root {short(end.root or b'')} will be accepted"
        if accepted
        else "nothing will be accepted"
    )
    own = job.group_of_root(trusted)
    state = (
        "nobody has claimed" if own is None else "has lost all claims" if own.dead else "loses its matches"
    )
    who = f"the root of a trusted run, {short(trusted)}, {state}"
    if state == "nobody has claimed":
        who = f"nobody has claimed the root of a trusted run, {short(trusted)}"
    text = f"if nobody moves, {what} at {end.at}: {who}; the last chance to act is {at}"
    yield Alert(_id(job, Kind.WRONG_CLAIM), Kind.WRONG_CLAIM, Level.CRITICAL, job.id, text, at)


def _last_chance(reading: Reading, end: Outcome, trusted: bytes) -> tuple[int, int]:
    """Return the instant after which the trusted root cannot be helped any more, and the period that it ends."""
    job, rules = reading.job, reading.job.rules
    for match in reading.matches:
        ending = match.ending
        roots = match.info.terms.roots
        if ending is not None and trusted in roots and ending.losers >> roots.index(trusted) & 1:
            return ending.at, rules.appeal_period if ending.by == "verdict" else rules.clock
    until = job.claimable_until(trusted) if job.phase >= JobPhase.CHALLENGE else job.challenge_end
    if until is None:
        return reading.now, job.challenge_period
    return (end.at if until >= NEVER else until), job.challenge_period


def _refutations(job: JobView) -> Iterator[Alert]:
    for group in job.groups:
        if group.refutes is None or group.dead or job.phase.ended or group.speaker is None:
            continue
        against = job.groups[group.refutes]
        if not against.dead:
            owner = job.claims[group.speaker].owner
            state = "in a match" if group.match_id else "waits for its match"
            text = f"{owner} refutes one interval of root {short(against.root)}, with a stake; it is {state}"
            yield Alert(
                *(_id(job, Kind.REFUTATION, group.index), Kind.REFUTATION, Level.INFO, job.id, text),
            )


# ---------------------------------------------------------------------- matches, hearings, trials


def _match(reading: Reading, match: MatchReading, rules: Rules) -> Iterator[Alert]:
    job, info, period = reading.job, match.info, reading.job.rules.clock
    name = f"match {info.id:#x}"[:16]
    players = info.terms.players
    if info.state.phase in (Phase.WALK, Phase.REFINE, Phase.OPEN):
        about = f"{name}, {info.state.phase.name.lower()}"
        yield from _clocks(reading, f"{info.id:#x}", about, info.state, players, period, rules)
    if match.trial is not None:
        trial = match.trial.state
        about = f"{name}, trial, {trial.stage.name.lower()}"
        yield from _clocks(reading, f"{match.trial.id:#x}", about, trial, trial.players, period, rules)
    if match.hearing is None:
        return
    state, left = match.hearing.state, match.hearing.state.until - reading.now
    told = {
        HearingPhase.VOTING: (
            "verdict",
            job.rules.verdict_period,
            "anybody may take the operator to the court",
        ),
        HearingPhase.RULED: ("appeal", job.rules.appeal_period, "anybody may let the verdict stand"),
        HearingPhase.DEFENCE: (
            "defence",
            job.rules.appeal_period,
            "anybody may have the signers' bonds taken",
        ),
    }
    if state.phase not in told:
        return
    word, length, then = told[state.phase]
    if left <= 0:
        yield from _overdue(
            job, f"{name}: {then}, since {state.until}", f"{info.id:#x}", state.until, reading, rules
        )
    elif state.phase is not HearingPhase.RULED and is_near(left, length, rules):
        votes = f"; {len(state.votes)} votes, {job.rules.threshold} are needed" if word == "verdict" else ""
        text = f"{name}: the {word} period ends in {left} s{votes}; then {then}"
        yield Alert(
            _id(job, Kind.HEARING, f"{info.id:#x}"), Kind.HEARING, Level.WARNING, job.id, text, state.until
        )


def _clocks(
    reading: Reading,
    key: str,
    name: str,
    state: Clocked,
    players: tuple[str, str],
    period: int,
    rules: Rules,
) -> Iterator[Alert]:
    """Yield an alert for each side whose clock is near its end, or one for a timeout that nobody has called."""
    job, now = reading.job, reading.now
    late = clock.late(state, now)
    if late:
        who = " and ".join(players[side] for side in sides(late))
        first = clock.first_deadline(state)
        yield from _overdue(
            job, f"{name}: {who} is late since {first}; anybody may end it", key, first, reading, rules
        )
        return
    for side in sides(clock.owing(state)):
        left = clock.deadline(state, side) - now
        if is_near(left, period, rules):
            text = f"{name}: {side_of(side)}, {players[side]}, owes a move and has {left} s left of {period}"
            at = clock.deadline(state, side)
            yield Alert(_id(job, Kind.CLOCK, key, side), Kind.CLOCK, Level.WARNING, job.id, text, at)


def _overdue(
    job: JobView,
    text: str,
    key: str,
    since: int,
    reading: Reading,
    rules: Rules,
    level: Level = Level.WARNING,
) -> Iterator[Alert]:
    if reading.now - since >= rules.grace_s:
        yield Alert(_id(job, Kind.OVERDUE, key), Kind.OVERDUE, level, job.id, text, since)


# ---------------------------------------------------------------------- requests, bonds, money


def _requests(reading: Reading, rules: Rules) -> Iterator[Alert]:
    """Yield one alert for each root: the request whose time ends first speaks for all."""
    job, now, seen = reading.job, reading.now, set[bytes]()
    for request in reading.requests:
        if request.root in seen:
            continue
        seen.add(request.root)
        what = "the rounding logs" if request.life == 0 else f"root {short(request.root)}"
        if now > request.until:
            text = f"data of {what} were not shown until {request.until}; anybody may close the request"
            yield from _overdue(job, text, f"request:{request.root.hex()}", request.until, reading, rules)
        elif is_near(request.until - now, job.rules.verdict_period, rules):
            text = f"data of {what} are requested, with {request.until - now} s left to show them"
            key = _id(job, Kind.REQUEST, request.root.hex())
            yield Alert(key, Kind.REQUEST, Level.WARNING, job.id, text, request.until)


def _bonds(reading: Reading) -> Iterator[Alert]:
    """Yield an alert for each of the job's verifiers whose bond is gone, leaves, or is worth less than a stake."""
    job = reading.job
    panel = reading.panel.lower()
    if job.phase.ended or not reading.verifiers:
        return
    least = job.stake_gas * fee_at(job.base_fee, job.low_fee, job.high_fee)
    good = 0
    poor = list[tuple[str, str]]()
    for address, found in reading.verifiers.items():
        if not found.bond or found.panel.lower() != panel:
            poor.append((address, "has no bond that answers to the panel"))
            continue
        good += 1
        if found.bond < least:
            poor.append(
                (address, f"has a bond of {found.bond} wei; a trial at the price of gas now asks {least}")
            )
        elif found.leaves_at:
            poor.append((address, f"leaves, and can take its bond from {found.leaves_at} on"))
    short_of = good < job.rules.threshold
    for address, why in poor:
        text = f"verifier {address} {why}"
        if short_of:
            text += f"; {good} of the job's verifiers can vote, a verdict takes {job.rules.threshold}"
        level = Level.CRITICAL if short_of else Level.WARNING
        yield Alert(_id(job, Kind.BOND, address.lower()), Kind.BOND, level, job.id, text)


def _ends(reading: Reading, rules: Rules) -> Iterator[Alert]:
    job = reading.job
    if job.phase is JobPhase.CLOSING and not job.open_matches and reading.now >= job.due:
        bound = job.waiting is not None and _bound(reading)
        # NOTE: a job without reward and trainers holds nobody's money; anybody can post a thousand of them.
        if not bound and (job.reward or job.trainers):
            text = f"all periods are over since {job.due}; anybody may finalize the job"
            level = Level.WARNING if job.claims else Level.INFO
            yield from _overdue(job, text, "finalize", job.due, reading, rules, level)
    if job.phase.ended:
        owed = [claim for claim in job.claims if not claim.lost and not claim.collected]
        for claim in owed:
            text = f"the job is over, and nobody has collected claim {claim.index} of {claim.owner}"
            yield Alert(_id(job, Kind.UNCLAIMED, claim.index), Kind.UNCLAIMED, Level.INFO, job.id, text)


def _bound(reading: Reading) -> bool:
    """Return whether open requests keep the job from its end, as far as the requests are known."""
    job = reading.job
    waiting = job.groups[job.waiting] if job.waiting is not None else None
    return any(r.life == 0 or (waiting is not None and r.root == waiting.root) for r in reading.requests)


# ---------------------------------------------------------------------- words


def is_near(left: int, period: int, rules: Rules) -> bool:
    """Return whether an instant is near."""
    return left <= rules.near * period


def short(root: bytes) -> str:
    """Return the beginning of a hash."""
    return root.hex()[:12] + "…"


def _id(job: JobView, kind: Kind, *parts: object) -> str:
    return ":".join(map(str, (job.id, kind, *parts)))
