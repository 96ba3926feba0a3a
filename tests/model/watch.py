"""Bounties for watchers that knew the right root before anybody revealed one: the contract `Watch` in Python.

The rules are in docs/protocol.md, section 9.

INVARIANT: ether in = credits + ether held by pools and stakes + ether withdrawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from referee_py.jobs import EMPTY_COMMITMENT, JobPhase
from referee_py.params import BURNED
from referee_py.program.modes import mode_or_unknown
from referee_py.walk.refusals import WrongPhase, WrongStake, require
from referee_py.watch import WatcherState, share_of, watch_commitment

from . import watch_refusals as refusals
from .escrow import Escrow
from .refusals import EmptyCommitment, JobRuns, WrongCommitment


@dataclass(frozen=True, slots=True)
class Bounty:
    """A bounty's key: the job, and the account that funds it."""

    job_id: int
    funder: str


@dataclass(slots=True)
class Watcher:
    stake: int
    found: bytes
    """The commitment; once shown, the root."""
    state: WatcherState = WatcherState.COMMITTED


@dataclass(slots=True)
class Pool:
    """The money of a bounty, in wei, for ``shares`` watchers."""

    amount: int
    shares: int
    watchers: dict[str, Watcher] = field(default_factory=dict)
    shown: Counter[bytes] = field(default_factory=Counter)
    """Number of watchers that have shown each root."""
    ended: JobPhase = JobPhase.NONE
    """Once distributed: the phase in which the job ended."""
    share: int = 0
    root: bytes | None = None
    """Once distributed: the accepted root, if there is one."""

    def due(self, watcher: Watcher) -> int:
        """Return what a watcher gets of a distributed bounty, in wei."""
        if self.ended is not JobPhase.ACCEPTED:
            return watcher.stake
        right = watcher.state is WatcherState.SHOWN and watcher.found == self.root
        return watcher.stake + self.share if right else 0

    def held(self) -> int:
        """Return the wei of this bounty that nobody has been credited with yet."""
        waiting = [w for w in self.watchers.values() if w.state is not WatcherState.COLLECTED]
        if self.ended is JobPhase.NONE:
            return self.amount + sum(watcher.stake for watcher in waiting)
        return sum(max(self.due(watcher), watcher.stake) for watcher in waiting)


class Jobs(Protocol):
    """The Jobs contract, with the methods that `Watch` calls."""

    def phase_of(self, job_id: int, now: int) -> JobPhase: ...

    def mode_of(self, job_id: int) -> int: ...

    def stake_of(self, job_id: int) -> int: ...

    def accepted_root(self, job_id: int) -> bytes: ...


class Watch(Escrow):
    """The contract's state and moves. A move is one transaction: it takes full effect or raises a Refusal."""

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
        require(not mode_or_unknown(mode).follows_logs, refusals.UnwatchableMode, mode)
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
        """Credit a watcher with what it gets, once; anybody may call it. The first call distributes the bounty."""
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
        """Return the wei of all bounties that nobody has been credited with yet."""
        return sum(pool.held() for pool in self.pools.values())

    # --- inside ---------------------------------------------------------------------------------------------------

    def _open(self, bounty: Bounty) -> Pool:
        """Return the pool of a funded bounty. Raises NothingFunded, or AlreadyDistributed."""
        pool = self.pools.get(bounty)
        if pool is None:
            raise refusals.NothingFunded(f"job {bounty.job_id}, by {bounty.funder}")
        require(pool.ended is JobPhase.NONE, refusals.AlreadyDistributed, bounty.job_id, bounty.funder)
        return pool

    def _during(self, job_id: int, want: JobPhase, now: int) -> None:
        have = self._jobs.phase_of(job_id, now)
        require(have is want, WrongPhase, have.name, want.name)
