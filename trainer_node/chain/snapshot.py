"""The state of the contracts at ONE block, read as it is asked for: a decision never mixes two states of the chain.

job = snapshot.job(1)
match = snapshot.match(job, match_id)
hearing = snapshot.hearing(job, match_id)  the match's operator before the panel; None before that
trial = snapshot.trial(hearing)            the operator before the court
snapshot.still_canonical()                 False after a reorganisation: discard what was read
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from web3 import Web3
from web3.contract import Contract

from referee_py.errors import AssayError, InvalidInput
from referee_py.game.state import Phase
from referee_py.panel.state import HearingPhase, hearing_id
from referee_py.walk.pauses import Pause, contract_time

from ..errors import RpcCorrupt, RpcUnavailable
from .block import Block
from .codec.availability import MAX_REQUESTS, Ledger
from .codec.claims import Claims, Refutations, refuted_intervals, with_events
from .codec.clock import Pauses, TimekeeperInfo
from .codec.hearing import HearingInfo, hearing_view
from .codec.job import MAX_CLAIMS, Group, JobView, job_view
from .codec.match import MatchInfo, match_view
from .codec.trial import TrialInfo, trial_view
from .codec.watch import PoolInfo, WatcherInfo, pool_view, watcher_view
from .connection import Connection
from .contracts import Contracts
from .events import MAX_EVENTS, Event, Query
from .reader import Reader
from .rpc import guarded

READINGS = 3
"""Attempts to read the contracts' time, if the result is later than the block.

NOTE: anvil answers a call at its newest block with the state of the next one, if that is mined while the call waits. A
repeated call gets the right state, because the block is no longer the newest.
"""


@dataclass(frozen=True, slots=True)
class Registered:
    """A verifier's bond in wei, when it may leave with it (0: it does not leave), and the panel it answers to."""

    bond: int
    leaves_at: int
    panel: str


MAX_SEEN = 64
"""Matches of a job that are asked for though no event names them and no group is in them: the newest."""
CHANGES = ("Claimed", "Refuted", "LogsRevealed", "LogsWithheld", "ClaimLost", "GroupDied")
"""Events of the Jobs contract after which a job of strangers may ask for a look; none of them costs gas alone."""


class Snapshot:
    """The state of the contracts at one block. Every method raises RpcUnavailable or RpcCorrupt."""

    def __init__(self, client: Connection, block: Block, doubt: str | None = None) -> None:
        """``doubt``: why nothing may be staked on this view."""
        self._client = client
        self.doubt = doubt
        self._read = Reader(client, block)
        self._jobs: dict[int, JobView] = {}
        self._confirmed = 0
        """So many of the first notes were confirmed."""
        self._contracts = client.contracts
        self.block = block

    @cached_property
    def now(self) -> int:
        """Return the contracts' time: the block's time less all pauses, in seconds."""
        for _ in range(READINGS):
            now = int(self._read.view(self._contracts.timekeeper, "time"))
            if now <= self.block.timestamp:
                return now
        if not self.still_canonical():
            raise RpcUnavailable(
                f"block {self.block.number} was replaced while it was read; it is read again"
            )
        raise RpcCorrupt(f"the clocks cannot say {now} in a block at {self.block.timestamp}")

    @property
    def web3(self) -> Web3:
        """The connection that the snapshot is read through."""
        return self._client.web3

    @cached_property
    def stake_gas(self) -> int:
        """Units of gas that a stake is worth at least."""
        gas = int(self._read.view(self._contracts.notary, "STAKE_GAS"))
        if gas < 1:
            raise RpcCorrupt(f"a stake is worth {gas} units of gas, which no deployment states")
        return gas

    @property
    def contracts(self) -> Contracts:
        """The deployment's contracts."""
        return self._contracts

    def instant(self, number: int) -> int:
        """Return the contracts' time in an earlier block."""
        return contract_time(self._pauses, self._client.agreed_block(number).timestamp)

    def base_fee(self, number: int) -> int:
        """Return the base fee of an earlier block, in wei for a unit of gas."""
        return self._client.agreed_block(number).base_fee

    @cached_property
    def _pauses(self) -> tuple[Pause, ...]:
        query = Query(self._contracts.timekeeper, (), Pauses.names)
        with self._read.sensible(query):
            pauses = tuple(Pauses.of(self._events(query)).found)
            if contract_time(pauses, self.block.timestamp) != self.now:
                raise RpcCorrupt("the endpoint lacks events of pauses; use one with complete logs")
            return pauses

    def head(self) -> int:
        """Return the number of the newest block."""
        return self._client.head()

    def still_canonical(self) -> bool:
        """Return whether the block is still part of the chain."""
        return self._read.still_canonical()

    def confirm(self, *, heeding_doubt: bool = True, hurried: bool = False) -> None:
        """Let other endpoints confirm everything that was read here. Raises Disagreement (see `agreement`).

        NOTE: what they have confirmed is not asked for again, so many stakes of a round cost no more than what was read
        for them.
        """
        constants, doubt = self._client.constants.kept, self.doubt if heeding_doubt else None
        notes = self._read.notes.kept
        self._client.agreement.confirm(
            self.block, [*constants, *notes[self._confirmed :]], doubt, hurried=hurried
        )
        self._confirmed = len(notes)
        constants.clear()

    def timekeeper(self) -> TimekeeperInfo:
        """Return who can stop the clocks, for how long, and whether they stand still."""
        contract = self._contracts.timekeeper
        return TimekeeperInfo(
            guardian=str(self._read.view(contract, "GUARDIAN")),
            budget=int(self._read.view(contract, "BUDGET")),
            left=int(self._read.view(contract, "budgetLeft")),
            paused_until=int(self._read.view(contract, "pausedUntil")),
        )

    # ------------------------------------------------------------------ jobs

    def job_count(self) -> int:
        """Return the number of jobs, which are numbered from 1."""
        return int(self._read.view(self._contracts.jobs, "jobCount"))

    def least_stake(self) -> int:
        """Return the wei that a claim of any job takes at least."""
        return int(self._read.view(self._contracts.notary, "MIN_STAKE"))

    def least_fee(self) -> int:
        """Return the wei that a unit of gas counts for at least in any job."""
        return int(self._read.view(self._contracts.notary, "MIN_FEE"))

    def commit_age(self) -> int:
        """Return the least age of a commitment for a challenge, in seconds of the chain."""
        return int(self._read.view(self._contracts.jobs, "COMMIT_AGE"))

    def jobs_changed(self, since: int | None) -> list[int]:
        """Return the jobs in which something has happened after block ``since`` that others may have to act on, each
        once; of the last blocks alone where one request does not span as many, or if that is None.

        NOTE: only a hint where to look first. So no other endpoint confirms it.
        """
        return self._read.recent(Query(self._contracts.jobs, (), CHANGES), since)

    def job(self, job_id: int, *, told: bool = True) -> JobView:
        """Return a job with its trainers, claims and groups; ``told``: and with what only events say of its claims.
        Raises InvalidInput if there is no such job."""
        # INVARIANT: one call reads all that must fit together. Two calls at one block number may see two states: the
        # block may be replaced between them, and anvil answers from the block that it has just mined.
        raw = self._read.view(self._contracts.jobs, "viewOf", job_id)
        with self._read.sensible(), guarded(f"job {job_id}"):
            phase, job, trainers, claims, groups = raw
            if phase != 0:
                if max(job.claims, job.groups) > MAX_CLAIMS:
                    raise RpcCorrupt(f"job {job_id} has {job.claims} claims; {MAX_CLAIMS} are read at most")
                paged = len(claims) < job.claims or len(groups) < job.groups
                claims = self._rest(job_id, "claimsFrom", claims, job.claims)
                groups = self._rest(job_id, "groupsFrom", groups, job.groups)
                # NOTE: pages do not fit together if a block was replaced between them.
                if paged and self._read.view(self._contracts.jobs, "viewOf", job_id) != raw:
                    raise RpcUnavailable(f"job {job_id} changed while it was read; it is read again")
                fees = {"base_fee": self.block.base_fee, "stake_gas": self.stake_gas}
                found = job_view(job_id, phase, job, trainers, claims, groups, **fees)
                self._jobs[job_id] = self._told(found) if told and found.claims else found
                return self._jobs[job_id]
        raise InvalidInput(
            f"there is no job {job_id} at {self._client.deployment.jobs}; see `assay job list`"
        )

    def _told(self, job: JobView) -> JobView:
        """SAFETY: an endpoint without these events must keep us from no move that the view is enough for."""
        query = Query(self._contracts.jobs, (job.id,), Claims.names)
        try:
            with self._read.sensible(query):
                return self._read.whole(query, with_events(job, self._read.events(query, job)))
        except (RpcUnavailable, RpcCorrupt) as error:
            return replace(job, hidden=f"job {job.id}: the events of its claims cannot be read: {error}")

    def _rest(self, job_id: int, view: str, shown: Sequence[Any], count: int) -> list[Any]:
        """Return all of a job's claims or groups, which begin with ``shown``."""
        found = list(shown)
        while len(found) < count:
            page = self._read.view(self._contracts.jobs, view, job_id, len(found))
            if not page:
                raise RpcCorrupt(f"job {job_id}: {view} ends after {len(found)} of {count}")
            found.extend(page)
        return found

    def committed_at(self, job_id: int, commitment: bytes) -> int:
        """Return the second of the chain in which a commitment to a challenge was first made; 0 if it was not."""
        return int(self._read.view(self._contracts.jobs, "committedAt", job_id, commitment))

    def credits(self, address: str) -> list[tuple[Contract, int]]:
        """Return the contracts that owe the address something, and how much, in wei."""
        owed = [(escrow, self.credit_at(escrow, address)) for escrow in self._contracts.escrows]
        return [(escrow, wei) for escrow, wei in owed if wei]

    def credit_at(self, escrow: Contract, address: str) -> int:
        """Return the wei that the address can withdraw from one contract."""
        return int(self._read.view(escrow, "credit", Web3.to_checksum_address(address)))

    # ------------------------------------------------------------------ matches

    def match(self, job: JobView, match_id: int) -> MatchInfo:
        """Return a match of a job. Raises InvalidInput if the match does not belong to that job."""
        raw = self._read.view(self._contracts.referee, "getMatch", match_id)
        jobs = self._client.deployment.jobs
        if raw.phase == 0 or raw.jobId != job.id or raw.jobs.lower() != jobs.lower():
            raise InvalidInput(f"match {match_id} is not a match of job {job.id} at {jobs}")
        query = Query(self._contracts.referee, (match_id,))
        with self._read.sensible(query), guarded(f"match {match_id}"):
            found = match_view(match_id, raw, self.events(match_id, job.id), job)
        return self._read.whole(query, found)

    def matches_of(self, job_id: int) -> list[int]:
        """Return every match that a job has ever had, in order of opening; and those that were seen to be open, unless
        a reorganisation has removed them.

        SAFETY: no view has the number of a job's matches, so an endpoint that lacks an event can hide one for a while.
        And it can make up any number of open ones in one look, each of which costs a request at the next.
        """
        events = self._events(Query(self._contracts.jobs, (job_id,), ("Paired",)), job_id)
        found = dict.fromkeys(int(event.args["matchId"]) for event in events)
        found |= dict.fromkeys(self._jobs[job_id].match_ids() if job_id in self._jobs else [])
        seen, referee = self._client.matches.get(job_id, {}), self._contracts.referee
        found |= {k: None for k in seen if k not in found and self._read.view(referee, "getMatch", k).phase}
        self._client.matches[job_id] = dict.fromkeys([*found][-MAX_SEEN:])
        return list(found)

    def job_events(self, job_id: int, *names: str) -> list[Event]:
        """Return the events of the Jobs contract about a job that have these names (none: all of them), in order.

        SAFETY: anybody commits to challenges for gas alone, without end. So what we must know is asked for by name.
        """
        return self._events(Query(self._contracts.jobs, (job_id,), names or None), job_id)

    def refuted(self, job: JobView) -> dict[int, int]:
        """Return the interval, from 1, of each refutation of a job by its group. Raises RpcCorrupt if one lacks."""
        query = Query(self._contracts.jobs, (job.id,), Refutations.names)
        with self._read.sensible(query):
            return refuted_intervals(job, self._read.events(query, job))

    def events(self, match_id: int, job_id: int | None = None) -> list[Event]:
        """Return the events of the referee about a match, in order."""
        return self._events(Query(self._contracts.referee, (match_id,)), job_id)

    # ------------------------------------------------------------------ requests

    def pending(self, job: JobView, group: Group) -> int:
        """Return the number of open requests for the job's logs and for data under this group's root."""
        where = self._client.deployment.jobs, job.id, job.logs, group.root, group.life
        return int(self._read.view(self._contracts.data_availability, "pending", *where))

    def ledger(self, job: JobView, check: Callable[[Ledger], None] = lambda _: None) -> Ledger:
        """Return all requests of a job, and all responses. ``check`` raises RpcCorrupt for what cannot be."""
        # NOTE: anybody who pays may make requests; so many that we cannot read them must cost more than our stake.
        # SAFETY: anybody can deploy a Jobs contract that has a job of the same number.
        words = job.id, int(self._client.deployment.jobs, 16)
        query = Query(self._contracts.data_availability, words, Ledger.names)
        ledger = Ledger.of(self._events(query, job.id, MAX_REQUESTS, cached=False))
        with self._read.sensible(query):
            check(ledger)
        return ledger

    # ------------------------------------------------------------------ bounties

    def pool(self, job: JobView) -> PoolInfo:
        """Return the bounty that the job's client has set aside for watchers."""
        bounty = self._contracts.bounty(job.id, job.client)
        return pool_view(self._read.view(self._contracts.watch, "poolOf", bounty))

    def watcher(self, job: JobView, address: str) -> WatcherInfo:
        """Return the state of an account that may watch a job for its client's bounty."""
        bounty, who = self._contracts.bounty(job.id, job.client), Web3.to_checksum_address(address)
        return watcher_view(self._read.view(self._contracts.watch, "watcherOf", bounty, who))

    # ------------------------------------------------------------------ hearings and trials

    def hearing(self, job: JobView, match_id: int) -> HearingInfo | None:
        """Return the hearing about a match's operator; None if there is none, or if the match is not the job's."""
        deployment = self._client.deployment
        number = hearing_id(deployment.referee, match_id)
        raw = self._read.view(self._contracts.panel, "getHearing", number)
        if raw.phase == HearingPhase.NONE:
            return None
        signers = self._read.view(self._contracts.panel, "votes", number, raw.verdict)
        query = Query(self._contracts.panel, (number,))
        with self._read.sensible(query), guarded(f"hearing {number}"):
            events = self.hearing_events(number, job.id)
            found = hearing_view(number, raw, signers, events, job, deployment.chain_id, deployment.panel)
        # SAFETY: a job with its own referee may name any match as one of its matches.
        named = found.terms.submission.job_id, found.terms.submission.jobs.lower()
        return self._read.whole(query, found) if named == (job.id, deployment.jobs.lower()) else None

    def standing(self, match_id: int) -> tuple[Phase, HearingPhase]:
        """Return the phases of a match and of its hearing, as views alone show them: no event is needed."""
        number = hearing_id(self._client.deployment.referee, match_id)
        raw_match = self._read.view(self._contracts.referee, "getMatch", match_id)
        raw_hearing = self._read.view(self._contracts.panel, "getHearing", number)
        with self._read.sensible(), guarded(f"match {match_id}"):
            return Phase(raw_match.phase), HearingPhase(raw_hearing.phase)

    def hearings(self, job: JobView) -> tuple[list[HearingInfo], dict[int, AssayError]]:
        """Return the hearings of a job that are not over, and by match why others cannot be read. A hearing may last
        longer than its match."""
        found, failed = list[HearingInfo](), dict[int, AssayError]()
        for match_id in self.matches_of(job.id):
            try:
                hearing = self.hearing(job, match_id)
            except AssayError as error:
                failed[match_id] = error
                continue
            if hearing is not None and not hearing.over:
                found.append(hearing)
        return found, failed

    def hearing_events(self, number: int, job_id: int | None = None) -> list[Event]:
        """Return the events of the panel about a hearing, in order."""
        return self._events(Query(self._contracts.panel, (number,)), job_id)

    def trial(self, hearing: HearingInfo, number: int | None = None) -> TrialInfo:
        """Return a trial of a hearing that has had one, by default the last."""
        trial = hearing.trial(hearing.state.trials if number is None else number)
        trial_terms, dispute = hearing.trial_terms[trial]
        raw = self._read.view(self._contracts.court, "getTrial", trial)
        query = Query(self._contracts.court, (trial,))
        with self._read.sensible(query), guarded(f"trial {trial}"):
            events = self.trial_events(trial, hearing.terms.submission.job_id)
            found = trial_view(trial_terms, dispute, raw, events)
        return self._read.whole(query, found)

    def trial_events(self, number: int, job_id: int | None = None) -> list[Event]:
        """Return the events of the court about a trial, in order."""
        return self._events(Query(self._contracts.court, (number,)), job_id)

    # ------------------------------------------------------------------ verifiers

    def verifiers(self) -> list[tuple[str, int, str]]:
        """Return ``(address, bond in wei, URI)`` of the active verifiers whose bonds our panel can slash."""
        registry = self._contracts.registry
        found = []
        for position in range(min(int(self._read.view(registry, "verifierCount")), 10_000)):
            address = str(self._read.view(registry, "verifierAt", position))
            if self._read.view(registry, "serves", address, self._client.deployment.panel):
                verifier = self._read.view(registry, "getVerifier", address)
                found.append((address, int(verifier.bond), str(verifier.uri)))
        return found

    def registered(self, address: str) -> Registered:
        """Return what the registry says of a verifier. The bond is zero for other accounts."""
        found = self._read.view(self._contracts.registry, "getVerifier", Web3.to_checksum_address(address))
        return Registered(int(found.bond), int(found.leavesAt), str(found.panel))

    # ------------------------------------------------------------------ inside

    def _events(
        self, query: Query, job_id: int | None = None, most: int = MAX_EVENTS, *, cached: bool = True
    ) -> list[Event]:
        """Return the events up to this block, in order: `Reader.events`, of a job that was read in this snapshot."""
        return self._read.events(query, self._jobs.get(job_id or 0), most, cached=cached)
