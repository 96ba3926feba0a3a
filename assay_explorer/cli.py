"""`assay explorer`: web pages over the chain and over published runs."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from referee_py.errors import InvalidInput
from trainer_node.cli.common import CHAIN, JobNumber, out, plain, with_settings
from trainer_node.cli.default_command import DefaultCommand

from .shown_commands import LOCAL, chain_flags

if TYPE_CHECKING:
    from trainer_node.settings.settings import Settings

    from .chain import Chain
    from .pages import Pages

DEFAULT_PORT = 8722
DIFFERS, UNCHECKED = 1, 4
"""Exit codes of a check, as those of an audit."""
FETCH_TIMEOUT_S, FETCH_BUDGET_S = 5.0, 60.0

Bundles = Annotated[
    list[Path] | None,
    typer.Option("--bundle", help="Bundle whose labels name the operators of its jobs. Repeatable."),
]


MatchId = Annotated[
    str | None, typer.Argument(help="Id of the match, or the beginning of it; the first if not given.")
]


@contextlib.contextmanager
def opened(settings: Settings, bundles: list[Path] | None, **options: Any) -> Iterator[tuple[Chain, Pages]]:
    """Open the index and what the pages need. ``options`` are those of `Pages`."""
    from trainer_node.daemon.access import open_client
    from trainer_node.local.bundle import Bundle
    from trainer_node.network.fetcher import Fetcher
    from trainer_node.storage.process import exclusive
    from trainer_node.storage.store import Store

    from .chain import Chain, IndexedClient
    from .index import Index
    from .pages import Pages

    folder = settings.data_dir / "explorer"
    folder.mkdir(parents=True, exist_ok=True)
    known = [Bundle.read(path) for path in bundles or []]
    remedy = "or name another folder with --data-dir: what it needs of the chain is read again"
    with exclusive(folder / "lock", f"explorer folder {folder}", remedy):
        daemon = open_client(settings)
        index = Index(folder / "index.sqlite3")
        try:
            client = IndexedClient(
                daemon.web3,
                daemon.deployment,
                policy=settings.view_policy,
                log_range=settings.limits.log_range,
                cache=index,
            )
            fetcher = Fetcher(
                Store(folder / "artifacts", sync=False),
                timeout_s=FETCH_TIMEOUT_S,
                attempts=1,
                budget_s=FETCH_BUDGET_S,
            )
            chain = Chain(client, index)
            chain.tick()
            yield chain, Pages(chain, fetcher, folder, bundles=known, flags=chain_flags(settings), **options)
        finally:
            index.close()


@with_settings(CHAIN)
def serve(
    settings: Settings,
    bundle: Bundles = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Show a published run, a folder or an address (http, https, s3), in place of a chain."
        ),
    ] = None,
    receipts: Annotated[
        list[Path] | None, typer.Option(help="With --run: a folder of receipts, or one. Repeatable.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="With --run: another run, a claim.json or a bundle, to compare it with."),
    ] = None,
    trainer: Annotated[
        list[str] | None,
        typer.Option(help="Server (URI) of a trainer that no earlier claim reveals. Repeatable."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address that the pages are served at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port of the pages; 0 takes any free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
) -> None:
    """Serve pages about the chain's jobs and disputes, or about a published run, until told to stop. Needs no key."""
    import uvicorn

    from trainer_node.local.bundle import Bundle

    from .published import RunPages
    from .unfinished import UnfinishedPages, has_begun
    from .web import create_app

    hosts = LOCAL if host in LOCAL else frozenset()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(_listening(host, port))
        if run is not None:
            cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-explorer-")))
            known = [Bundle.read(path) for path in bundle or []]
            options: Any = {"bundles": known, "receipts": receipts or (), "against": against, "hosts": hosts}
            make = partial(RunPages, run, cache, **options)
            app = create_app(UnfinishedPages(run, make, hosts) if has_begun(run) else make())
        elif receipts or against:
            flag = "--receipts are" if receipts else "--against is"
            raise InvalidInput(f"{flag} about a published run; add --run")
        else:
            chain, pages = stack.enter_context(opened(settings, bundle, hosts=hosts, trainers=trainer or ()))
            app = create_app(pages, chain.tick, max(settings.poll_s, 0.5))
        out.print(f"http://{host}:{listening.getsockname()[1]}", soft_wrap=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


@with_settings(CHAIN)
def export_command(
    settings: Settings,
    folder: Annotated[Path, typer.Argument(help="Folder to write, new or empty.")],
    job: JobNumber,
    match: MatchId = None,
    bundle: Bundles = None,
) -> None:
    """Write a static copy of one dispute, which a browser opens without a server."""
    from .export import export
    from .rendering import NotThere, Place

    with opened(settings, bundle, place=Place(static=True)) as (_, pages):
        try:
            written = export(pages, job, match or pages.first_match(job), folder)
        except NotThere as error:
            raise InvalidInput(str(error)) from error
    out.print(f"{len(written)} pages; open {written[0]}", soft_wrap=True)


@with_settings(CHAIN)
def check(settings: Settings, job: JobNumber, match: MatchId = None) -> None:
    """Check a dispute again: its moves by the rules in Python, and its operator from the artifacts.

    Exit codes: 0 all agrees; 1 something does not; 4 nothing disagrees, and something could not be checked.
    """
    from .rendering import NotThere

    with opened(settings, None) as (_, pages):
        try:
            found = pages.check(job, match or pages.first_match(job))
        except NotThere as error:
            raise InvalidInput(str(error)) from error
    for said, holds in found:
        mark = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "[yellow]?[/yellow]"}[holds]
        out.print(f"{mark} {escape(plain(said))}", soft_wrap=True)
    outcomes = [holds for _, holds in found]
    if False in outcomes:
        raise typer.Exit(DIFFERS)
    if None in outcomes:
        raise typer.Exit(UNCHECKED)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise InvalidInput(f"{host}:{port} cannot be listened at: {error.strerror}; choose --port") from error
    with listening:
        yield listening


app = typer.Typer(cls=DefaultCommand, no_args_is_help=False)
app.command("serve")(serve)
app.command("export")(export_command)
app.command("check")(check)
