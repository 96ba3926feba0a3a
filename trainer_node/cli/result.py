"""`assay job result` and `assay job certificate`: the trained state of an accepted job, and what is known of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from referee_py.errors import InvalidInput

from .arithmetic import mode_words
from .common import (
    ACCOUNT,
    CHAIN,
    HuggingFaceOption,
    JobNumber,
    JsonOption,
    OptimizerStateOption,
    out,
    plain,
    reader,
    show_json,
    with_settings,
)
from .extensions import exporter
from .job_page import job_row

if TYPE_CHECKING:
    from ..chain import Deployment, JobView, Snapshot
    from ..local.bundle import Bundle
    from ..settings.settings import Settings


@with_settings(CHAIN, quiet=True)
def result(
    settings: Settings,
    job: JobNumber,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Where to write the trained state, as safetensors. If neither this nor --hf is given: "
            "job-<number>-<root>.safetensors.",
            show_default=False,
        ),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="The job's bundle: its labels name the tensors.")
    ] = None,
    hf: HuggingFaceOption = None,
    optimizer_state: OptimizerStateOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch the trained state of an accepted job, proven against the accepted root, and say so in one line.

    With --json the line also has what was checked, by whom, and what nobody has checked.
    """
    from ..client.result import accepted_group, confirmed, fetch_result, file_name, save_result
    from ..local.bundle import Bundle
    from ..local.provenance import accepted_result, owners_of
    from ..network.fetcher import Fetcher
    from ..network.sources import Served
    from ..run.package import load_program
    from ..storage.store import Store

    if hf is not None and bundle is None:
        raise InvalidInput("--hf needs the job's --bundle: the chain does not know names and configuration")
    client = reader(settings)
    snapshot = client.snapshot()
    found = snapshot.job(job)
    accepted_group(found)
    matches, watchers = len(snapshot.matches_of(job)), snapshot.pool(found).watchers
    confirmed(snapshot)
    limits = settings.limits
    store = Store(settings.data_dir / "artifacts", max_bytes=limits.artifact_bytes)
    fetcher = Fetcher(store, timeout_s=limits.fetch_timeout_s, min_rate=limits.fetch_rate)
    content = None if bundle is None else Bundle.read_of(bundle, {f"job {job}": found.program_file.hex()})
    if hf is not None and content is not None:
        exporter().check_export(content, hf)
    if content is None:
        servers = Served(fetcher, found.servers(client=True))
        program = load_program(servers, found.program, found.program_file)
        names = [f"slot.{number}" for number in range(len(program.slots))]
    else:
        program, names = content.program, list(content.names.slots)
    arrays = fetch_result(fetcher, found, program)
    if file is None and hf is None:
        file = Path(file_name(found))
    if file is not None:
        save_result(arrays, names, file, found)
    deployment, mode = client.deployment, mode_words(found.program.mode)
    known = accepted_result(mode, found, deployment.chain_id, deployment.jobs, matches, watchers)
    files: list[str] = []
    if hf is not None and content is not None:
        known = replace(known, certificate=_certified(snapshot, deployment, found, content))
        files = exporter().export(
            replace(content, terms=found.program), arrays, hf, known, optimizer_state=optimizer_state
        )
    places = [str(place) for place in (file, hf) if place is not None]
    if as_json:
        types = {name: str(slot.type) for name, slot in zip(names, program.initial, strict=True)}
        told = {
            "accepted_last": found.accepted_last.hex(),
            "mode": mode,
            "chain_id": deployment.chain_id,
            "contract": deployment.jobs,
            "claimed_by": owners_of(found),
            "matches": matches,
            "watchers": watchers,
            "written": places,
            "files": files,
            "tensors": types,
            "checked": list(known.checked),
            "unknown": list(known.unknown),
        }
        show_json({**job_row(found), **told})
        return
    proven = f"{len(names)} tensors, proven by the accepted root {found.accepted_root.hex()} of job {job}"
    behind = f"accounts behind it: {len(owners_of(found))}, other roots: {len(found.groups) - 1}, matches: {matches}"
    out.print(f"{escape(plain(' and '.join(places)))}  [dim]{proven}; {behind}[/dim]", soft_wrap=True)


def _certified(snapshot: Snapshot, deployment: Deployment, job: JobView, content: Bundle) -> str:
    """Return what the job's certificate says. NOTE: a result is worth having without one."""
    from ..client.job_certificate import certificate_of
    from ..client.result import confirmed
    from ..errors import ChainError

    try:
        found = certificate_of(snapshot, deployment, job, content).sentence()
        confirmed(snapshot)
    except (ChainError, InvalidInput) as error:
        return f"None could be made when this was written ({type(error).__name__}): `assay job certificate {job.id}`."
    return f"{found[0].upper()}{found[1:]} `assay job certificate {job.id}` makes it again."


@with_settings({**CHAIN, **{name: ACCOUNT[name] for name in ("keystore", "password_file")}}, quiet=True)
def certificate(
    settings: Settings,
    job: JobNumber,
    bundle: Annotated[
        Path | None, typer.Option(help="The job's bundle: its labels name the tensors.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for certificate.json and badge.svg.")] = Path(
        "certificate"
    ),
) -> None:
    """Write what the chain says of an accepted job as a certificate: an in-toto statement, and a badge for a README.

    With --keystore also in an envelope that the key signs.
    """
    from ..client.job_certificate import certificate_of
    from ..client.result import confirmed
    from ..daemon.keys import load_account
    from ..local.bundle import Bundle

    account = None if settings.keystore is None else load_account(settings)
    client = reader(settings)
    snapshot = client.snapshot()
    view = snapshot.job(job)
    content = None if bundle is None else Bundle.read_of(bundle, {f"job {job}": view.program_file.hex()})
    found = certificate_of(snapshot, client.deployment, view, content)
    confirmed(snapshot)
    files = found.write(to, account)
    out.print(escape(f"{found.summary}; written to {', '.join(map(str, files))}"), soft_wrap=True)
