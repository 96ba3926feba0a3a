"""Bounties for whoever knew the right root before anybody revealed one: the contract `Watch` in Python.

The rules are in docs/protocol.md, section 9.

INVARIANT: ether in = credits + what pools and stakes hold + ether withdrawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from ..commit import NO_LOG
from ..game.escrow import BURNED, Escrow
from ..game.jobs import EMPTY_COMMITMENT, JobPhase, commitment
from ..game.refusals import EmptyCommitment, JobRuns, WrongCommitment, WrongPhase, WrongStake, require
from ..rounding.mode import is_rounded
from . import refusals


class WatcherState(IntEnum):
    """Where a watcher of a bounty stands."""

    NONE = 0
    COMMITTED = 1
    SHOWN = 2
    COLLECTED = 3


@dataclass(frozen=True, slots=True)
class Bounty:
    """The job, and who has set something aside for its watchers."""

    job_id: int
    funder: str


@dataclass(slots=True)
class Watcher:
    stake: int
    found: bytes
    """What it has committed to; once shown, the root."""
    state: WatcherState = WatcherState.COMMITTED


@dataclass(slots=True)
class Pool:
    """The money of a bounty, in wei, and for how many watchers it is."""

    amount: int
    shares: int
    watchers: dict[str, Watcher] = field(default_factory=dict)
    shown: Counter[bytes] = field(default_factory=Counter)
    """How many have shown a root."""
    ended: JobPhase = JobPhase.NONE
    """How the job ended, once the bounty is distributed."""
    share: int = 0
    root: bytes | None = None
    """Once distributed: the root that was accepted, if one was."""

    def due(self, watcher: Watcher) -> int:
        """What a watcher gets, once the bounty is distributed."""
        if self.ended is not JobPhase.ACCEPTED:
            return watcher.stake
        right = watcher.state is WatcherState.SHOWN and watcher.found == self.root
        return watcher.stake + self.share if right else 0

    def held(self) -> int:
        """Wei that is nobody's credit yet."""
        waiting = [w for w in self.watchers.values() if w.state is not WatcherState.COLLECTED]
        if self.ended is JobPhase.NONE:
            return self.amount + sum(watcher.stake for watcher in waiting)
        return sum(max(self.due(watcher), watcher.stake) for watcher in waiting)


def share_of(amount: int, shares: int, right: int) -> int:
    """What each of ``right`` watchers gets of a pool for so many, in wei.

    NOTE: where more are right than the pool is for, it pays less in all, so that nobody gains by being several.
    """
    most = max(right, shares)
    return amount * shares // (most * most)


def watch_commitment(chain_id: int, watch: str, job_id: int, sender: str, root: bytes, salt: bytes) -> bytes:
    """What a watcher commits to. It opens nothing at the Jobs contract."""
    return commitment(chain_id, watch, job_id, sender, root, bytes(32), NO_LOG, salt)


class Jobs(Protocol):
    """What the contract asks the Jobs contract of a bounty."""

    def phase_of(self, job_id: int, now: int) -> JobPhase: ...

    def mode_of(self, job_id: int) -> int: ...

    def stake_of(self, job_id: int) -> int: ...

    def accepted_root(self, job_id: int) -> bytes: ...


class Watch(Escrow):
    """Every move is one transaction: it takes effect whole or raises a Refusal."""

    def __init__(self, chain_id: int, address: str, jobs: Jobs) -> None:
        super().__init__()
        self.chain_id = chain_id
        self.address = address
        self._jobs = jobs
        self.pools: dict[Bounty, Pool] = {}

    def fund(self, job_id: int, shares: int, sender: str, value: int, now: int) -> None:
        bounty = Bounty(job_id, sender)
        require(value > 0, refusals.NothingFunded)
        require(shares > 0, refusals.BadShares, shares)
        self._during(job_id, JobPhase.TRAINING, now)
        mode = self._jobs.mode_of(job_id)
        require(not is_rounded(mode), refusals.UnwatchableMode, mode)
        require(bounty not in self.pools, refusals.AlreadyFunded, job_id, sender)
        self.pools[bounty] = Pool(value, shares)

    def watch(self, bounty: Bounty, commitment: bytes, sender: str, value: int, now: int) -> None:
        pool = self._open(bounty)
        self._during(bounty.job_id, JobPhase.TRAINING, now)
        require(commitment != EMPTY_COMMITMENT, EmptyCommitment)
        stake = self._jobs.stake_of(bounty.job_id)
        require(value >= stake, WrongStake, value, stake)
        require(sender not in pool.watchers, refusals.AlreadyWatching, bounty.job_id, sender)
        pool.watchers[sender] = Watcher(stake, commitment)
        self.credit(sender, value - stake)

    def show(self, bounty: Bounty, root: bytes, salt: bytes, sender: str, now: int) -> None:
        pool = self._open(bounty)
        if self._jobs.phase_of(bounty.job_id, now) is not JobPhase.CLOSING:
            self._during(bounty.job_id, JobPhase.CHALLENGE, now)
        watcher = pool.watchers.get(sender)
        if watcher is None or watcher.state is not WatcherState.COMMITTED:
            raise refusals.NothingToShow(f"{sender} in job {bounty.job_id}")
        have = watch_commitment(self.chain_id, self.address, bounty.job_id, sender, root, salt)
        require(have == watcher.found, WrongCommitment, have, watcher.found)
        watcher.state, watcher.found = WatcherState.SHOWN, root
        pool.shown[root] += 1

    def distribute(self, bounty: Bounty, now: int) -> None:
        pool = self._open(bounty)
        ended = self._jobs.phase_of(bounty.job_id, now)
        require(ended.ended, JobRuns, bounty.job_id)
        pool.ended, right = ended, 0
        if ended is JobPhase.ACCEPTED:
            pool.root = self._jobs.accepted_root(bounty.job_id)
            right = pool.shown[pool.root]
            pool.share = share_of(pool.amount, pool.shares, right)
        self.credit(bounty.funder, pool.amount - right * pool.share)

    def collect(self, bounty: Bounty, account: str, now: int) -> None:
        """Whoever calls it."""
        pool = self.pools.get(bounty)
        watcher = pool.watchers.get(account) if pool else None
        if pool is None or watcher is None or watcher.state is WatcherState.COLLECTED:
            raise refusals.NothingToCollect(f"{account} in job {bounty.job_id}")
        if pool.ended is JobPhase.NONE:
            self.distribute(bounty, now)
        amount = pool.due(watcher)
        watcher.state = WatcherState.COLLECTED
        if amount:
            self.credit(account, amount)
        else:
            self.credit(BURNED, watcher.stake)

    def held(self) -> int:
        """Wei that is nobody's credit yet."""
        return sum(pool.held() for pool in self.pools.values())

    # --- inside ---------------------------------------------------------------------------------------------------

    def _open(self, bounty: Bounty) -> Pool:
        """A bounty that was funded and is not distributed."""
        pool = self.pools.get(bounty)
        if pool is None:
            raise refusals.NothingFunded(f"job {bounty.job_id}, by {bounty.funder}")
        require(pool.ended is JobPhase.NONE, refusals.AlreadyDistributed, bounty.job_id, bounty.funder)
        return pool

    def _during(self, job_id: int, want: JobPhase, now: int) -> None:
        have = self._jobs.phase_of(job_id, now)
        require(have is want, WrongPhase, have.name, want.name)
