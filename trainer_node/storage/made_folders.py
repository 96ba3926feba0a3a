"""Folders that our commands make again each time, and what in them is ours to remove.

    emptied    a command begins: what it made before goes, what anybody else put there stays
    closed     it is done: all that it has made below its names is noted in the mark, a file in the folder
    removed    the same as emptied, and the folder goes, too, if nothing is left in it

The mark says which command made the folder, the names that it makes in it, and each file below them with its size and
time. INVARIANT: nothing of ours removes a file, except one that a mark names and that has not changed since, an
artifact under its own hash (`store`), or what lies in a folder of the system for temporary files. A folder without the
mark is somebody else's, whatever its name and its contents are.

What lies below a command's names and was not noted, because the command was killed or somebody put it there, is moved
aside, to a folder next to it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from referee_py.errors import InvalidInput

from .untrusted_file import write_plain

MARK = ".made-by-assay"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Noted:
    """Content of a mark: the names that a command makes in the folder, and its files with size and time (ns)."""

    names: tuple[str, ...] = ()
    files: tuple[tuple[str, int, int], ...] = ()


def made(folder: Path, by: str) -> bool:
    """Return whether this command of ours has made the folder. A link is not a folder that we have made."""
    return _read(folder, by) is not None


def check(folder: Path, by: str) -> None:
    """Raise InvalidInput for a folder that `emptied` would refuse."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InvalidInput(f"{folder} is not a folder; move it away, or name another folder")
    if folder.exists() and not made(folder, by) and (held := sorted(folder.iterdir())):
        raise InvalidInput(
            f"{folder} was not made by `{by}` and holds {held[0].name!r}, so it is not emptied; move it away, or name "
            "another folder"
        )


def emptied(folder: Path, by: str, names: Collection[str] = ()) -> Path:
    """Return a folder for a command of ours that makes these ``names`` in it: none of them is there. What the command
    made before is gone, and what is not ours is still there, or beside the folder.

    Raises InvalidInput for a folder of anybody else that is not empty.
    """
    check(folder, by)
    folder.mkdir(parents=True, exist_ok=True)
    noted = _read(folder, by) or _Noted()
    # NOTE: the mark is there before anything else, and until all else is gone: a stop in between leaves it ours.
    _write(folder, by, _Noted(tuple({*noted.names, *names}), noted.files))
    _remove(folder, noted)
    left = [path for name in {*noted.names, *names} if _is_there(path := folder / name)]
    if left:
        _move_aside(folder, left)
    _write(folder, by, _Noted(tuple(names)))
    return folder


def mark(folder: Path, by: str) -> None:
    """Write into a folder which command of ours makes it."""
    if not made(folder, by):
        _write(folder, by, _Noted())


def closed(folder: Path, by: str) -> None:
    """Note what the command has made, below its names. It makes nothing more."""
    noted = _read(folder, by)
    if noted is not None:
        files = tuple(
            (str(path.relative_to(folder)), *_identity(path))
            for name in noted.names
            for path in _below(folder / name)
        )
        _write(folder, by, _Noted(noted.names, files))


def removed(folder: Path, by: str) -> None:
    """Remove what this command of ours has made, and the folder if nothing else is in it. Raises InvalidInput for a
    folder that it has not made."""
    if folder.exists() or folder.is_symlink():
        emptied(folder, by)
        if [path.name for path in folder.iterdir()] == [MARK]:
            (folder / MARK).unlink()
            folder.rmdir()


def set_aside(folder: Path) -> Path:
    """Rename a folder of anybody, in the same place; return the new name. Nothing of it is lost."""
    aside = _aside(folder)
    folder.rename(aside)
    _tell(folder, aside, [])
    return aside


# ---------------------------------------------------------------------- inside


def _read(folder: Path, by: str) -> _Noted | None:
    """Return what the mark of this command says; None if the folder is not its own."""
    mark = folder / MARK
    try:
        if folder.is_symlink() or mark.is_symlink():
            return None
        first, _, rest = mark.read_text().partition("\n")
        if first != by or not mark.read_text().endswith("\n"):
            return None
        said: dict[str, Any] = json.loads(rest) if rest else {}
        names = tuple(str(name) for name in said.get("names", ()))
        if any(Path(name).name != name or name in ("", "..", MARK) for name in names):
            return None
        return _Noted(
            names, tuple((str(path), int(size), int(at)) for path, size, at in said.get("files", ()))
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write(folder: Path, by: str, noted: _Noted) -> None:
    said = json.dumps({"names": sorted(noted.names), "files": noted.files})
    write_plain(folder / MARK, f"{by}\n{said}\n")


def _remove(folder: Path, noted: _Noted) -> None:
    """Remove the noted files that are as they were, and folders below the command's names that are empty then."""
    root = folder.resolve()
    for name, size, at in noted.files:
        path = folder / name
        # SAFETY: a link that somebody has put in the way leads to files of others.
        if path.parent.resolve().is_relative_to(root) and _is_there(path) and _identity(path) == (size, at):
            path.unlink()
    for name in noted.names:
        for path in sorted(_below(folder / name, folders=True), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()


def _aside(folder: Path) -> Path:
    """Return an unused name in the same place as a folder."""
    names = (folder.with_name(f"{folder.name}.left-{number}") for number in itertools.count(1))
    return next(path for path in names if not _is_there(path))


def _move_aside(folder: Path, left: list[Path]) -> None:
    aside = _aside(folder)
    aside.mkdir()
    for path in left:
        path.rename(aside / path.name)
    _tell(folder, aside, [path.name for path in left])


def _tell(folder: Path, aside: Path, names: list[str]) -> None:
    """Say where something is now, and that nothing of ours looks for it there."""
    advice = f"nothing reads {aside} any more, nor removes it: look whether it holds something of yours, and delete it"
    _log.warning("folder.moved_aside", folder=str(folder), to=str(aside), names=names, advice=advice)


def _below(path: Path, *, folders: bool = False) -> Iterator[Path]:
    """Yield the files at and below a path, or the folders. What a link names is not below it."""
    if path.is_dir() and not path.is_symlink():
        if folders:
            yield path
        for one in path.iterdir():
            yield from _below(one, folders=folders)
    elif not folders and _is_there(path):
        yield path


def _identity(path: Path) -> tuple[int, int]:
    """Return the size of a file and the instant of its last change."""
    found = path.lstat()
    return (0 if stat.S_ISLNK(found.st_mode) else found.st_size), found.st_mtime_ns


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
