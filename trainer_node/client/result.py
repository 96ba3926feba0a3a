"""The client's result: the trained state of an accepted job, proven against the accepted root.

accepted root (on the chain) ── run tree ── C_n ── step tree ── record of the node that gives a slot ── tensor
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from referee_py.commit import Tag
from referee_py.commit.tensor import Array
from referee_py.errors import HashMismatch, InvalidInput
from referee_py.program import Program, TensorType

from ..chain import Group, JobPhase, JobView, Snapshot
from ..errors import RpcCorrupt, RpcUnavailable
from ..network.fetcher import Fetcher
from ..network.sources import Served
from ..run.package import MAX_HEADER_BYTES, check_leaves
from ..storage.artifacts import Kind, Name
from ..storage.tensor_file import save_tensors


def accepted_group(job: JobView) -> Group:
    """Return the claims of the accepted root. Raises InvalidInput if the job has no accepted result."""
    group = job.group_of_root(job.accepted_root)
    if job.phase is JobPhase.ACCEPTED and group is not None and group.dead:
        raise InvalidInput(f"job {job.id}: no claim of its accepted root lives; use another endpoint")
    if job.phase is not JobPhase.ACCEPTED or group is None:
        remedy = "" if job.phase.ended else f"; `assay job watch {job.id}` ends when it does"
        raise InvalidInput(f"job {job.id} has no accepted result: it is {job.phase.name.lower()}{remedy}")
    return group


def confirmed(snapshot: Snapshot) -> None:
    """Let other endpoints confirm all that was read of a result. Raises RpcUnavailable.

    SAFETY: the artifacts are proven against a root, and one endpoint could show another one, with all that belongs to
    it.
    """
    try:
        snapshot.confirm()
    except (RpcUnavailable, RpcCorrupt) as error:
        told = f"nothing is taken for the job's result that other endpoints do not confirm: {error}"
        raise RpcUnavailable(f"{told}; ask again, or set `agree`") from error


def fetch_result(fetcher: Fetcher, job: JobView, program: Program) -> list[Array]:
    """Fetch the slots after the last step, in slot order, from those who claimed the accepted root.

    Raises InvalidInput if the job has no accepted result, or the event of its claim lacks or is false; Unavailable if
    nobody serves it; HashMismatch if the accepted tensors do not have the program's types (then no honest party took
    part).
    """
    uris = job.servers(job.members(accepted_group(job)))
    if not uris and job.hidden is not None:
        raise InvalidInput(job.hidden)
    servers = Served(fetcher, uris)
    # SAFETY: an event names the last checkpoint, and no view does; the accepted root proves it.
    check_leaves(job.program)
    intervals = -(-job.program.steps // job.program.strides[0])
    if servers.stored_tree(Tag.RUN_TREE, job.accepted_root, intervals).leaves[-1] != job.accepted_last:
        told = "its event lacks, or names another last checkpoint than the accepted root has"
        raise InvalidInput(f"job {job.id}: {told}; use an endpoint with complete logs")
    tree = servers.tree(Tag.STEP_TREE, job.accepted_last, job.program.node_count)
    hashes = []
    for source in program.slots:
        record = servers.record(tree.leaves[source.node])
        if source.output >= len(record.outputs):
            raise HashMismatch(f"node {source.node} has no output {source.output} in what was accepted")
        hashes.append(record.outputs[source.output])
    largest = max((slot.type.nbytes for slot in program.initial), default=0)
    servers.fetch_all([Name(Kind.TENSOR, tensor) for tensor in hashes], largest + MAX_HEADER_BYTES)
    arrays = [servers.store.get_tensor(tensor) for tensor in hashes]
    for number, (array, slot) in enumerate(zip(arrays, program.initial, strict=True)):
        if TensorType.of(array) != slot.type:
            raise HashMismatch(f"slot {number} is {TensorType.of(array)}, the program says {slot.type}")
    return arrays


def file_name(job: JobView) -> str:
    """Return the usual name of the file. NOTE: a result of another chain or root has another one."""
    return f"job-{job.id}-{job.accepted_root.hex()[:16]}.safetensors"


def save_result(arrays: Sequence[Array], names: Sequence[str], path: Path, job: JobView) -> None:
    """Write the slots as a safetensors file; the accepted root is in its metadata. Raises InvalidInput, DiskFailed."""
    if len(set(names)) != len(arrays):
        raise InvalidInput(
            f"{len(set(names))} different names for {len(arrays)} slots; leave out --bundle for names by number"
        )
    metadata = {"job": str(job.id), "root": job.accepted_root.hex(), "last": job.accepted_last.hex()}
    save_tensors(dict(zip(names, arrays, strict=True)), path, metadata)
