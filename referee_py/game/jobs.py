"""What a job is: its terms, trainers, claims and groups (docs/protocol.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from ..commit import NO_LOG, Tag, digest
from ..panel.state import Rules
from ..rounding.mode import is_rounded
from . import refusals
from .state import MatchState, MatchTerms, ProgramHeader

EMPTY_COMMITMENT = bytes(32)
FLAT = 16
"""Each root that challengers bring is dearer by this part of the stake."""
TRAINERS_GROUP = 0
"""In a mode with logs. INVARIANT: nobody can claim there before the one trainer has."""


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
    rules: Rules
    verifiers: tuple[str, ...]
    low_fee: int = 1
    """The least and the most that a unit of gas counts for, in wei."""
    high_fee: int = 1
    watch_period: int = 0
    """For how long nobody reveals after the last trainer has committed."""


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
    stake: int
    """What it put at risk when it took the slot."""
    commitment: bytes = EMPTY_COMMITMENT
    revealed: bool = False


@dataclass(slots=True)
class StakedClaim:
    owner: str
    stake: int
    group: int
    slot: bool
    lost: bool = False
    collected: bool = False


@dataclass(slots=True)
class Group:
    """All claims of one root. INVARIANT: exactly the members before the spokesman have lost."""

    root: bytes
    last: bytes
    members: list[int] = field(default_factory=list)
    spokesman: int = 0
    match_id: int = 0
    deaths: int = 0
    """How often all members there were had lost."""
    until: int = 0
    """The challenge phase is over. Dead: until then the root can be claimed again. Living: requested of."""

    @property
    def dead(self) -> bool:
        return self.spokesman == len(self.members)

    def claimable(self, now: int) -> bool:
        """Whether the root can be claimed once the challenge phase is over."""
        return self.spokesman > 0 and (not self.dead or now < self.until)


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
    reclaim_end: int = 0
    """The latest ``until`` of its groups; 0 if there is none."""
    founded: int = 0
    """Roots that challengers were the first to claim."""
    followers: int = 0
    """Challengers' claims of roots that were claimed already."""
    accepted: int | None = None
    logs: bytes = NO_LOG
    finder: str | None = None
    """Who requested of the logs what nobody has shown in time: then nothing is accepted."""
    challenges: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """By account: what it has committed to challenge with, and when."""

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

    def lose(self, group: int) -> int:
        """The spokesman loses its claim; the next member speaks, or the group is dead. The stake that is lost."""
        members, lost = self.groups[group], self.spokesman(group)
        lost.lost = True
        members.spokesman += 1
        members.deaths += members.dead
        return lost.stake

    def group_of(self, root: bytes) -> Group | None:
        return next((group for group in self.groups if group.root == root), None)

    @property
    def unrevealed(self) -> int:
        """Stakes of the slots that nobody has revealed a claim for."""
        return sum(trainer.stake for trainer in self.trainers if not trainer.revealed)

    def due(self, claim: StakedClaim) -> int:
        """What a claim that is not lost gets when the job is over: its stake, and its share of the reward.

        The reward is shared by the members that hold slots, the remainder is the first one's; it is the spokesman's if
        none does.
        """
        if self.accepted is None:
            return claim.stake
        members = [self.claims[k] for k in self.groups[self.accepted].members if not self.claims[k].lost]
        paid = [member for member in members if member.slot] or members[:1]
        share_down, remainder = divmod(self.reward, len(paid))
        if claim not in paid:
            return claim.stake
        return claim.stake + share_down + (remainder if claim is paid[0] else 0)

    def spokesman(self, group: int) -> StakedClaim:
        members = self.groups[group]
        return self.claims[members.members[members.spokesman]]


def fee_at(base_fee: int, low: int, high: int) -> int:
    """What a unit of gas counts for, in wei: twice what a block asks, within the bounds of a job's terms."""
    return max(low, min(2 * base_fee, high))


def claim_price(stake: int, founded: int, followers: int, *, claimed: bool) -> int:
    """What a challenger's claim has to stake, in wei, where a slot takes ``stake`` now, after ``founded`` new roots of
    challengers and ``followers`` claims of roots that were ``claimed`` already (docs/protocol.md, section 6)."""
    return stake << (followers + 1) if claimed else stake * (FLAT + founded) // FLAT


def commitment(
    chain_id: int, jobs: str, job_id: int, sender: str, root: bytes, last: bytes, logs: bytes, salt: bytes
) -> bytes:
    """What a trainer commits to: it binds chain, contract, job and sender, so nobody can copy it."""
    where = (chain_id.to_bytes(32, "big"), _address(jobs), job_id.to_bytes(32, "big"), _address(sender))
    return digest(Tag.COMMITMENT, *where, root, last, logs, salt)


def _address(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))
