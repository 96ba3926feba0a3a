"""Folders that we have made ourselves, and so may empty: each carries a file that says which command made it.

INVARIANT: nothing of ours removes a folder, or what is in it, except through this module or within a folder of the
system for temporary files. A folder without the mark is somebody else's, whatever its name and its contents are.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from referee_py.errors import InvalidInput

MARK = ".made-by-assay"


def made(folder: Path, by: str) -> bool:
    """Return whether this command of ours has made the folder. A link is not a folder that we have made."""
    mark = folder / MARK
    try:
        return not folder.is_symlink() and not mark.is_symlink() and mark.read_text() == by + "\n"
    except (OSError, UnicodeDecodeError):
        return False


def check(folder: Path, by: str) -> None:
    """Raise InvalidInput for a folder that `emptied` would refuse."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InvalidInput(f"{folder} is no folder; move it away, or name another folder")
    if folder.exists() and not made(folder, by) and (held := sorted(folder.iterdir())):
        raise InvalidInput(
            f"{folder} was not made by `{by}` and holds {held[0].name!r}, so it is not emptied; move it away, or name "
            "another folder"
        )


def emptied(folder: Path, by: str) -> Path:
    """Return a folder with nothing but our mark in it: a new one, or one that this command of ours has made before.

    Raises InvalidInput for a folder of anybody else that is not empty.
    """
    check(folder, by)
    folder.mkdir(parents=True, exist_ok=True)
    # NOTE: the mark is there before anything else, and until all else is gone: a stop in between leaves it ours.
    mark(folder, by)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    return folder


def mark(folder: Path, by: str) -> None:
    """Write into a folder which command of ours makes it."""
    if not made(folder, by):
        (folder / MARK).write_text(by + "\n")


def removed(folder: Path, by: str) -> None:
    """Remove a folder that this command of ours has made, if it is there. Raises InvalidInput for any other."""
    if folder.exists() or folder.is_symlink():
        shutil.rmtree(emptied(folder, by))
