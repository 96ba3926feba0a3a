"""`assay store`: what the artifacts of a node take, what may go, and whether they are whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

from .common import CHAIN, out, reader, with_settings

if TYPE_CHECKING:
    from ..chain import JobView, Snapshot
    from ..play.open_duties import Undone
    from ..settings.settings import Settings
    from ..storage.database import Database
    from ..storage.store import Store

app = typer.Typer(no_args_is_help=True)
_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
@with_settings(CHAIN)
def du(settings: Settings, as_json: _JSON = False) -> None:
    """Show what the store takes on disk, by kind of artifact and by job."""
    from ..storage.disk import free_bytes
    from ..storage.job_holds import Holders
    from ..storage.retention import usage

    root = _root(settings)
    found, jobs = usage(root), Holders(root)
    by_job = {
        job: {
            "bytes": sum(_size(root / path) for _, path in jobs.held(job)),
            "over_since": over,
        }
        for job, over in jobs.jobs().items()
    }
    if as_json:
        shown = {"kinds": found.bytes, "files": found.files, "jobs": by_job, "free": free_bytes(root)}
        typer.echo(json.dumps(shown))
        return
    for kind in sorted(found.bytes):
        out.print(f"{kind:>10} {found.bytes[kind]:>18,} bytes {found.files[kind]:>10,} files")
    out.print(f"{'all':>10} {found.total:>18,} bytes {sum(found.files.values()):>10,} files")
    out.print(f"{'free':>10} {free_bytes(root):>18,} bytes")
    for job, held in by_job.items():
        state = "is open" if held["over_since"] is None else "is over"
        out.print(f"job {job:>6} {held['bytes']:>18,} bytes; it {state}")


@app.command()
@with_settings(CHAIN)
def gc(
    settings: Settings,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the chain which jobs have ended since.")
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Keep nothing of jobs that are over, not even their results.")
    ] = False,
) -> None:
    """Remove artifacts that no job needs any more. A running daemon does that by itself; this needs it stopped."""
    from ..daemon.service import policy
    from ..storage.database import Database
    from ..storage.process import exclusive
    from ..storage.retention import Retention
    from ..storage.store import Store

    root = _root(settings)
    with exclusive(settings.data_dir / "lock", f"data directory {settings.data_dir}"):
        store = Store(root, max_bytes=settings.limits.artifact_bytes)
        path = settings.data_dir / "node.sqlite3"
        database = Database(path) if path.exists() else None
        try:
            if not offline:
                _ask(settings, store, database)
            retention = Retention(store, database, policy(settings))
            swept = retention.urgent(frozenset(), lambda: False) if now else retention.collect()
            if database is not None:
                database.fold()
        finally:
            if database is not None:
                database.close()
    out.print(
        f"{swept.freed:,} bytes in {swept.removed:,} files are gone; {swept.left.total:,} bytes are left"
    )


@app.command()
@with_settings(CHAIN)
def verify(
    settings: Settings,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what is damaged: it is computed or fetched again.")
    ] = False,
) -> None:
    """Read every artifact, and the database, and check them against their names. Ends with 1 if some are damaged."""
    from ..storage.database import Database
    from ..storage.store import Store
    from ..storage.store_files import made
    from ..storage.verify import verify_files

    root = _root(settings)
    store = Store(root, max_bytes=settings.limits.artifact_bytes)
    damaged = count = gone = 0
    for path, reason in verify_files(store):
        count += 1
        if reason is None:
            continue
        damaged += 1
        out.print(f"{path.relative_to(root)}: {reason}", markup=False, soft_wrap=True)
        if remove and made(root, path):
            gone += store.remove(path) > 0
    for name in ("node.sqlite3", "outbox.sqlite3"):
        if (settings.data_dir / name).exists():
            database = Database(settings.data_dir / name)
            for reason in database.check():
                damaged += 1
                out.print(f"{name}: {reason}", markup=False, soft_wrap=True)
            database.close()
    out.print(f"{count:,} artifacts, {damaged:,} damaged" + (f", {gone:,} removed" if remove else ""))
    if damaged:
        raise typer.Exit(1)


def _root(settings: Settings) -> Path:
    root = settings.data_dir / "artifacts"
    if not root.is_dir():
        raise InvalidInput(f"{root} is not a store: name a node's data directory with --data-dir")
    return root


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _ask(settings: Settings, store: Store, database: Database | None) -> None:
    """Note which jobs have ended on the chain, with their hearings: a client's store has nobody who would."""
    from ..play.open_duties import Undone
    from ..storage.database import Database

    going_on = [job for job, over in store.holders.jobs().items() if over is None]
    if not going_on:
        return
    snapshot = reader(settings).snapshot()
    undone = Undone(database or Database(None), str(snapshot.contracts.referee.address))
    for job in going_on:
        if job > snapshot.job_count() or is_over(snapshot, snapshot.job(job, told=False), undone):
            store.holders.end(job)


def is_over(snapshot: Snapshot, job: JobView, undone: Undone) -> bool:
    """Return whether a job has ended with its hearings. SAFETY: a hearing may outlast its job, and a verifier's bond
    rests on what the job holds."""
    return job.phase.ended and not any(undone.hearings(snapshot, job)) and not undone.of(job.id)
