"""`assay backup` and `assay restore`: a data directory in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import ACCOUNT, out, with_settings

if TYPE_CHECKING:
    from ..settings.settings import Settings


@with_settings(ACCOUNT)
def backup_command(
    settings: Settings,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the backup.")],
    with_key: Annotated[bool, typer.Option("--with-key", help="Put the encrypted key into it, too.")] = False,
    with_artifacts: Annotated[
        bool, typer.Option("--with-artifacts", help="Put all artifacts into it: it may become large.")
    ] = False,
) -> None:
    """Copy a node's database, consistently, while the node runs."""
    from ..operate import backup

    key = settings.keystore_path if with_key else None
    made = backup.back_up(settings.data_dir, to, key=key, artifacts=with_artifacts)
    out.print(f"{to}: {len(made.files)} files of {settings.data_dir}, {to.stat().st_size:,} bytes")
    if not with_key:
        out.print("[dim]without the key: keep that and its password elsewhere[/dim]")


@with_settings(ACCOUNT)
def restore_command(
    settings: Settings,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Backup, from `assay backup`.")],
) -> None:
    """Make a data directory from a backup. First stop the node that it was taken from, for good."""
    from ..operate import backup
    from ..storage.process import exclusive

    with exclusive(settings.data_dir / "lock", f"data directory {settings.data_dir}"):
        made = backup.restore(source, settings.data_dir)
    when = datetime.fromtimestamp(made.made, UTC).isoformat(timespec="seconds")
    out.print(f"{settings.data_dir}: {len(made.files)} files of {when}")
    if backup.KEY not in made.files:
        out.print(f"[dim]put the key at {settings.keystore_path} before you start the node[/dim]")
