"""Jobs, claims, groups and money: the contract `Jobs` in Python (docs/protocol.md, section 6).

INVARIANT: ether in = credits + stakes at risk + rewards in escrow + ether withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..commit import NO_LOG, Tag, depth_of
from ..game import rules
from ..game.state import Exhibit, MatchState, MatchTerms, Move, Phase, Submit
from ..jobs import EMPTY_COMMITMENT, JobPhase, commitment
from ..panel.state import HearingTerms, Submission, hearing_id
from ..params import BURNED, PRIZE_DIVISOR, VERDICT_DIVISOR
from ..program.terms import leaf_count
from ..walk.dispute import Dispute, dispute_hash
from ..walk.proof import proven
from ..walk.reason import Reason
from ..walk.refusals import WrongPhase, WrongStake, require
from ..walk.sides import sides
from . import refusals
from .data_availability import DataAvailability
from .jobs import TRAINERS_GROUP, Claim, Group, Job, JobTerms, Match, StakedClaim, Trainer
from .market import Market
from .panel import Opening, Panel
from .registry import Registry


class JobsContract(Market):
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
        self.matches: dict[int, Match] = {}
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

    def commit_challenge(self, job_id: int, commitment: bytes, sender: str, now: int) -> None:
        job = self.jobs[job_id]
        require(commitment != EMPTY_COMMITMENT, refusals.EmptyCommitment)
        job.challenges[sender] = (commitment, now + self.behind)

    def challenge(self, job_id: int, claim: Claim, salt: bytes, sender: str, value: int, now: int) -> None:
        closed = job_id in self.jobs and self.jobs[job_id].phase(now) is JobPhase.CLOSING
        job = self.during(job_id, JobPhase.CLOSING if closed else JobPhase.CHALLENGE, now)
        require(all(c.owner != sender for c in job.claims), refusals.AlreadyClaimed, sender)
        # SAFETY: nobody replays for a trainer that shows nothing, so nobody would notice a wrong claim in time.
        require(any(trainer.revealed for trainer in job.trainers), refusals.NothingRevealed, job_id)
        self._check_committed(job_id, claim, salt, sender, now)
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

    def _check_committed(self, job_id: int, claim: Claim, salt: bytes, sender: str, now: int) -> None:
        """Check the sender's commitment. A copier of a pending claim must commit first, and wait until that is old."""
        committed, at = self.jobs[job_id].challenges.get(sender, (EMPTY_COMMITMENT, 0))
        require(committed != EMPTY_COMMITMENT, refusals.NothingCommitted, sender)
        ripe = at + self.commit_age
        require(now + self.behind >= ripe, refusals.TooSoon, ripe)
        _check_claim(self.jobs[job_id], claim)
        have = commitment(self.chain_id, self.address, job_id, sender, claim.root, claim.last, NO_LOG, salt)
        require(have == committed, refusals.WrongCommitment, have, committed)

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

    def _claim(self, job_id: int, claim: Claim, sender: str, stake: int, *, slot: bool, now: int) -> None:
        """Add a claim as the last member of its root's group, or found the group. A group that had no living member
        enters."""
        job = self.jobs[job_id]
        number = next((k for k, group in enumerate(job.groups) if group.root == claim.root), len(job.groups))
        if number == len(job.groups):
            job.groups.append(Group(claim.root, claim.last))
        group = job.groups[number]
        dead = group.dead
        group.members.append(len(job.claims))
        job.claims.append(StakedClaim(sender, stake, number, slot))
        if dead:
            # SAFETY: data can be requested even of a root that is claimed in the last second.
            if (not slot or len(group.members) > 1) and job.finder is None:
                self._delay(job, group, now)
            self._enter(job_id, number, now)

    def _enter(self, job_id: int, number: int, now: int) -> None:
        """Put a group in the waiting place, or pair it with the group there. No effect if logs are withheld."""
        job = self.jobs[job_id]
        if job.finder is not None:
            return
        if job.waiting is None:
            job.waiting = number
            return
        pair = (job.waiting, number)
        job.waiting = None
        job.open_matches += 1
        match_id = len(self.matches) + 1
        terms = MatchTerms(
            program=job.terms.program,
            clock=job.terms.rules.clock,
            players=(job.spokesman(pair[0]).owner, job.spokesman(pair[1]).owner),
            match_id=match_id,
            logs=job.logs,
            roots=(job.groups[pair[0]].root, job.groups[pair[1]].root),
            number=match_id,
        )
        self.matches[match_id] = Match(job_id, terms, rules.opened(terms, now), pair)
        for group in pair:
            job.groups[group].match_id = match_id

    def rename(self, old: int, new: int, number: int) -> None:
        """Give a match the id and the number that a chain gave it, before its hearing, whose id follows from them."""
        match = self.matches.pop(old)
        match.terms = replace(match.terms, match_id=new, number=number)
        self.matches[new] = match
        for number in match.groups:
            self.jobs[match.job_id].groups[number].match_id = new

    def _resolve(self, match: Match, deciders: Sequence[str], now: int) -> None:
        job = self.jobs[match.job_id]
        job.open_matches -= 1
        for number in match.groups:
            job.groups[number].match_id = 0
        self._distribute(job, match, deciders)
        for number in match.groups:
            self.reenter(match.job_id, number, now)

    def reenter(self, job_id: int, number: int, now: int) -> None:
        """Let a living group enter again, or begin the reclaim period of a dead one. Neither if logs are withheld."""
        job = self.jobs[job_id]
        group = job.groups[number]
        if job.finder is not None:
            if number == TRAINERS_GROUP:
                self.condemn(job)
            return
        if not group.dead:
            self._enter(job_id, number, now)
            return
        # SAFETY: a bad spokesman can give a right root away, so anybody may claim the root again.
        self._delay(job, group, now)

    def _delay(self, job: Job, group: Group, now: int) -> None:
        """Begin a challenge period in which a lost root can be claimed again, or data of a new one requested."""
        group.until = job.reclaim_end = now + job.terms.challenge_period

    # --- money ----------------------------------------------------------------------------------------------------

    def _distribute(self, job: Job, match: Match, deciders: Sequence[str]) -> None:
        """Distribute the losers' stakes: half to a winner, out of which the deciding verifiers get a tenth.
        Without a winner they get a tenth of both. The rest is burned.

        SAFETY: the tenth comes out of the half. So losing to oneself costs half a stake, even with one's own verifiers.
        """
        losers = sides(match.state.losers)
        pot = sum(job.lose(match.groups[side]) for side in losers)
        shares = 0
        if deciders:
            share_down = pot // VERDICT_DIVISOR // len(deciders)
            for verifier in deciders:
                self.credit(verifier, share_down)
            shares = share_down * len(deciders)
        if len(losers) == 1:
            half = pot // PRIZE_DIVISOR
            self.credit(job.spokesman(match.groups[1 - losers[0]]).owner, half - shares)
            self.credit(BURNED, pot - half)
        else:
            self.credit(BURNED, pot - shares)

    def reward(self, finder: str, pot: int) -> None:
        """Distribute stakes lost without a match, in wei: half to the finder, the rest is burned."""
        prize = pot // PRIZE_DIVISOR
        self.credit(finder, prize)
        self.credit(BURNED, pot - prize)

    def condemn(self, job: Job) -> None:
        """Take the claim of a trainer that has withheld its logs, unless it is lost already."""
        if job.finder is not None and job.groups[TRAINERS_GROUP].spokesman == 0:
            self.reward(job.finder, job.lose(TRAINERS_GROUP))

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


def _check_claim(job: Job, claim: Claim) -> None:
    """Raise a Refusal unless `last` is the last leaf of the run tree."""
    program = job.terms.program
    count = leaf_count(0, program.steps, program.strides[0])
    proven(Tag.RUN_TREE, claim.last, count - 1, claim.last_path, depth_of(count), claim.root)
