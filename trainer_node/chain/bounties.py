"""Bounties for the watchers of a job, read from the contract Watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from referee_py.jobs import JobPhase
from referee_py.watch import WatcherState

from .rpc import guarded
from .views import known


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


def pool_view(raw: Any) -> PoolInfo:
    """Return a PoolInfo from the result of `poolOf`. Raises RpcCorrupt."""
    with guarded("poolOf"):
        ended = known(JobPhase, raw.ended, "a bounty")
        return PoolInfo(raw.amount, raw.shares, raw.watchers, ended, raw.share)


def watcher_view(raw: Any) -> WatcherInfo:
    """Return a WatcherInfo from the result of `watcherOf`. Raises RpcCorrupt."""
    with guarded("watcherOf"):
        return WatcherInfo(raw.stake, known(WatcherState, raw.state, "a bounty"), bytes(raw.found))
