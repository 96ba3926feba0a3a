"""The processes of workers that this one, or a child of it, has started."""

from __future__ import annotations

import os
from pathlib import Path


def workers_of(process: int | None = None) -> dict[int, int]:
    """Return the process ids of the workers from 1 on that a process has started, by number; None: this process."""
    parent = os.getpid() if process is None else process
    found: dict[int, int] = {}
    for task in Path(f"/proc/{parent}/task").iterdir():
        for pid in map(int, _read(task / "children").split()):
            words = _read(Path(f"/proc/{pid}/cmdline")).split(b"\0")
            if b"--rank" in words:
                found[int(words[words.index(b"--rank") + 1])] = pid
    return dict(sorted(found.items()))


def _read(path: Path) -> bytes:
    """Return what the system says of a thread or a process; nothing of one that has ended meanwhile."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
