"""A job of the model as the chain shows it to a daemon: `JobView`, on which the daemons' decisions run unchanged."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.model.chain_model import ChainModel
from tests.model.jobs import Job, JobTerms
from trainer_node.chain import ClaimView, Group, JobView, Trainer

NOTHING = bytes(32)


def job_view(model: ChainModel, job_id: int, now: int) -> JobView:
    """Return what `viewOf` shows of a job in a block at ``now``, in seconds, as the node's codec reads it."""
    job = model.jobs[job_id]
    accepted = job.groups[job.accepted] if job.accepted is not None else None
    return JobView(
        **_terms(job.terms, model.referee),
        id=job_id,
        phase=job.phase(now),
        client=job.client,
        posted=job.posted,
        reward=job.reward,
        commit_end=job.commit_end,
        reveal_end=job.reveal_end,
        challenge_end=job.challenge_end,
        reclaim_end=job.reclaim_end,
        commitments=sum(trainer.commitment != NOTHING for trainer in job.trainers),
        reveals=sum(trainer.revealed for trainer in job.trainers),
        open_matches=job.open_matches,
        waiting=job.waiting,
        founded=job.founded,
        reopened=job.reopened,
        accepted_root=accepted.root if accepted else NOTHING,
        accepted_last=accepted.last if accepted else NOTHING,
        logs=job.logs,
        finder=job.finder,
        trainers=tuple(Trainer(t.owner, t.revealed, t.stake, t.commitment) for t in job.trainers),
        claims=_claims(job),
        groups=_groups(job),
        base_fee=model.base_fee,
        stake_gas=model.stake_gas,
    )


def _claims(job: Job) -> tuple[ClaimView, ...]:
    return tuple(
        ClaimView(
            index=number,
            owner=claim.owner,
            stake=claim.stake,
            group=claim.group,
            slot=claim.slot,
            lost=claim.lost,
            collected=claim.collected,
            uri="http://party",
        )
        for number, claim in enumerate(job.claims)
    )


def _groups(job: Job) -> tuple[Group, ...]:
    return tuple(
        Group(
            index=number,
            root=group.root,
            last=group.last,
            match_id=group.match_id,
            spokesman=group.spokesman,
            deaths=group.deaths,
            until=group.until,
            refutable_until=group.refutable_until,
            members=tuple(group.members),
            refutes=group.refutes,
        )
        for number, group in enumerate(job.groups)
    )


@cache
def _terms(terms: JobTerms, referee: str) -> dict[str, Any]:
    """Return the fields of a view that a job's terms decide."""
    return {
        "program": terms.program,
        "program_file": NOTHING,
        "uri": "http://client",
        "referee": referee,
        "slots": terms.slots,
        "stake": terms.stake,
        "low_fee": terms.low_fee,
        "high_fee": terms.high_fee,
        "train_period": terms.train_period,
        "watch_period": terms.watch_period,
        "reveal_period": terms.reveal_period,
        "challenge_period": terms.challenge_period,
        "rules": terms.rules,
        "verifiers": terms.verifiers,
    }
