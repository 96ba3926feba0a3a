"""What is set aside for the watchers of a job, as the contract Watch tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from referee_py.jobs import JobPhase
from referee_py.watch import WatcherState

from .rpc import guarded
from .views import known


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """A bounty's money, in wei: ``amount`` is zero if nothing was set aside."""

    amount: int
    shares: int
    """For how many watchers it is."""
    watchers: int
    """How many have committed."""
    ended: JobPhase
    """How the job ended, once the bounty is distributed."""
    share: int
    """Once distributed: what each gets who was right."""


@dataclass(frozen=True, slots=True)
class WatcherInfo:
    """Where an account stands; ``found`` is its commitment, and once shown the root."""

    stake: int
    state: WatcherState
    found: bytes


def pool_view(raw: Any) -> PoolInfo:
    """A PoolInfo from what `poolOf` gives. Raises RpcCorrupt."""
    with guarded("poolOf"):
        ended = known(JobPhase, raw.ended, "a bounty")
        return PoolInfo(raw.amount, raw.shares, raw.watchers, ended, raw.share)


def watcher_view(raw: Any) -> WatcherInfo:
    """A WatcherInfo from what `watcherOf` gives. Raises RpcCorrupt."""
    with guarded("watcherOf"):
        return WatcherInfo(raw.stake, known(WatcherState, raw.state, "a bounty"), bytes(raw.found))
