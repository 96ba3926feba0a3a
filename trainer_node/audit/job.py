"""A run that is claimed in a job on a chain, for parties that check a part of it. The chain says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from referee_py.errors import InvalidInput

from ..local.claim_file import FORMAT, Claim
from ..network.fetcher import Fetcher
from ..network.sources import Served
from ..storage.store import Store
from .published import PublishedRun

if TYPE_CHECKING:  # NOTE: each process of an audit starts a second later with it
    from ..chain import JobView

_SHOWN = 8


class JobRun(PublishedRun):
    """A run that is claimed in a job on a chain, served by its claimants. The chain has checked the claim's form."""

    def __init__(self, claim: Claim, servers: Sequence[str], cache: Store) -> None:
        self._open(claim, Served(Fetcher(cache), servers))


def roots_of(job: JobView) -> list[bytes]:
    """Return the roots whose runs an audit of a job may be about: the one that it has accepted, or all claimed ones, in
    the order of their claims. If it is one, it need not be named."""
    claimed = [group.root for group in job.groups if group.refutes is None]
    return [job.accepted_root] if job.phase.ended and job.accepted_root in claimed else claimed


def claim_of_job(job: JobView, root: bytes | None) -> tuple[Claim, list[str]]:
    """Return what a root of a job claims, and where its artifacts are served. ``root`` may be None if the job has
    accepted one, or if only one is claimed. Raises InvalidInput."""
    claimed = [group for group in job.groups if group.refutes is None]
    wanted = roots_of(job) if root is None else [root]
    found = [group for group in claimed if group.root in wanted]
    if len(found) != 1:
        roots = ", ".join(group.root.hex() for group in claimed[:_SHOWN]) or "none yet"
        raise InvalidInput(f"job {job.id}: choose one of its roots with --root: {roots}")
    terms, (group,) = job.program, found
    claim = Claim(
        format=FORMAT,
        name=f"job {job.id}",
        program_file=job.program_file.hex(),
        program_hash=terms.hash().hex(),
        steps=terms.steps,
        strides=list(terms.strides),
        mode=terms.mode,
        root=group.root.hex(),
        last=group.last.hex(),
        path=[],
        logs=job.logs.hex(),
    )
    return claim, job.servers(job.members(group), client=True)
