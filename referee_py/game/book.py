"""Jobs, claims, groups and money: the contract `Jobs` in Python (docs/protocol.md, section 6).

A `Book` is a whole chain as far as the game goes: it owns the jobs and their matches, takes every move of both
contracts in order, and refuses what they refuse. With it a whole history can be simulated.

INVARIANT: ether in = credits + stakes at risk + rewards in escrow + ether withdrawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ..commit import NO_LOG, Tag, depth_of, digest
from ..rounding.mode import is_rounded
from . import refusals, rules
from .judge import proven
from .refusals import require
from .state import MatchState, MatchTerms, Move, Phase, ProgramHeader, Reason, leaf_count, sides

BURNED = "0x000000000000000000000000000000000000dEaD"
MAX_CLAIMS = 64
PRIZE_DIVISOR = 2
VERDICT_DIVISOR = 10
EMPTY_COMMITMENT = bytes(32)


class JobPhase(IntEnum):
    """Where a job stands. The zero phase is no job."""

    NONE = 0
    TRAINING = 1
    REVEAL = 2
    CHALLENGE = 3
    CLOSING = 4
    ACCEPTED = 5
    UNCLAIMED = 6
    VOID = 7

    @property
    def ended(self) -> bool:
        return self >= JobPhase.ACCEPTED


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What a client asks for, as far as the game needs it. Periods are seconds, the stake is in wei."""

    program: ProgramHeader
    slots: int
    stake: int
    train_period: int
    reveal_period: int
    challenge_period: int
    clock: int
    verdict_period: int
    threshold: int
    verifiers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A run root with its last checkpoint, and the proof that it is the last leaf."""

    root: bytes
    last: bytes
    last_path: tuple[bytes, ...]


@dataclass(slots=True)
class Trainer:
    """A slot holder."""

    owner: str
    commitment: bytes = EMPTY_COMMITMENT
    revealed: bool = False


@dataclass(slots=True)
class StakedClaim:
    owner: str
    group: int
    slot: bool
    lost: bool = False


@dataclass(slots=True)
class Group:
    """All claims of one root. INVARIANT: exactly the members before the spokesman have lost."""

    root: bytes
    last: bytes
    members: list[int] = field(default_factory=list)
    spokesman: int = 0
    match_id: int = 0

    @property
    def dead(self) -> bool:
        return self.spokesman == len(self.members)


@dataclass(slots=True)
class Match:
    """A match with what is fixed about it."""

    job_id: int
    terms: MatchTerms
    state: MatchState
    groups: tuple[int, int]


@dataclass(slots=True)
class Job:
    terms: JobTerms
    client: str
    reward: int
    posted: int
    commit_end: int
    reveal_end: int
    challenge_end: int
    ended: JobPhase = JobPhase.NONE
    waiting: int | None = None
    open_matches: int = 0
    trainers: list[Trainer] = field(default_factory=list)
    claims: list[StakedClaim] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    accepted: int | None = None
    logs: bytes = NO_LOG

    def phase(self, now: int) -> JobPhase:
        """A phase contains its first instant, not its last."""
        if self.ended:
            return self.ended
        if now < self.commit_end:
            return JobPhase.TRAINING
        if now < self.reveal_end:
            return JobPhase.REVEAL
        return JobPhase.CHALLENGE if now < self.challenge_end else JobPhase.CLOSING

    @property
    def rounded(self) -> bool:
        """Whether its runs have rounding logs."""
        return is_rounded(self.terms.program.mode)

    def trainer(self, sender: str) -> Trainer:
        found = next((trainer for trainer in self.trainers if trainer.owner == sender), None)
        if found is None:
            raise refusals.NotTrainer(f"{sender} holds no slot")
        return found

    def spokesman(self, group: int) -> StakedClaim:
        members = self.groups[group]
        return self.claims[members.members[members.spokesman]]


def commitment(
    chain_id: int, jobs: str, job_id: int, sender: str, root: bytes, last: bytes, logs: bytes, salt: bytes
) -> bytes:
    """What a trainer commits to: it binds chain, contract, job and sender, so nobody can copy it."""
    where = (chain_id.to_bytes(32, "big"), _address(jobs), job_id.to_bytes(32, "big"), _address(sender))
    return digest(Tag.COMMITMENT, *where, root, last, logs, salt)


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))


class Book:
    """Both contracts. Every move is one transaction: it takes effect whole or raises a Refusal.

    NOTE: matches are numbered from 1. Where they must have a chain's ids, `rename` gives them.
    """

    def __init__(self, chain_id: int, jobs: str, referee: str) -> None:
        self.chain_id = chain_id
        self.address = jobs
        self.referee = referee
        self.jobs: dict[int, Job] = {}
        self.matches: dict[int, Match] = {}
        self.credits: dict[str, int] = {}
        self.withdrawn = 0

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
        job = self._during(job_id, JobPhase.TRAINING, now)
        require(value == job.terms.stake, refusals.WrongStake, value, job.terms.stake)
        require(len(job.trainers) < job.terms.slots, refusals.NoFreeSlot, job_id)
        require(all(t.owner != sender for t in job.trainers), refusals.AlreadyJoined, sender)
        job.trainers.append(Trainer(sender))

    def commit(self, job_id: int, commitment: bytes, sender: str, now: int) -> None:
        job = self._during(job_id, JobPhase.TRAINING, now)
        trainer = job.trainer(sender)
        require(trainer.commitment == EMPTY_COMMITMENT, refusals.AlreadyCommitted, sender)
        require(commitment != EMPTY_COMMITMENT, refusals.EmptyCommitment)
        trainer.commitment = commitment
        if sum(t.commitment != EMPTY_COMMITMENT for t in job.trainers) == job.terms.slots:
            job.commit_end = now
            self._end_reveal(job, now + job.terms.reveal_period)

    def reveal(self, job_id: int, claim: Claim, logs: bytes, salt: bytes, sender: str, now: int) -> None:
        job = self._during(job_id, JobPhase.REVEAL, now)
        trainer = job.trainer(sender)
        require(trainer.commitment != EMPTY_COMMITMENT, refusals.NothingCommitted, sender)
        require(not trainer.revealed, refusals.AlreadyClaimed, sender)
        have = commitment(self.chain_id, self.address, job_id, sender, claim.root, claim.last, logs, salt)
        require(have == trainer.commitment, refusals.WrongCommitment, have, trainer.commitment)
        _check_claim(job, claim)
        require(job.rounded or logs == NO_LOG, refusals.UnexpectedLogs, logs)
        job.logs = logs
        trainer.revealed = True
        if all(t.revealed for t in job.trainers if t.commitment != EMPTY_COMMITMENT):
            self._end_reveal(job, now)
        self._claim(job_id, claim, sender, slot=True, now=now)

    def challenge(self, job_id: int, claim: Claim, sender: str, value: int, now: int) -> None:
        job = self._during(job_id, JobPhase.CHALLENGE, now)
        require(value == job.terms.stake, refusals.WrongStake, value, job.terms.stake)
        require(all(c.owner != sender for c in job.claims), refusals.AlreadyClaimed, sender)
        # SAFETY: without the trainer's logs no run is the right one, so nobody could defend a claim.
        revealed = any(trainer.revealed for trainer in job.trainers)
        require(revealed or not job.rounded, refusals.LogsNotRevealed, job_id)
        require(len(job.claims) < MAX_CLAIMS, refusals.TooManyClaims, job_id)
        # SAFETY: a second claim of a living root would risk nothing, and 64 of them would shut out whoever is right.
        claimed = any(group.root == claim.root and not group.dead for group in job.groups)
        require(not claimed, refusals.RootClaimed, claim.root)
        _check_claim(job, claim)
        self._claim(job_id, claim, sender, slot=False, now=now)

    def finalize(self, job_id: int, now: int) -> None:
        job = self._during(job_id, JobPhase.CLOSING, now)
        require(not job.open_matches, refusals.MatchesOpen, job_id, job.open_matches)
        if len(job.claims) == MAX_CLAIMS:
            self._void(job)  # A root is accepted only if anybody could have disputed it to the end.
            return
        # Who took a slot and showed no claim kept another from it.
        self._credit(BURNED, job.terms.stake * sum(not t.revealed for t in job.trainers))
        if job.waiting is None:
            job.ended = JobPhase.UNCLAIMED
            self._credit(job.client, job.reward)
            return
        job.ended, job.accepted = JobPhase.ACCEPTED, job.waiting
        self._pay(job, job.groups[job.waiting])

    def withdraw(self, sender: str) -> int:
        """The amount that is sent."""
        amount = self.credits.pop(sender, 0)
        require(amount > 0, refusals.NothingToPay, sender)
        self.withdrawn += amount
        return amount

    # --- moves of Referee -----------------------------------------------------------------------------------------

    def play(self, match_id: int, moves: Sequence[Move], sender: str, now: int) -> None:
        """Moves of one match in one transaction."""
        match = self.matches.get(match_id)
        if match is None:
            raise refusals.WrongPhase(f"there is no match {match_id}")
        state = match.state
        for move in moves:
            state = rules.apply(state, match.terms, move, sender, now)
        match.state = state
        if state.phase is Phase.DONE:
            self._resolve(match, now)

    # --- groups ---------------------------------------------------------------------------------------------------

    def _during(self, job_id: int, want: JobPhase, now: int) -> Job:
        job = self.jobs.get(job_id)
        have = job.phase(now) if job else JobPhase.NONE
        require(have is want, refusals.WrongPhase, have.name, want.name)
        assert job is not None
        return job

    def _end_reveal(self, job: Job, reveal_end: int) -> None:
        job.reveal_end, job.challenge_end = reveal_end, reveal_end + job.terms.challenge_period

    def _claim(self, job_id: int, claim: Claim, sender: str, *, slot: bool, now: int) -> None:
        """A proven claim joins the group of its root or founds it. A group without a living member enters."""
        job = self.jobs[job_id]
        number = next((k for k, group in enumerate(job.groups) if group.root == claim.root), len(job.groups))
        if number == len(job.groups):
            job.groups.append(Group(claim.root, claim.last))
        group = job.groups[number]
        dead = group.dead
        group.members.append(len(job.claims))
        job.claims.append(StakedClaim(sender, number, slot))
        if dead:
            self._enter(job_id, number, now)

    def _enter(self, job_id: int, number: int, now: int) -> None:
        """A group takes the waiting place, or meets who is there."""
        job = self.jobs[job_id]
        if job.waiting is None:
            job.waiting = number
            return
        pair = (job.waiting, number)
        job.waiting = None
        job.open_matches += 1
        match_id = len(self.matches) + 1
        terms = MatchTerms(
            program=job.terms.program,
            clock=job.terms.clock,
            verdict_period=job.terms.verdict_period,
            threshold=job.terms.threshold,
            verifiers=job.terms.verifiers,
            players=(job.spokesman(pair[0]).owner, job.spokesman(pair[1]).owner),
            match_id=match_id,
            chain_id=self.chain_id,
            referee=self.referee,
            logs=job.logs,
        )
        roots = (job.groups[pair[0]].root, job.groups[pair[1]].root)
        self.matches[match_id] = Match(job_id, terms, rules.opened(terms, roots, now), pair)
        for group in pair:
            job.groups[group].match_id = match_id

    def rename(self, old: int, new: int) -> None:
        """Give a match the id that a chain gave it; the votes that count are signed for that id."""
        match = self.matches.pop(old)
        match.terms = replace(match.terms, match_id=new)
        self.matches[new] = match
        for number in match.groups:
            self.jobs[match.job_id].groups[number].match_id = new

    def _resolve(self, match: Match, now: int) -> None:
        job = self.jobs[match.job_id]
        job.open_matches -= 1
        for number in match.groups:
            job.groups[number].match_id = 0
        if job.ended:  # another match made the job void, and everybody is paid
            return
        if match.state.reason is Reason.UNRESOLVED:
            self._void(job)
            return
        self._settle(job, match)
        for number in match.groups:
            self._reenter(match.job_id, number, now)

    def _reenter(self, job_id: int, number: int, now: int) -> None:
        job = self.jobs[job_id]
        if not job.groups[number].dead:
            self._enter(job_id, number, now)
            return
        # SAFETY: a bad spokesman can give a right root away, so whoever knows better may claim it again.
        job.challenge_end = max(job.challenge_end, now + job.terms.challenge_period)

    # --- money ----------------------------------------------------------------------------------------------------

    def _credit(self, account: str, amount: int) -> None:
        if amount:
            self.credits[account] = self.credits.get(account, 0) + amount

    def _settle(self, job: Job, match: Match) -> None:
        """The losers' stakes: half to a winner, a tenth to the verifiers who decided, the rest is burned."""
        state = match.state
        losers = sides(state.losers)
        for side in losers:
            group = job.groups[match.groups[side]]
            job.claims[group.members[group.spokesman]].lost = True
            group.spokesman += 1
        pot = rest = job.terms.stake * len(losers)
        if len(losers) == 1:
            prize = pot // PRIZE_DIVISOR
            self._credit(job.spokesman(match.groups[1 - losers[0]]).owner, prize)
            rest -= prize
        if state.reason is Reason.OPERATOR:
            deciders = [verifier for verifier, record in state.votes if record == state.votes[-1][1]]
            share_down = pot // VERDICT_DIVISOR // len(deciders)
            for verifier in deciders:
                self._credit(verifier, share_down)
            rest -= share_down * len(deciders)
        self._credit(BURNED, rest)

    def _void(self, job: Job) -> None:
        """Nobody can be shown wrong: everybody gets back what is not lost yet."""
        job.ended, job.waiting = JobPhase.VOID, None
        self._credit(job.client, job.reward)
        for owner in [c.owner for c in job.claims if not c.lost] + [
            t.owner for t in job.trainers if not t.revealed
        ]:
            self._credit(owner, job.terms.stake)

    def _pay(self, job: Job, group: Group) -> None:
        """Stakes back to the members that have not lost; the reward to those of them that hold a slot."""
        members = [job.claims[number] for number in group.members[group.spokesman :]]
        paid = [member for member in members if member.slot] or members[:1]
        share_down, remainder = divmod(job.reward, len(paid))
        for member in members:
            self._credit(member.owner, job.terms.stake)
        for k, member in enumerate(paid):
            self._credit(member.owner, share_down + (remainder if k == 0 else 0))

    def at_risk(self) -> int:
        """Stakes and rewards that are nobody's credit yet."""
        total = 0
        for job in self.jobs.values():
            if not job.ended:
                stakes = sum(not c.lost for c in job.claims) + sum(not t.revealed for t in job.trainers)
                total += job.reward + stakes * job.terms.stake
        return total


def _check_claim(job: Job, claim: Claim) -> None:
    """`last` must be the last checkpoint of the run."""
    program = job.terms.program
    count = leaf_count(0, program.steps, program.strides[0])
    proven(Tag.RUN_TREE, claim.last, count - 1, claim.last_path, depth_of(count), claim.root)
