"""`assay artifacts`: serve the content of the store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import SERVE, out, with_settings

if TYPE_CHECKING:
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.command()
@with_settings(SERVE)
def serve(
    settings: Settings,
    store: Annotated[
        Path | None, typer.Option(help="Folder of the store; <data dir>/artifacts if not given.")
    ] = None,
) -> None:
    """Serve the store over HTTP until interrupted. Needs no key and no chain."""
    from ..network.artifact_server import ArtifactServer
    from ..observe.metrics import Metrics
    from ..storage.process import stop_on_signals
    from ..storage.store import Store

    folder = store or settings.data_dir / "artifacts"
    served = Store(folder, max_bytes=settings.limits.artifact_bytes)
    stop = threading.Event()
    with (
        stop_on_signals(stop),
        ArtifactServer(served, settings.host, settings.port, registry=Metrics().registry) as server,
    ):
        out.print(f"{server.uri}  [dim]{folder}[/dim]", soft_wrap=True)
        stop.wait()
