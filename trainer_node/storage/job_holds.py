"""Artifacts by the jobs that hold them, so that they can be deleted when the job is over.

    <store>/jobs/<number>        "b 1764043580" (when it began), then a line for each artifact:
                                 "w tensor/a0/a0...95" (work) or "r tree/..." (result)
    <store>/jobs/<number>.over   the same, once the job is over; the file's time says since when

*Work* is what a job needs while it lasts: its package, its states, trees, records and logs. The *result* is what proves
and shows the final state, which the client fetches afterwards.

A line is written before its artifact is, without waiting for the disk. After a crash an artifact may lack its line, or
a line its artifact: the first is kept as long as any job of ours that is older than it (`retention`), the second does
no harm.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from .disk import disk_errors

WORK, RESULT = "w", "r"
_BEGAN, _OVER, _NEW = "b", ".over", ".new"


class Holders:
    """The jobs that hold artifacts of the store in ``root``. Safe for several threads of one process."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "jobs"
        self._lock = threading.RLock()
        self._known: dict[int, set[str]] = {}
        """By job: its lines, as this process has read or written them."""

    def hold(self, job: int, paths: Iterable[str], stage: str = WORK) -> None:
        """Add artifacts, as paths below the store's folder, to a job. Raises DiskFailed."""
        with self._lock:
            known = self._lines(job)
            new = [line for line in (f"{stage} {path}" for path in paths) if line not in known]
            if not new:
                return
            path = self._path(job)
            with disk_errors(path):
                self.folder.mkdir(parents=True, exist_ok=True)
                with path.open("ab+") as file:
                    # NOTE: a line that was torn by a crash, or by a full disk, must not swallow the next one.
                    first = "" if file.tell() else f"{_BEGAN} {int(time.time())}\n"
                    if file.tell():
                        file.seek(-1, os.SEEK_END)
                        first = "" if file.read(1) == b"\n" else "\n"
                    file.write((first + "".join(f"{line}\n" for line in new)).encode())
            known.update(new)

    def holds(self, job: int, path: str, stage: str = WORK) -> bool:
        """Return whether a job holds an artifact."""
        with self._lock:
            return f"{stage} {path}" in self._lines(job)

    def end(self, job: int) -> None:
        """Note that a job is over; only the first time counts."""
        with self._lock, contextlib.suppress(OSError):
            live = self.folder / str(job)
            if live.exists():
                live.rename(over := live.with_name(f"{job}{_OVER}"))
                over.touch()

    def revive(self, job: int) -> None:
        """Note that a job is open again: a reorganisation has brought it back."""
        with self._lock, contextlib.suppress(OSError):
            over = self.folder / f"{job}{_OVER}"
            if over.exists():
                over.rename(self.folder / str(job))

    def release(self, job: int) -> None:
        """Let go of all artifacts of a job."""
        with self._lock:
            self._known.pop(job, None)
            for name in (str(job), f"{job}{_OVER}"):
                (self.folder / name).unlink(missing_ok=True)

    def drop(self, job: int, paths: Collection[str]) -> None:
        """Let go of some artifacts of a job that is not over. Raises DiskFailed; then the job holds them still."""
        with self._lock:
            live = self.folder / str(job)
            if not live.exists():
                return
            with disk_errors(live):
                first, *lines = live.read_text(errors="replace").splitlines(keepends=True)
                left = [line for line in lines if line.rstrip("\n").partition(" ")[2] not in paths]
                new = live.with_name(f"{job}{_NEW}")
                try:
                    new.write_text("".join((first, *left)))
                    new.replace(live)
                finally:
                    new.unlink(missing_ok=True)
            self._known.pop(job, None)

    def jobs(self) -> dict[int, float | None]:
        """Return the jobs in ascending order, and since when they are over (seconds since 1970); None: open."""
        found = dict[int, float | None]()
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            number, _, rest = path.name.partition(".")
            if number.isdecimal() and rest in ("", _OVER[1:]):
                with contextlib.suppress(FileNotFoundError):
                    found[int(number)] = path.stat().st_mtime if rest else None
        return dict(sorted(found.items()))

    def began(self, job: int) -> float:
        """Return when the job first held something, in seconds since 1970; now, if that is unknown."""
        with contextlib.suppress(OSError, ValueError), self._path(job).open() as file:
            mark, _, seconds = file.readline().partition(" ")
            if mark == _BEGAN:
                return float(seconds)
        return time.time()

    def held(self, job: int) -> Iterator[tuple[str, str]]:
        """Yield the stage and the path of each artifact of a job, oldest first. A torn last line is left out."""
        with contextlib.suppress(FileNotFoundError), self._path(job).open("rb") as file:
            yield from filter(None, map(_artifact, file))

    def lines_after(self, job: int, offset: int) -> tuple[list[tuple[str, str]], int]:
        """Return what `held` yields from a place in the job's file on, and the place where the next line begins."""
        found = list[tuple[str, str]]()
        with contextlib.suppress(FileNotFoundError), self._path(job).open("rb") as file:
            file.seek(offset)
            for line in file:
                if line.endswith(b"\n"):
                    offset += len(line)
                if (artifact := _artifact(line)) is not None:
                    found.append(artifact)
        return found, offset

    def forget_known(self, job: int) -> None:
        """Free the memory that a job's lines take."""
        with self._lock:
            self._known.pop(job, None)

    def _path(self, job: int) -> Path:
        over = self.folder / f"{job}{_OVER}"
        return over if over.exists() else self.folder / str(job)

    def _lines(self, job: int) -> set[str]:
        if job not in self._known:
            self._known[job] = {f"{stage} {name}" for stage, name in self.held(job)}
        return self._known[job]


def _artifact(line: bytes) -> tuple[str, str] | None:
    """Return the stage and the path that a line names; None for the first line, and for a torn one."""
    stage, _, name = line.decode(errors="replace").partition(" ")
    return (stage, name[:-1]) if stage in (WORK, RESULT) and len(name) > 1 and name.endswith("\n") else None
