"""Disks that are small and full: a real file system in memory where one may be mounted, or errors at write points."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from trainer_node.storage.database import Database


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a file system of ``size`` bytes at ``folder``. Skips the test, with the reason, where that is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs the command mount")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Filler:
    """A foreign file that takes what is left of a disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "somebody-elses.log"

    def fill(self) -> None:
        """Take all space, to the last block."""
        with contextlib.suppress(OSError), self.path.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Give it back."""
        self.path.unlink(missing_ok=True)


class Refusal:
    """Makes the writes of this process fail as on a full disk, from the ``after``-th on, until `end`.

    Files fail where they are created, the database where it needs new pages. For machines that mount nothing.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, database: Database | None = None) -> None:
        self.after, self.seen, self.full = after, 0, True
        real = tempfile.NamedTemporaryFile

        def create(*given: Any, **named: Any) -> Any:
            self.seen += 1
            if self.refuses:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*given, **named)

        monkeypatch.setattr(tempfile, "NamedTemporaryFile", create)
        if database is not None:

            @event.listens_for(database._engine, "begin")
            def limit(connection: Any) -> None:
                self.seen += 1
                pages = 1 if self.refuses else 1 << 30  # SQLite takes a limit below its size as its size
                connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    @property
    def refuses(self) -> bool:
        """Whether the next write fails."""
        return self.full and self.seen > self.after

    def end(self) -> None:
        """Let all writes succeed from now on."""
        self.full = False
