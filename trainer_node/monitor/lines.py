"""One line per job with its forecast, in plain values that serialise to JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from referee_py.jobs import JobPhase
from referee_py.walk import clock
from referee_py.walk.sides import sides

from ..chain import JobView
from .reading import MatchReading, Reading

PHASE_ENDS = {
    JobPhase.TRAINING: "commit_end",
    JobPhase.REVEAL: "reveal_end",
    JobPhase.CHALLENGE: "challenge_end",
    JobPhase.CLOSING: "due",
}
"""The instant at which a phase is over at the latest, if nobody moves; `Closing` ends later while matches last."""
MAX_ROWS = 64
"""Matches and roots of a job that its line holds."""


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job's line. ``knowledge``: what is known of its claims: `trusted`, `disputed`, `agreed` (several
    claimants of one root), `alone` (one claimant) or `none` (no claim)."""

    job: int
    block: int
    phase: str
    until: int
    knowledge: str
    roots: list[dict[str, Any]]
    matches: list[dict[str, Any]]
    requests: int
    next_request: int | None
    outcome: dict[str, Any] | None
    unchecked: tuple[str, ...]


def line_of(reading: Reading, trusted: bytes | None, missing: tuple[str, ...], block: int) -> JobLine:
    """Return the line of a job that was read in that block."""
    job, end = reading.job, reading.outcome
    told = None
    if end is not None and not job.phase.ended:
        told = {"phase": end.phase.name.lower(), "at": end.at, "root": end.root.hex() if end.root else None}
    return JobLine(
        job.id,
        block,
        job.phase.name.lower(),
        getattr(job, PHASE_ENDS[job.phase]) if job.phase in PHASE_ENDS else 0,
        _knowledge(job, trusted),
        [_root(job, number, trusted) for number in range(min(len(job.groups), MAX_ROWS))],
        [_match(reading, match) for match in reading.matches[:MAX_ROWS]],
        len(reading.requests),
        min((request.until for request in reading.requests), default=None),
        told,
        (*missing, *([f"referee {reading.foreign} is not the deployment's"] if reading.foreign else ())),
    )


def _knowledge(job: JobView, trusted: bytes | None) -> str:
    """Return what a reader without a key can know. NOTE: claims that agree prove nothing."""
    living = [group for group in job.groups if not group.dead]
    if trusted is not None:
        return "trusted"
    if len(living) > 1:
        return "disputed"
    if not living:
        return "none"
    return "agreed" if len(living[0].members) - living[0].spokesman > 1 else "alone"


def _root(job: JobView, number: int, trusted: bytes | None) -> dict[str, Any]:
    group = job.groups[number]
    found: dict[str, Any] = {
        "root": group.root.hex(),
        "claims": len(group.members),
        "lost": group.spokesman,
        "refutes": None if group.refutes is None else job.groups[group.refutes].root.hex(),
    }
    # NOTE: a refutation claims no root, so there is nothing to compare.
    if group.refutes is None and trusted is not None:
        found["verdict"] = "valid" if group.root == trusted else "invalid"
    else:
        found["verdict"] = "unchecked"
    return found


def _match(reading: Reading, match: MatchReading) -> dict[str, Any]:
    info, now = match.info, reading.now
    state = match.trial.state if match.trial is not None else info.state
    players = state.players if match.trial is not None else info.terms.players  # type: ignore[union-attr]
    told: dict[str, Any] = {
        "match": f"{info.id:#066x}",
        "phase": info.state.phase.name.lower(),
        "hearing": match.hearing.state.phase.name.lower() if match.hearing else None,
        "trial": match.trial.state.stage.name.lower() if match.trial else None,
        "left": {players[s]: clock.deadline(state, s) - now for s in sides(clock.owing(state))},
    }
    if match.hearing is not None and not match.hearing.state.in_trial:
        told["until"] = match.hearing.state.until
    ending = match.ending
    if ending is not None:
        losers = [info.terms.players[side] for side in sides(ending.losers)]
        told["ends"] = {"at": ending.at, "by": ending.by, "losers": losers}
    return told
