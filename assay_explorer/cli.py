"""`assay explorer`: web pages over the chain and over published runs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from referee_py.errors import InvalidInput
from trainer_node.bundle import Bundle
from trainer_node.cli.common import CHAIN, out, with_settings
from trainer_node.cli.default_command import DefaultCommand
from trainer_node.config import Settings
from trainer_node.fetch import Fetcher
from trainer_node.process import exclusive
from trainer_node.service import open_client
from trainer_node.store import Store

from .chain import Chain, IndexedClient
from .index import Index
from .pages import Pages
from .web import create_app

DEFAULT_PORT = 8722
FETCH_TIMEOUT_S, FETCH_BUDGET_S = 5.0, 60.0
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})

Bundles = Annotated[
    list[Path] | None,
    typer.Option("--bundle", help="Bundle whose labels name the operators of its jobs. Repeatable."),
]


@contextlib.contextmanager
def opened(
    settings: Settings, bundles: list[Path] | None, hosts: frozenset[str] = frozenset()
) -> Iterator[tuple[Chain, Pages]]:
    """Open the index and what the pages need."""
    folder = settings.data_dir / "explorer"
    folder.mkdir(parents=True, exist_ok=True)
    known = [Bundle.read(path) for path in bundles or []]
    with exclusive(folder / "lock", f"explorer folder {folder}"):
        daemon = open_client(settings)
        index = Index(folder / "index.sqlite3")
        client = IndexedClient(
            daemon.web3,
            daemon.deployment,
            confirmations=settings.confirmations,
            log_range=settings.limits.log_range,
            cache=index,
        )
        fetcher = Fetcher(
            Store(folder / "artifacts", sync=False),
            timeout_s=FETCH_TIMEOUT_S,
            attempts=1,
            budget_s=FETCH_BUDGET_S,
        )
        try:
            chain = Chain(client, index)
            yield chain, Pages(chain, fetcher, folder, bundles=known, hosts=hosts)
        finally:
            index.close()


@with_settings(CHAIN)
def serve(
    settings: Settings,
    bundle: Bundles = None,
    host: Annotated[str, typer.Option(help="Address that the pages are served at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port of the pages; 0 takes any free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
) -> None:
    """Serve pages about the chain's jobs and disputes, until told to stop. Needs no key."""
    hosts = LOCAL | {host} if host in LOCAL else frozenset()
    with opened(settings, bundle, hosts) as (chain, pages), _listening(host, port) as listening:
        chain.tick()
        out.print(f"http://{host}:{listening.getsockname()[1]}", soft_wrap=True)
        app = create_app(pages, chain.tick, max(settings.poll_s, 0.5))
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


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
