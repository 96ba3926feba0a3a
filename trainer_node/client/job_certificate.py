"""The certificate of an accepted job, from the chain."""

from __future__ import annotations

from referee_py.errors import InvalidInput
from referee_py.program.describe import Names
from referee_py.program.modes import mode_or_unknown

from ..audit.certificate import NO_NAMES, Certificate, certify_job
from ..chain import Deployment, JobView, Snapshot
from ..errors import RpcCorrupt
from ..local.bundle import Bundle
from ..local.provenance import accepted_result


def certificate_of(
    snapshot: Snapshot, deployment: Deployment, job: JobView, bundle: Bundle | None
) -> Certificate:
    """Return what the chain says of an accepted result. ``bundle``: the job's, if its tensors are to be named.

    Its evidence is the transaction that has accepted the result, so it is the same at any later block. Raises
    InvalidInput for a job without such a result or another bundle, RpcUnavailable, and RpcCorrupt where events lack.
    """
    if bundle is not None and bundle.program.file_hash() != job.program_file:
        raise InvalidInput(f"the bundle is not that of job {job.id}; leave out --bundle, or give the job's")
    if job.hidden is not None:
        raise RpcCorrupt(job.hidden)
    names: Names = NO_NAMES if bundle is None else bundle.names
    known = accepted_result(
        mode_or_unknown(job.program.mode).name,
        job,
        deployment.chain_id,
        deployment.jobs,
        len(snapshot.matches_of(job.id)),
        snapshot.pool(job).watchers,
        fetched=False,
    )
    told = snapshot.job_events(job.id, "Accepted")
    if any(job.accepted_root) and not told:
        raise RpcCorrupt(
            f"job {job.id}: the endpoint has no event of its acceptance; use one with complete logs"
        )
    place, instant = ("", ""), 0
    if told:
        place = (
            f"transaction in block {told[-1].block} of chain {deployment.chain_id}",
            told[-1].tx_hash.hex(),
        )
        instant = snapshot.instant(told[-1].block)
    return certify_job(job, known, None if bundle is None else bundle.program, place, instant, names)
