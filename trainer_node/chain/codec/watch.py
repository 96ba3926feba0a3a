"""Bounties for the watchers of a job (the contract Watch), from views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from referee_py.jobs import JobPhase
from referee_py.watch import WatcherState

from ..rpc import guarded
from .base import View


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """A bounty; ``amount`` and ``share`` are wei. ``amount`` is zero if nothing was set aside."""

    amount: int
    shares: int
    """Watchers that the bounty is for."""
    watchers: int
    """Watchers that have committed."""
    ended: JobPhase
    """Phase in which the job ended, once the bounty is distributed."""
    share: int
    """Wei for each watcher that was right, once the bounty is distributed."""


@dataclass(frozen=True, slots=True)
class WatcherInfo:
    """An account as a watcher. ``found`` is its commitment, and the root once that is shown."""

    stake: int
    state: WatcherState
    found: bytes


_POOL = View(PoolInfo, "Watch", "poolOf")
_WATCHER = View(WatcherInfo, "Watch", "watcherOf")


def pool_view(raw: Any) -> PoolInfo:
    """Return a PoolInfo from the result of `poolOf`. Raises RpcCorrupt."""
    with guarded("poolOf"):
        return _POOL.read("a bounty", raw)


def watcher_view(raw: Any) -> WatcherInfo:
    """Return a WatcherInfo from the result of `watcherOf`. Raises RpcCorrupt."""
    with guarded("watcherOf"):
        return _WATCHER.read("a bounty", raw)
