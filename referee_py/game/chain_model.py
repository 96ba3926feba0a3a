"""Jobs, claims, groups and money: the contract `Jobs` in Python (docs/protocol.md, section 6).

A `ChainModel` is a whole chain as far as the game goes: it owns the jobs, their matches and the panel, takes every
move of all contracts in order, and refuses what they refuse. With it a whole history can be simulated.

INVARIANT: ether in = credits + stakes at risk + rewards in escrow + ether withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..availability.contract import DataAvailability
from ..commit import NO_LOG, Tag, depth_of
from ..panel.contract import Opening, Panel
from ..panel.registry import Registry
from ..panel.state import HearingTerms, Submission, hearing_id
from ..trial import Dispute, dispute_hash
from . import refusals, rules
from .availability_hook import AvailabilityHook
from .escrow import BURNED, PRIZE_DIVISOR
from .jobs import (
    EMPTY_COMMITMENT,
    TRAINERS_GROUP,
    Claim,
    Group,
    Job,
    JobPhase,
    JobTerms,
    Match,
    StakedClaim,
    Trainer,
    commitment,
)
from .judge import proven
from .market import Market
from .refusals import require
from .state import (
    Exhibit,
    MatchState,
    MatchTerms,
    Move,
    Phase,
    Reason,
    Submit,
    leaf_count,
    sides,
)

VERDICT_DIVISOR = 10
"""The share of a lost stake that goes to the verifiers who decided; where there is a winner, out of its half."""


class ChainModel(Market):
    """All contracts; the credits are those of Jobs. Every move is one transaction: it takes effect whole or raises a
    Refusal.

    NOTE: matches are numbered from 1. Where they must have a chain's ids, `rename` gives them before any is submitted.
    """

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
        """Seconds of the chain: how old a commitment must be for a challenge."""
        self.behind = 0
        """Seconds by which the contracts' clocks are behind the chain, of which alone a commitment goes by."""
        self.matches: dict[int, Match] = {}
        self.panel = Panel(panel, registry or Registry(), self._ruled, self._bond)
        self.data_availability = DataAvailability(AvailabilityHook(self))

    # --- moves of Jobs --------------------------------------------------------------------------------------------

    def post(self, terms: JobTerms, sender: str, value: int, now: int) -> int:
        """A new job; the value is its reward. NOTE: what the contract checks in terms is taken as checked."""
        job_id = len(self.jobs) + 1
        commit_end = now + terms.train_period
        reveal_end = commit_end + terms.reveal_period
        job = Job(terms, sender, value, now, commit_end, reveal_end, reveal_end + terms.challenge_period)
        self.jobs[job_id] = job
        return job_id

    def join(self, job_id: int, sender: str, value: int, now: int) -> None:
        job = self.during(job_id, JobPhase.TRAINING, now)
        stake = self.stake_of(job_id)
        require(value >= stake, refusals.WrongStake, value, stake)
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
        # SAFETY: whoever shows the claim wrong is paid out of its stake, at what gas costs once there is one to show.
        stake = max(trainer.stake, self.stake_of(job_id))
        require(trainer.stake + value >= stake, refusals.WrongStake, trainer.stake + value, stake)
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
        # SAFETY: nobody trains for a trainer who shows nothing, so nobody would know of a wrong claim in time.
        require(any(trainer.revealed for trainer in job.trainers), refusals.NothingRevealed, job_id)
        self._check_committed(job_id, claim, salt, sender, now)
        group = job.group_of(claim.root)
        # SAFETY: were new roots admitted later each would put the end off by a match.
        claimable = group is not None and group.claimable(now) and job.finder is None
        require(not closed or claimable, refusals.RootClosed, claim.root)
        stake = self.price_of(job_id, claim.root)
        require(value >= stake, refusals.WrongStake, value, stake)
        if group is None:
            job.founded += 1
        else:
            job.followers += 1
        self._claim(job_id, claim, sender, stake, slot=False, now=now)
        self.credit(sender, value - stake)

    def _check_committed(self, job_id: int, claim: Claim, salt: bytes, sender: str, now: int) -> None:
        """Who has seen a claim on its way into a block can commit to it then at the earliest, and then waits."""
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
        # Who took a slot and showed no claim kept another from it.
        self.credit(BURNED, job.unrevealed)
        if job.waiting is None:
            # A root is accepted only if anybody could have disputed it to the end; without the logs nobody could.
            job.ended = JobPhase.UNCLAIMED if job.finder is None else JobPhase.VOID
            self.credit(job.client, job.reward)
            return
        job.ended, job.accepted = JobPhase.ACCEPTED, job.waiting

    def collect(self, job_id: int, number: int) -> None:
        """The job is over: what a claim that is not lost gets is its owner's credit, whoever calls it."""
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
        """Moves of one match in one transaction."""
        match = self.matches.get(match_id)
        if match is None:
            raise refusals.WrongPhase(f"there is no match {match_id}")
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
        """What the referee hands to the panel."""
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
        """The panel ends a match."""
        match = self.matches[match_id]
        match.state = rules.hearing_decided(match.state, losers, reason)
        self._resolve(match, deciders, now)

    def _bond(self, terms: HearingTerms) -> int:
        return self.stake_of(terms.submission.job_id)

    # --- groups ---------------------------------------------------------------------------------------------------

    def during(self, job_id: int, want: JobPhase, now: int) -> Job:
        """The job, which must be in that phase."""
        job = self.jobs.get(job_id)
        have = job.phase(now) if job else JobPhase.NONE
        require(have is want, refusals.WrongPhase, have.name, want.name)
        assert job is not None
        return job

    def _end_reveal(self, job: Job, reveal_end: int) -> None:
        job.reveal_end, job.challenge_end = reveal_end, reveal_end + job.terms.challenge_period

    def _claim(self, job_id: int, claim: Claim, sender: str, stake: int, *, slot: bool, now: int) -> None:
        """A proven claim joins the group of its root, behind all members that it has, or founds it. A group without a
        living member enters."""
        job = self.jobs[job_id]
        number = next((k for k, group in enumerate(job.groups) if group.root == claim.root), len(job.groups))
        if number == len(job.groups):
            job.groups.append(Group(claim.root, claim.last))
        group = job.groups[number]
        dead = group.dead
        group.members.append(len(job.claims))
        job.claims.append(StakedClaim(sender, stake, number, slot))
        if dead:
            # SAFETY: of a claim in the last second, too, what it commits to can be requested.
            if (not slot or len(group.members) > 1) and job.finder is None:
                self._delay(job, group, now)
            self._enter(job_id, number, now)

    def _enter(self, job_id: int, number: int, now: int) -> None:
        """A group takes the waiting place, or meets who is there. Where logs are withheld nobody plays any more."""
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
        """Give a match the id and the number that a chain gave it; its hearing has an id by that one."""
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
        """A group with a member left enters again; one without is dead. Where logs are withheld neither matters."""
        job = self.jobs[job_id]
        group = job.groups[number]
        if job.finder is not None:
            if number == TRAINERS_GROUP:
                self.condemn(job)
            return
        if not group.dead:
            self._enter(job_id, number, now)
            return
        # SAFETY: bad spokesmen can give a right root away, so whoever knows better may claim it again.
        self._delay(job, group, now)

    def _delay(self, job: Job, group: Group, now: int) -> None:
        """A root was lost, or begins to live: a challenge period to claim it, or to request what it commits to."""
        group.until = job.reclaim_end = now + job.terms.challenge_period

    # --- money ----------------------------------------------------------------------------------------------------

    def _distribute(self, job: Job, match: Match, deciders: Sequence[str]) -> None:
        """The losers' stakes: half to a winner and the verifiers who decided, of the whole a tenth to these. The rest
        is burned.

        SAFETY: were the tenth not out of the winner's half, to lose to oneself with verifiers of one's own would cost
        less than half a stake.
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
        """Of what is lost without a match half is the finder's, the rest is burned."""
        prize = pot // PRIZE_DIVISOR
        self.credit(finder, prize)
        self.credit(BURNED, pot - prize)

    def condemn(self, job: Job) -> None:
        """A trainer who has withheld its logs loses its claim, unless it has lost it before."""
        if job.finder is not None and job.groups[TRAINERS_GROUP].spokesman == 0:
            self.reward(job.finder, job.lose(TRAINERS_GROUP))

    def at_risk(self) -> int:
        """Stakes and rewards that are nobody's credit yet."""
        total = 0
        for job in self.jobs.values():
            claims = [claim for claim in job.claims if not claim.lost and not claim.collected]
            if job.ended:
                total += sum(job.due(claim) for claim in claims)
            else:
                total += job.reward + job.unrevealed + sum(claim.stake for claim in claims)
        return total


def _check_claim(job: Job, claim: Claim) -> None:
    """`last` must be the last checkpoint of the run."""
    program = job.terms.program
    count = leaf_count(0, program.steps, program.strides[0])
    proven(Tag.RUN_TREE, claim.last, count - 1, claim.last_path, depth_of(count), claim.root)
