"""A job in words: its phase, who judges, what is claimed, what the chain commits to."""

from __future__ import annotations

from typing import Any

from trainer_node.chain import JobPhase, JobView

from . import text


def phase(job: JobView, now: int, pending: int = 0) -> dict[str, Any]:
    """Return a job's phase: its name, what happens in it, seconds left, and their part of the phase.

    ``pending``: open requests for data of the root that would be accepted, which keep a job from its end.
    """
    spans = {
        JobPhase.TRAINING: (job.posted, job.commit_end),
        JobPhase.REVEAL: (job.commit_end, job.reveal_end),
        JobPhase.CHALLENGE: (job.reveal_end, job.challenge_end),
        JobPhase.CLOSING: (job.challenge_end, max(job.reclaim_end, job.challenge_end)),
    }
    begin, end = spans.get(job.phase, (0, 0))
    # NOTE: while disputes are open nobody can say how long the job still takes.
    left = 0 if job.phase is JobPhase.CLOSING and job.open_matches else max(0, end - now)
    full = max(1, end - begin)
    return {
        "name": job.phase.name.lower(),
        "left": left,
        "full": full,
        "ended": job.phase.ended,
        "good": job.phase is JobPhase.ACCEPTED,
        "words": _words(job, left, pending),
        "over": job.phase is JobPhase.CLOSING and not (left or job.open_matches or pending),
    }


def _words(job: JobView, left: int, pending: int) -> str:
    """Say what happens in a job now, or how it has ended."""
    claimed = any(group.refutes is None for group in job.groups)
    living = any(group.refutes is None and not group.dead for group in job.groups)
    why = "every claim has lost" if claimed else "nobody has claimed a result"
    match job.phase:
        case JobPhase.TRAINING if not job.trainers:
            return f"nobody has taken {'the slot' if job.slots == 1 else f'one of the {job.slots} slots'} yet"
        case JobPhase.TRAINING:
            taken = f"{len(job.trainers)} of {text.plural(job.slots, 'slot')} taken"
            return (
                f"{taken}, {job.commitments} committed: trainers train, and commit to their results, sealed"
            )
        case JobPhase.REVEAL if not job.commitments:
            return "no trainer has committed to a result, so there is none to reveal"
        case JobPhase.REVEAL:
            return f"trainers open their commitments, {job.reveals} of {job.commitments} so far"
        case JobPhase.CHALLENGE if not living:
            return f"{why}: anybody may claim one, with a stake"
        case JobPhase.CHALLENGE:
            return "anybody may dispute a result, by staking on another one"
        case JobPhase.CLOSING if job.open_matches:
            return f"{text.plural(job.open_matches, 'open dispute')} must be decided first"
        case JobPhase.CLOSING if left:
            return "a root whose claims have lost may be claimed or refuted again for some time"
        case JobPhase.CLOSING if pending:
            return f"{text.plural(pending, 'request')} for data must be answered first"
        case JobPhase.CLOSING if living:
            return "nothing is open any more: anybody may end the job, and the result is accepted"
        case JobPhase.CLOSING:
            return f"{why}: anybody may end the job, and the client has its reward back"
        case JobPhase.UNCLAIMED if not claimed:
            return "nobody has claimed a result: the client has its reward back"
    return _ENDS[job.phase]


_ENDS = {
    JobPhase.NONE: "no job",
    JobPhase.ACCEPTED: "a result is accepted, and those who claim it share the reward",
    JobPhase.UNCLAIMED: "every claim has lost: the client has its reward back",
    JobPhase.VOID: "the trainer withheld its logs: the client has its reward back",
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
