"""Bounties for watchers that knew the right root before anybody revealed one (docs/protocol.md, section 9)."""

from __future__ import annotations

from enum import IntEnum

from .commit import NO_LOG
from .jobs import commitment


class WatcherState(IntEnum):
    """The state of a watcher of a bounty."""

    NONE = 0
    COMMITTED = 1
    SHOWN = 2
    COLLECTED = 3


def share_of(amount: int, shares: int, right: int) -> int:
    """Return the share, in wei, of each of ``right`` watchers in a pool of ``amount`` wei for ``shares`` watchers.

    NOTE: if ``right`` exceeds ``shares``, the pool pays less in all, so that nobody gains by using several accounts.
    """
    most = max(right, shares)
    return amount * shares // (most * most)


def watch_commitment(chain_id: int, watch: str, job_id: int, sender: str, root: bytes, salt: bytes) -> bytes:
    """Return the hash of a watcher's commitment to a root. It opens no commitment at the Jobs contract."""
    return commitment(chain_id, watch, job_id, sender, root, bytes(32), NO_LOG, salt)
