"""A job's state: its terms, trainers, claims and groups (docs/protocol.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field

from referee_py.commit import NO_LOG
from referee_py.game.state import MatchState, MatchTerms
from referee_py.jobs import EMPTY_COMMITMENT, JobPhase, Rules
from referee_py.program.terms import Terms

from . import refusals

RESIGNING = 32
"""The part of its stake that it costs a slot holder to resign."""
TRAINERS_GROUP = 0
"""Number of the trainer's group in a mode with logs. INVARIANT: there nobody can claim before the one trainer."""


@dataclass(frozen=True, slots=True)
class JobTerms:
    """A job's terms, as far as the model needs them. Periods are seconds, the stake is in wei."""

    program: Terms
    slots: int
    stake: int
    train_period: int
    reveal_period: int
    challenge_period: int
    rules: Rules
    verifiers: tuple[str, ...]
    low_fee: int = 1
    """`low_fee` and `high_fee` bound the job's gas price, in wei."""
    high_fee: int = 1
    watch_period: int = 0
    """Seconds of Training after the last trainer has committed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A run root with its last checkpoint, and the proof that it is the last leaf."""

    root: bytes
    last: bytes
    last_path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Refutation:
    """The statement that ``computed`` follows from the checkpoint before it in the run of a claimed root, and not
    ``claimed``, which is leaf ``interval`` (from 0) of that run's tree; ``path`` proves it."""

    root: bytes
    interval: int
    claimed: bytes
    computed: bytes
    path: tuple[bytes, ...]


@dataclass(slots=True)
class Trainer:
    """A slot holder."""

    owner: str
    stake: int
    """Stake that the trainer paid for the slot, in wei."""
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
    """All claims of one root, or one refutation. INVARIANT: exactly the members before the spokesman have lost."""

    root: bytes
    last: bytes
    members: list[int] = field(default_factory=list)
    spokesman: int = 0
    match_id: int = 0
    deaths: int = 0
    """Number of times that the group has died."""
    until: int = 0
    """Instant until which, in Closing, a dead group's root can be claimed again, or data of a living one requested and
    its root refuted."""
    refutable_until: int = 0
    """Instant until which, in Closing, the root can be refuted, because a refutation of it has lost."""
    refutes: int | None = None
    """Of a refutation: the group that it refutes."""
    queue: list[int] = field(default_factory=list)
    """The group's refutations, in the order in which they came; those before ``next`` have played."""
    next: int = 0

    @property
    def dead(self) -> bool:
        return self.spokesman == len(self.members)

    def claimable(self, now: int) -> bool:
        """Return whether the root can be claimed at ``now``, once the challenge phase is over."""
        return self.spokesman > 0 and (not self.dead or now < self.until)

    def refutable(self, now: int) -> bool:
        """Return whether the root can be refuted at ``now``, once the challenge phase is over."""
        return not self.dead and now < max(self.until, self.refutable_until)


@dataclass(slots=True)
class Match:
    """A match with its fixed facts."""

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
    """The latest ``until`` or ``refutable_until`` of the job's groups; 0 if none is set."""
    founded: int = 0
    """Number of roots that challengers were the first to claim."""
    followers: int = 0
    """Number of challengers' claims of roots that were claimed already."""
    reopened: int = 0
    """End of the challenge period that a refutation has opened; 0 if none has."""
    accepted: int | None = None
    logs: bytes = NO_LOG
    finder: str | None = None
    """The first requester of withheld logs whose request was closed, if any: then nothing is accepted."""
    committed_at: dict[bytes, int] = field(default_factory=dict)
    """By commitment to a challenge: the instant on the chain's clock at which it was first made."""

    def phase(self, now: int) -> JobPhase:
        """Return the phase at ``now``. A phase includes its first instant and excludes its end."""
        if self.ended:
            return self.ended
        if now < self.commit_end:
            return JobPhase.TRAINING
        if now < self.reveal_end:
            return JobPhase.REVEAL
        return JobPhase.CHALLENGE if now < self.challenge_end else JobPhase.CLOSING

    @property
    def rounded(self) -> bool:
        """True if the job's runs have rounding logs."""
        return self.terms.program.arithmetic.follows_logs

    def trainer(self, sender: str) -> Trainer:
        found = next((trainer for trainer in self.trainers if trainer.owner == sender), None)
        if found is None:
            raise refusals.NotTrainer(f"{sender} holds no slot")
        return found

    def lose(self, group: int) -> int:
        """Take the spokesman's claim and return its stake, in wei. The next member speaks, or the group is dead."""
        members, lost = self.groups[group], self.spokesman(group)
        lost.lost = True
        members.spokesman += 1
        members.deaths += members.dead
        return lost.stake

    def has_claimed(self, owner: str) -> bool:
        """Return whether an account has claimed a root. NOTE: a refutation claims nothing."""
        return any(one.owner == owner and self.groups[one.group].refutes is None for one in self.claims)

    def group_of(self, root: bytes) -> Group | None:
        """Return the group of a claimed root; None if nobody has claimed it. NOTE: a refutation claims nothing."""
        return next((group for group in self.groups if group.root == root and group.refutes is None), None)

    def followers_of(self, root: bytes) -> int | None:
        """Return how many challengers have claimed a root after it was founded; None if nobody has claimed it."""
        group = self.group_of(root)
        return None if group is None else sum(not self.claims[k].slot for k in group.members[1:])

    @property
    def unrevealed(self) -> int:
        """Stakes of slot holders that have revealed no claim, in wei."""
        return sum(trainer.stake for trainer in self.trainers if not trainer.revealed)

    def due(self, claim: StakedClaim) -> int:
        """Return what a claim that is not lost gets when the job is over, in wei: its stake, and a share of the reward.

        Accepted members with a slot share the reward evenly, and the first gets the remainder; if none has a slot, the
        spokesman gets the reward.
        """
        if self.accepted is None or self.groups[claim.group].refutes is not None:
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
