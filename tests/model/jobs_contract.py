"""Jobs, claims, groups and money: the contract `Jobs` in Python (docs/protocol.md, section 6).

INVARIANT: ether in = credits + stakes at risk + rewards in escrow + ether withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from referee_py.commit import NO_LOG, Tag, depth_of, fold_path
from referee_py.game import rules
from referee_py.game.state import Exhibit, MatchState, Move, Phase, Submit
from referee_py.jobs import EMPTY_COMMITMENT, JobPhase, commitment
from referee_py.panel.state import HearingTerms, Submission, hearing_id
from referee_py.params import BURNED
from referee_py.program.terms import leaf_count
from referee_py.walk.dispute import Dispute, dispute_hash
from referee_py.walk.proof import proven
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import WrongPhase, WrongStake, require

from . import refusals
from .data_availability import DataAvailability
from .jobs import RESIGNING, Claim, Group, Job, JobTerms, Match, Refutation, StakedClaim, Trainer
from .pairing import Pairing
from .panel import Opening, Panel
from .registry import Registry


class JobsContract(Pairing):
    """Jobs with their matches and hearings. A move is one transaction: it takes full effect or raises a Refusal.

    NOTE: matches are numbered from 1. If they need a chain's ids, `rename` sets them before any match is submitted.
    """

    data_availability: DataAvailability
    """The model's contract of data requests."""

    def __init__(
        self,
        chain_id: int,
        jobs: str,
        referee: str,
        panel: str,
        registry: Registry | None = None,
        stake_gas: int = 1,
        commit_age: int = 1,
    ) -> None:
        super().__init__(stake_gas)
        self.chain_id = chain_id
        self.address = jobs
        self.referee = referee
        self.commit_age = commit_age
        """Least age of a commitment at its challenge, in seconds of the chain."""
        self.behind = 0
        """Seconds by which the contracts' time is behind the chain's. Only the age of a commitment uses the chain's."""
        self.panel = Panel(panel, registry or Registry(), self._ruled, self._bond)

    # --- moves of Jobs --------------------------------------------------------------------------------------------

    def post(self, terms: JobTerms, sender: str, value: int, now: int) -> int:
        """Add a job, whose reward is ``value`` wei, and return its id. NOTE: the terms are not checked here."""
        job_id = len(self.jobs) + 1
        commit_end = now + terms.train_period
        reveal_end = commit_end + terms.reveal_period
        job = Job(terms, sender, value, now, commit_end, reveal_end, reveal_end + terms.challenge_period)
        self.jobs[job_id] = job
        return job_id

    def join(self, job_id: int, sender: str, value: int, now: int) -> None:
        job = self.during(job_id, JobPhase.TRAINING, now)
        stake = self.stake_of(job_id)
        require(value >= stake, WrongStake, value, stake)
        require(len(job.trainers) < job.terms.slots, refusals.NoFreeSlot, job_id)
        require(all(t.owner != sender for t in job.trainers), refusals.AlreadyJoined, sender)
        job.trainers.append(Trainer(sender, stake))
        self.credit(sender, value - stake)

    def resign(self, job_id: int, sender: str, now: int) -> None:
        job = self.during(job_id, JobPhase.TRAINING, now)
        trainer = job.trainer(sender)
        require(trainer.commitment == EMPTY_COMMITMENT, refusals.AlreadyCommitted, sender)
        last = job.trainers.pop()
        if last is not trainer:
            job.trainers[job.trainers.index(trainer)] = last
        fee = trainer.stake // RESIGNING
        self.credit(BURNED, fee)
        self.credit(sender, trainer.stake - fee)

    def commit(self, job_id: int, commitment: bytes, sender: str, now: int) -> None:
        job = self.during(job_id, JobPhase.TRAINING, now)
        trainer = job.trainer(sender)
        require(trainer.commitment == EMPTY_COMMITMENT, refusals.AlreadyCommitted, sender)
        require(commitment != EMPTY_COMMITMENT, refusals.EmptyCommitment)
        trainer.commitment = commitment
        if sum(t.commitment != EMPTY_COMMITMENT for t in job.trainers) == job.terms.slots:
            job.commit_end = now + job.terms.watch_period
            self._end_reveal(job, job.commit_end + job.terms.reveal_period)

    def reveal(
        self, job_id: int, claim: Claim, logs: bytes, salt: bytes, sender: str, value: int, now: int
    ) -> None:
        job = self.during(job_id, JobPhase.REVEAL, now)
        trainer = job.trainer(sender)
        require(trainer.commitment != EMPTY_COMMITMENT, refusals.NothingCommitted, sender)
        require(not trainer.revealed, refusals.AlreadyClaimed, sender)
        _check_claim(job, claim)
        have = commitment(self.chain_id, self.address, job_id, sender, claim.root, claim.last, logs, salt)
        require(have == trainer.commitment, refusals.WrongCommitment, have, trainer.commitment)
        require(job.rounded or logs == NO_LOG, refusals.UnexpectedLogs, logs)
        # SAFETY: a claim's stake pays the side that shows it wrong, so it must cover the present gas price.
        stake = max(trainer.stake, self.stake_of(job_id))
        require(trainer.stake + value >= stake, WrongStake, trainer.stake + value, stake)
        job.logs = logs
        trainer.revealed = True
        if all(t.revealed for t in job.trainers if t.commitment != EMPTY_COMMITMENT):
            self._end_reveal(job, now)
        self._claim(job_id, claim, sender, stake, slot=True, now=now)
        self.credit(sender, trainer.stake + value - stake)

    def commit_challenge(self, job_id: int, commitment: bytes, now: int) -> None:
        """Keep the first instant of a commitment, whoever makes it: it binds the account that it is of."""
        job = self.jobs[job_id]
        require(commitment != EMPTY_COMMITMENT, refusals.EmptyCommitment)
        job.committed_at.setdefault(commitment, now + self.behind)

    def challenge(self, job_id: int, claim: Claim, salt: bytes, sender: str, value: int, now: int) -> None:
        closed = job_id in self.jobs and self.jobs[job_id].phase(now) is JobPhase.CLOSING
        job = self.during(job_id, JobPhase.CLOSING if closed else JobPhase.CHALLENGE, now)
        require(not job.has_claimed(sender), refusals.AlreadyClaimed, sender)
        # SAFETY: nobody replays for a trainer that shows nothing, so nobody would notice a wrong claim in time.
        require(any(trainer.revealed for trainer in job.trainers), refusals.NothingRevealed, job_id)
        _check_claim(job, claim)
        self._check_ripe(job_id, sender, (claim.root, claim.last, NO_LOG), salt, now)
        group = job.group_of(claim.root)
        # SAFETY: if new roots were admitted later, each would put the end off by a match.
        claimable = group is not None and group.claimable(now) and job.finder is None
        require(not closed or claimable, refusals.RootClosed, claim.root)
        stake = self.price_of(job_id, claim.root)
        require(value >= stake, WrongStake, value, stake)
        if group is None:
            job.founded += 1
        else:
            job.followers += 1
        self._claim(job_id, claim, sender, stake, slot=False, now=now)
        self.credit(sender, value - stake)

    def _check_ripe(
        self, job_id: int, sender: str, to: tuple[bytes, bytes, bytes], salt: bytes, now: int
    ) -> None:
        """Raise a Refusal unless the sender's commitment to the three hashes ``to`` is old enough.

        SAFETY: a copier of a pending claim must commit first, and wait until that is old.
        """
        hashed = commitment(self.chain_id, self.address, job_id, sender, *to, salt)
        at = self.jobs[job_id].committed_at.get(hashed)
        require(at is not None, refusals.NothingCommitted, sender)
        assert at is not None
        ripe = at + self.commit_age
        require(now + self.behind >= ripe, refusals.TooSoon, ripe)

    def refute(
        self, job_id: int, refutation: Refutation, salt: bytes, sender: str, value: int, now: int
    ) -> None:
        """Stake that one checkpoint of a claimed run is wrong, given the one before it."""
        require(job_id in self.jobs, WrongPhase, JobPhase.NONE.name, JobPhase.CHALLENGE.name)
        job = self.jobs[job_id]
        closed = job.phase(now) is JobPhase.CLOSING
        self.during(job_id, JobPhase.CLOSING if closed else JobPhase.CHALLENGE, now)
        group = job.group_of(refutation.root)
        alive = group is not None and not group.dead
        require(alive and job.finder is None, refusals.NothingToRefute, job_id, refutation.root)
        assert group is not None
        require(not closed or group.refutable(now), refusals.RootClosed, refutation.root)
        root = _check_refutation(job, refutation)
        self._check_ripe(job_id, sender, (root, refutation.computed, refutation.root), salt, now)
        stake = self.refutation_price_of(job_id, refutation.root)
        require(value >= stake, WrongStake, value, stake)

        refuted, number = job.groups.index(group), len(job.groups)
        is_last = refutation.interval == _checkpoints(job) - 1
        last = refutation.computed if is_last else group.last
        job.groups.append(Group(root, last, [len(job.claims)], refutes=refuted))
        job.claims.append(StakedClaim(sender, stake, number, slot=False))
        group.queue.append(number)
        if job.waiting == refuted:
            job.waiting = None
            self._enter(job_id, refuted, now)
        self.credit(sender, value - stake)

    def finalize(self, job_id: int, now: int) -> None:
        job = self.during(job_id, JobPhase.CLOSING, now)
        require(not job.open_matches, refusals.MatchesOpen, job_id, job.open_matches)
        require(now >= job.reclaim_end, refusals.ReclaimsOpen, job.reclaim_end)
        if job.waiting is not None:
            group = job.groups[job.waiting]
            pending = self.data_availability.pending(job_id, job.logs, group.root, group.deaths + 1)
            require(not pending, refusals.RequestsOpen, job_id, pending)
        # A slot holder without a claim kept others from the slot, so its stake is burned.
        self.credit(BURNED, job.unrevealed)
        if job.waiting is None:
            # A root is accepted only if anybody could have disputed it until the end. Without the logs nobody could.
            job.ended = JobPhase.UNCLAIMED if job.finder is None else JobPhase.VOID
            self.credit(job.client, job.reward)
            return
        job.ended, job.accepted = JobPhase.ACCEPTED, job.waiting

    def collect(self, job_id: int, number: int) -> None:
        """Credit the owner of a claim with what it gets from an ended job; anybody may call it, once for each claim."""
        job = self.jobs[job_id]
        require(job.ended.ended, refusals.JobRuns, job_id)
        require(number < len(job.claims), refusals.NoSuchClaim, job_id, number)
        claim = job.claims[number]
        require(not claim.lost, refusals.LostClaim, job_id, number)
        require(not claim.collected, refusals.AlreadyCollected, job_id, number)
        claim.collected = True
        self.credit(claim.owner, job.due(claim))

    # --- moves of Referee -----------------------------------------------------------------------------------------

    def play(self, match_id: int, moves: Sequence[Move], sender: str, now: int) -> None:
        """Play moves of one match in one transaction."""
        match = self.matches.get(match_id)
        if match is None:
            raise WrongPhase(f"there is no match {match_id}")
        state, opening = match.state, None
        for move in moves:
            state = rules.apply(state, match.terms, move, sender, now)
            if isinstance(move, Submit):
                opening = self._submission(match, state, move.exhibit, now)
        match.state = state
        if opening:
            self.panel.hear(opening)
        if state.phase is Phase.DONE:
            self._resolve(match, (), now)

    def _submission(self, match: Match, state: MatchState, exhibit: Exhibit, now: int) -> Opening:
        """Return the hearing that the referee submits to the panel."""
        terms, job = match.terms, self.jobs[match.job_id].terms
        dispute = Dispute((exhibit.record0, exhibit.record1), exhibit.structure, terms.program.mode)
        submission = Submission(
            match_id=terms.match_id,
            jobs=self.address,
            job_id=match.job_id,
            step=state.end,
            node=state.index,
            players=terms.players,
            records=state.node,
            dispute=dispute_hash(dispute),
        )
        heard = HearingTerms(
            hearing_id=hearing_id(self.referee, terms.match_id),
            submission=submission,
            dispute=dispute,
            rules=job.rules,
            stake=self.stake_of(match.job_id),
            verifiers=job.verifiers,
            chain_id=self.chain_id,
            panel=self.panel.address,
        )
        return self.panel.opening(heard, now)

    def _ruled(self, match_id: int, losers: int, reason: Reason, deciders: tuple[str, ...], now: int) -> None:
        """End a match as the panel has decided."""
        match = self.matches[match_id]
        match.state = rules.hearing_decided(match.state, losers, reason)
        self._resolve(match, deciders, now)

    def _bond(self, terms: HearingTerms) -> int:
        return self.stake_of(terms.submission.job_id)

    # --- groups ---------------------------------------------------------------------------------------------------

    def during(self, job_id: int, want: JobPhase, now: int) -> Job:
        """Return the job. Raises WrongPhase unless it is in phase ``want``."""
        job = self.jobs.get(job_id)
        have = job.phase(now) if job else JobPhase.NONE
        require(have is want, WrongPhase, have.name, want.name)
        assert job is not None
        return job

    def _end_reveal(self, job: Job, reveal_end: int) -> None:
        job.reveal_end, job.challenge_end = reveal_end, reveal_end + job.terms.challenge_period

    def at_risk(self) -> int:
        """Return the stakes and rewards that nobody has been credited with yet, in wei."""
        total = 0
        for job in self.jobs.values():
            claims = [claim for claim in job.claims if not claim.lost and not claim.collected]
            if job.ended:
                total += sum(job.due(claim) for claim in claims)
            else:
                total += job.reward + job.unrevealed + sum(claim.stake for claim in claims)
        return total


def _checkpoints(job: Job) -> int:
    """Return the number of leaves of a run tree of the job."""
    program = job.terms.program
    return leaf_count(0, program.steps, program.strides[0])


def _check_refutation(job: Job, refutation: Refutation) -> bytes:
    """Return a refutation's root. Raises a Refusal for one that is not of the claimed run tree, or does not differ."""
    count = _checkpoints(job)
    interval, path = refutation.interval, refutation.path
    require(interval < count, refusals.NoSuchInterval, interval, count)
    require(refutation.computed != refutation.claimed, refusals.SameCheckpoint, refutation.computed)
    proven(Tag.RUN_TREE, refutation.claimed, interval, path, depth_of(count), refutation.root)
    return fold_path(Tag.RUN_TREE, refutation.computed, interval, path)


def _check_claim(job: Job, claim: Claim) -> None:
    """Raise a Refusal unless `last` is the last leaf of the run tree."""
    count = _checkpoints(job)
    proven(Tag.RUN_TREE, claim.last, count - 1, claim.last_path, depth_of(count), claim.root)
