"""Answers of challengers with default settings to a job before it is posted: those of their own tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from referee_py.program.terms import Terms

from ..chain import JobPhase, JobView
from ..reason import Reason
from ..roles.acceptance import never
from ..run.cost_estimate import CostEstimate
from ..run.trial_cost import NO_TRIAL
from ..settings.sections import DAY_S
from ..settings.settings import LOCAL_CHAINS, Settings
from ..stake.deterrence import deterrence, useless
from .posting import Offer, job_terms

CHECKS = "all", "share"
"""Parts of a job that challengers check by default settings, and by the only other ones that follow its terms."""
HALVINGS = 40
NOBODY = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Market:
    """The chain on which a job is posted: its base fee now in wei, the units of gas that a stake is worth at least (see
    `JobView.stake_gas`), and the least age of a commitment in seconds."""

    base_fee: int
    stake_gas: int
    commit_age: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of nodes that check so much: why they leave the job on however fast a machine; and if nothing, the most
    seconds that each thing may take of which a dispute is made, for them to take it."""

    check: str
    reasons: list[Reason]
    most_s: float = 0.0


def answers(offer: Offer, terms: Terms, market: Market, settings: Settings) -> Iterator[Answer]:
    """Yield what challengers with default settings answer to these terms at the present price of gas, for each check;
    nothing on a development chain, where nobody asks for a price. ``settings``: the client's, for the chain and the
    time between its blocks; nothing else of them counts."""
    if settings.chain_id in LOCAL_CHAINS:
        return
    job = as_posted(offer, terms, market)
    for check in CHECKS:
        node = settings.of_others(check)

        if refused := _reasons(job, node, 0.0, market.commit_age, offer.bounty):
            yield Answer(check, refused)
            continue
        low, high = 0.0, float(DAY_S)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            refused = _reasons(job, node, middle, market.commit_age, offer.bounty)
            low, high = (low, middle) if refused else (middle, high)
        yield Answer(check, [], low)


def _reasons(job: JobView, node: Settings, seconds: float, commit_age: int, pool: int) -> list[Reason]:
    """Return why a node leaves the job where a step with its commitment, a trial, and an operator on the processor take
    so long each, and watchers are paid out of a ``pool`` of so many wei. A job in which each takes less is left for no
    other reason."""
    estimate = CostEstimate(seconds, seconds, replace(NO_TRIAL, seconds=seconds), right_s=seconds)
    sample = useless(deterrence(job, node.samplers, pool)) if node.check == "share" else None
    found = (sample, *never(job, node, estimate, commit_age))
    return [reason for reason in found if reason is not None]


def as_posted(offer: Offer, terms: Terms, market: Market) -> JobView:
    """Return the job of an offer as nodes see it, before anybody has claimed anything."""
    posted = job_terms(terms, bytes(32), "", NOBODY, offer)
    return JobView(
        **{name: getattr(posted, name) for name in type(posted).__dataclass_fields__ if name != "function"},
        id=0,
        phase=JobPhase.TRAINING,
        client=NOBODY,
        posted=0,
        reward=offer.reward,
        commit_end=0,
        reveal_end=0,
        challenge_end=0,
        reclaim_end=0,
        commitments=0,
        reveals=0,
        open_matches=0,
        waiting=None,
        founded=0,
        reopened=0,
        accepted_root=bytes(32),
        accepted_last=bytes(32),
        logs=bytes(32),
        finder=None,
        trainers=(),
        claims=(),
        groups=(),
        base_fee=market.base_fee,
        stake_gas=market.stake_gas,
    )
