"""A data directory that was restored from a backup: is its key in use elsewhere? Two nodes with one key would replace
each other's transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import AlreadyRunning

MARK = "restored"
"""File of a data directory that was restored and has not been started since."""
_LOOKS = 5


def alone(data_dir: Path, nonce: Callable[[], int], watch_s: float, wait: Callable[[float], bool]) -> None:
    """Watch the account of a restored directory for a while; ``wait`` sleeps, and returns True if the node is to stop.

    Raises AlreadyRunning if its nonce changes: then another node uses the key. Does nothing for other directories.
    """
    mark = data_dir / MARK
    if not mark.exists():
        return
    before = nonce()
    for _ in range(_LOOKS):
        if wait(watch_s / _LOOKS):
            return
        if (now := nonce()) != before:
            raise AlreadyRunning(
                f"this data directory was restored from a backup, and its account has sent {now - before} transactions "
                "meanwhile: stop the node that runs with the same key, then start this one"
            )
    mark.unlink()
