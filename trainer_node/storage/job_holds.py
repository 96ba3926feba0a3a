"""Artifacts by the jobs that hold them, so that they can be deleted when the job is over.

    <store>/jobs/<number>        "b 1764043580" (when it began), then a line for each artifact:
                                 "w tensor/a0/a0...95" (work), "r tree/..." (result) or "d ..." (drawn)
    <store>/jobs/<number>.over   the same, once the job is over; the file's time says since when

*Work* is what a job needs while it lasts: its package, its states, trees, records and logs. The *result* is what proves
and shows the final state, which the client fetches afterwards. What is *drawn* was fetched to check what others claim:
it is work of which nothing rests on anything, unless it is found wrong (`drawn.rests_on`).

A line is written before its artifact is, without waiting for the disk. After a crash an artifact may lack its line, or
a line its artifact: the first is kept as long as any job of ours that is older than it and no list names it
(`retention`), and is held again when the job uses it; the second does no harm.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .disk import disk_errors

WORK, RESULT, DRAWN = "w", "r", "d"
_BEGAN, _OVER = "b", ".over"


class Holders:
    """The jobs that hold artifacts of the store in ``root``. Safe for several threads of one process."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "jobs"
        self.lock = threading.RLock()
        """Held while a list changes. INVARIANT: whether a job may let go of what it holds changes under it, too
        (`at_rest`), so that what is decided under it is still so when the lines are gone."""
        self.leaving = Counter[int]()
        """Jobs of which some files are about to go, while what is known of their states may not say so yet; by how many
        at once."""
        self.untold: set[int] = set()
        """Jobs of which files have gone, where the database could not be told."""
        self.in_use = Counter[tuple[int, str]]()
        """Jobs and paths of what was drawn that must not go (`drawn`)."""
        self.rewritten = Counter[int]()
        """By job: how often its list has been rewritten. What was read of it before is another one's."""
        self._known: dict[int, set[str]] = {}
        """By job: its lines, as this process has read or written them."""

    def hold(self, job: int, paths: Iterable[str], stage: str = WORK) -> None:
        """Add artifacts, as paths below the store's folder, to a job. Raises DiskFailed.

        NOTE: those that are here are used just now, so that none goes for which it was not known yet that it is held.
        """
        with self.lock:
            known = self._lines(job)
            new = [line for line in (f"{stage} {path}" for path in paths) if line not in known]
            if stage == DRAWN:
                new = [line for line in new if WORK + line[1:] not in known]
            if not new:
                return
            path = self._path(job)
            for line in new:
                with contextlib.suppress(OSError):
                    os.utime(self.folder.parent / line.partition(" ")[2])
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
        with self.lock:
            return f"{stage} {path}" in self._lines(job)

    def lists(self, job: int) -> bool:
        """Return whether a job has a list, as long as it holds something."""
        return self._path(job).exists()

    def end(self, job: int) -> None:
        """Note that a job is over; only the first time counts."""
        with self.lock, contextlib.suppress(OSError):
            live = self.folder / str(job)
            if live.exists():
                live.rename(over := live.with_name(f"{job}{_OVER}"))
                over.touch()

    def revive(self, job: int) -> None:
        """Note that a job is open again: a reorganisation has brought it back."""
        with self.lock, contextlib.suppress(OSError):
            over = self.folder / f"{job}{_OVER}"
            if over.exists():
                over.rename(self.folder / str(job))

    def release(self, job: int) -> None:
        """Let go of all artifacts of a job."""
        with self.lock:
            self._known.pop(job, None)
            self.rewritten[job] += 1
            for name in (str(job), f"{job}{_OVER}"):
                (self.folder / name).unlink(missing_ok=True)

    def let_go(self, job: int, goes: Callable[[str, str], bool]) -> list[str]:
        """Drop the lines of a job whose stage and path ``goes`` says yes to; return the path of each. A job that holds
        nothing more has no list. Raises DiskFailed; then the job holds them still.

        NOTE: a full disk has no room for a second list, so this one is written over, which makes it shorter. What a
        crash leaves has each line that stays, but for the one that it was about to write at most.
        """
        with self.lock, contextlib.suppress(FileNotFoundError):
            path, gone, left = self._path(job), list[str](), list[bytes]()
            with disk_errors(path), path.open("rb+") as file:
                since = os.fstat(file.fileno())
                lines = file.read().splitlines(keepends=True)
                for line in lines[1:]:
                    artifact = _artifact(line)
                    if artifact is not None and goes(*artifact):
                        gone.append(artifact[1])
                    else:
                        left.append(line)
                if gone and left:
                    file.seek(0)
                    file.write(b"".join((lines[0], *left)))
                    file.truncate()
                    file.flush()
                    os.utime(file.fileno(), ns=(since.st_atime_ns, since.st_mtime_ns))  # when it was over
            if gone and left:
                self._known.pop(job, None)
                self.rewritten[job] += 1
            elif not left:
                self.release(job)
            return gone
        return []

    def jobs(self) -> dict[int, float | None]:
        """Return the jobs in ascending order, and since when they are over (seconds since 1970); None: open."""
        found = dict[int, float | None]()
        with self.lock:  # NOTE: else a list that is renamed meanwhile may be seen under neither name
            for path in self.folder.iterdir() if self.folder.is_dir() else ():
                number, _, rest = path.name.partition(".")
                if number.isdecimal() and rest in ("", _OVER[1:]):
                    with contextlib.suppress(FileNotFoundError):
                        found[int(number)] = path.stat().st_mtime if rest else None
        return dict(sorted(found.items()))

    def over(self, job: int) -> float | None:
        """Return since when a job is over (seconds since 1970); None for one that is open, or holds nothing."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / f"{job}{_OVER}").stat().st_mtime
        return None

    def began(self, job: int) -> float:
        """Return when the job first held something, in seconds since 1970; now, if that is unknown."""
        with contextlib.suppress(OSError, ValueError), self._path(job).open() as file:
            mark, _, seconds = file.readline().partition(" ")
            if mark == _BEGAN:
                return float(seconds)
        return time.time()

    def held(self, job: int) -> Iterator[tuple[str, str]]:
        """Yield the stage and the path of each artifact of a job, oldest first. A torn last line is left out."""
        yield from self.lines_after(job, 0)[0]

    def lines_after(self, job: int, offset: int) -> tuple[list[tuple[str, str]], int]:
        """Return what `held` yields from a place in the job's file on, and the place where the next line begins."""
        found, text = list[tuple[str, str]](), b""
        with self.lock, contextlib.suppress(FileNotFoundError), self._path(job).open("rb") as file:
            file.seek(offset)
            text = file.read()
        # NOTE: without the lock, since the loop waits for it, and a job may hold a million files.
        for line in io.BytesIO(text):
            if line.endswith(b"\n"):
                offset += len(line)
            if (artifact := _artifact(line)) is not None:
                found.append(artifact)
        return found, offset

    def forget_known(self, job: int) -> None:
        """Free the memory that a job's lines take."""
        with self.lock:
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
    return (
        (stage, name[:-1])
        if stage in (WORK, RESULT, DRAWN) and len(name) > 1 and name.endswith("\n")
        else None
    )
