"""Provenance: what is known about a result, for its model card; and what is not. Of a run here, or of a job's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chain import JobView


@dataclass(frozen=True)
class Provenance:
    """Origin of a result: names and values, and sentences for people. ``certificate``: what one says, in a sentence, or
    why there is none."""

    facts: Sequence[tuple[str, str]]
    checked: Sequence[str]
    unknown: Sequence[str]
    certificate: str = ""


def local_run(facts: Mapping[str, str]) -> Provenance:
    """Return what is known about a run on this machine, without a chain. `facts` is what the run has shown."""
    unknown = ["Nobody else has computed it, and no stake stands behind it."]
    if "run root" not in facts:
        unknown.append("There is no run root, so the result cannot be compared with anybody's claim.")
    return Provenance(
        list(facts.items()),
        ["The run was computed by the party that made this folder, from the bundle's own tensors."],
        unknown,
        "There is none: nobody else has checked this run. `assay run certificate` makes one of auditors' receipts.",
    )


def accepted_result(
    arithmetic: str,
    job: JobView,
    chain_id: int,
    contract: str,
    matches: int,
    watchers: int,
    *,
    fetched: bool = True,
) -> Provenance:
    """Return what is known about a job's accepted root. `matches` and `watchers` are how many it has had; `fetched`:
    the result was fetched, and compared with the root."""
    facts = [
        ("arithmetic", arithmetic),
        ("steps", str(job.program.steps)),
        ("run root", job.accepted_root.hex()),
        ("checkpoint after the last step", job.accepted_last.hex()),
        ("chain id", str(chain_id)),
        ("contract of the jobs", contract),
        ("job", str(job.id)),
        ("client", job.client),
    ]
    compared = [
        "Every tensor that the run has changed was compared with the accepted root, every tensor that the program "
        "reads with the program hash.",
    ]
    checked = [
        *(compared if fetched else ()),
        f"Accounts that claimed this root, with a stake, and have not lost it: {', '.join(owners_of(job)) or 'none'}.",
        f"Other roots that were claimed: {len(job.groups) - 1}. Matches about this job: {matches}.",
        f"The challenge phase of {job.challenge_period} s is over, and no match is open.",
        f"Watchers who committed to a root of their own before any was revealed: {watchers}.",
    ]
    return Provenance(facts, checked, _unknown(job))


def owners_of(job: JobView) -> list[str]:
    """Return the accounts whose stake stands behind the accepted root."""
    group = job.group_of_root(job.accepted_root)
    return [claim.owner for claim in job.members(group) if not claim.lost] if group else []


def _unknown(job: JobView) -> list[str]:
    judges = (
        f"{job.rules.threshold} of {len(job.verifiers)} verifiers, and the court on appeal"
        if job.rules.has_verifiers
        else "the court"
    )
    return [
        "Whether anybody replayed the whole run who neither claimed nor challenged. An accepted root is one that "
        "nobody refuted in time; it is right if one honest party took part.",
        f"What {judges} would say about the operators that no match came down to.",
        "Whether accounts with different addresses belong to different people.",
        "Names of tensors, configuration and tokenizer: they are those of the client's bundle, and the program hash "
        "does not commit to them; nor does it to where the data come from.",
    ]
