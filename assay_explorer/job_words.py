"""A job in words: its phase, who judges, what is claimed, what the chain commits to."""

from __future__ import annotations

from typing import Any

from trainer_node.chain import JobPhase, JobView

from . import text


def phase(job: JobView, now: int) -> dict[str, Any]:
    """Return a job's phase: its name, seconds left, and their part of the phase."""
    spans = {
        JobPhase.TRAINING: (job.posted, job.commit_end),
        JobPhase.REVEAL: (job.commit_end, job.reveal_end),
        JobPhase.CHALLENGE: (job.reveal_end, job.challenge_end),
        JobPhase.CLOSING: (job.challenge_end, max(job.reclaim_end, job.challenge_end)),
    }
    begin, end = spans.get(job.phase, (0, 0))
    left, full = max(0, end - now), max(1, end - begin)
    return {
        "name": job.phase.name.lower(),
        "left": left,
        "full": full,
        "ended": job.phase.ended,
        "good": job.phase is JobPhase.ACCEPTED,
        "words": _PHASES[job.phase.name],
    }


_PHASES = {
    "NONE": "no job",
    "TRAINING": "trainers take slots, train, and commit to their results, sealed",
    "REVEAL": "trainers open their commitments",
    "CHALLENGE": "anybody may dispute a result, by staking on another one",
    "CLOSING": "open disputes are decided",
    "ACCEPTED": "a result is accepted, and paid for",
    "UNCLAIMED": "no claim is left: the client has its reward back",
    "VOID": "the trainer withheld its logs: the client has its reward back",
}


def judges(job: JobView) -> dict[str, Any]:
    """Return who judges a disputed operator, and whom the result depends on."""
    count, threshold = len(job.verifiers), job.rules.threshold
    if not job.rules.has_verifiers:
        who = "the court: a contract computes one step of one element"
        depends = "nobody: one honest party is enough"
    else:
        who = f"{threshold} of {text.plural(count, 'verifier')}; on appeal, the court"
        depends = "nobody, if one honest party can appeal in time; verifiers pay for false verdicts"
    return {"who": who, "depends": depends, "verifiers": count, "threshold": threshold}


def claims_by_root(job: JobView) -> list[dict[str, Any]]:
    """Return each claimed root with its claims: who, stake, whether it has lost."""
    found = []
    for group in job.groups:
        claims = [job.claims[member] for member in group.members]
        found.append(
            {
                "group": group,
                "claims": claims,
                "dead": group.dead,
                "accepted": group.refutes is None and group.root == job.accepted_root and any(group.root),
                "disputed": bool(group.match_id),
            }
        )
    return found


def artifacts(job: JobView) -> list[tuple[str, bytes, str]]:
    """Return what the chain commits to: what it is, its hash, and its address at the client's server, if it has one."""
    terms = job.program
    base = text.link(job.uri)
    found = [
        (
            "program file (SHA-256)",
            job.program_file,
            f"{base}/v1/blob/{job.program_file.hex()}" if base else "",
        ),
        ("program hash", terms.hash(), ""),
        ("structure root", terms.structure_root, ""),
        ("slot root", terms.slot_root, ""),
        ("constant root", terms.constant_root, ""),
        ("initial root (C0)", terms.initial_root, ""),
    ]
    if any(job.logs):
        found.append(("root of the rounding logs", job.logs, ""))
    if any(job.accepted_root):
        found += [
            ("accepted run root", job.accepted_root, ""),
            ("accepted last checkpoint", job.accepted_last, ""),
        ]
    return found
