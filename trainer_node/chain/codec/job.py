"""Jobs and their claims (the contract Jobs): terms to calldata, and from views.

The ABI decoder checks widths. This module checks the rest: lengths, the protocol's limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from referee_py.commit.structs import hints_of
from referee_py.jobs import JobPhase, Rules, claim_price, fee_at
from referee_py.program.terms import Terms

from ...errors import RpcCorrupt
from ..fees import next_base_fee
from ..outbox import Value
from .base import Calls, Made, View, known

MAX_SLOTS = 16
MAX_CLAIMS = 1 << 16
"""NOTE: the contract has no limit; this many claims and refutations would cost more than a million stakes."""
MAX_STRIDES = 8
NEVER = 1 << 64
MAX_VERIFIERS = 255
EMPTY = bytes(32)


@dataclass(frozen=True, slots=True)
class Trainer:
    """A slot holder. ``commitment`` is zero until it commits, and again once it has ``revealed``; ``stake`` is the wei
    that the slot took, or its claim."""

    owner: str
    revealed: bool
    stake: int
    commitment: bytes


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A staked claim; ``index`` is its number in the job. ``uri``: where its author serves; empty without events."""

    index: int
    owner: str
    stake: int
    group: int
    slot: bool
    lost: bool
    collected: bool
    uri: str


@dataclass(frozen=True, slots=True)
class Group:
    """All claims of one root, or a refutation of group ``refutes``. ``match_id`` is zero while the group is in no
    match; ``members`` are claim numbers; ``last`` is the last checkpoint of the run, zero if no event was read.

    ``deaths``: how often all its members had lost; the root of a dead group can be claimed again until ``until``.
    ``refutable_until``: in Closing, until then the root can be refuted, because a refutation of it has lost.
    """

    index: int
    root: bytes
    last: bytes
    match_id: int
    spokesman: int
    deaths: int
    until: int
    members: tuple[int, ...]
    refutes: int | None = None
    refutable_until: int = 0

    @property
    def dead(self) -> bool:
        """True if every member has lost."""
        return self.spokesman >= len(self.members)

    @property
    def life(self) -> int:
        """Number of the root's present life, from 1; meaningful while the root has a claim that has not lost."""
        return self.deaths + 1

    @property
    def speaker(self) -> int | None:
        """Number of the spokesman's claim; None if the group is dead."""
        return None if self.dead else self.members[self.spokesman]


@dataclass(frozen=True, slots=True)
class JobTerms:
    """Terms that a client posts: the contract's Terms struct. Periods are seconds, amounts wei."""

    function: ClassVar[str] = "post"
    program: Terms
    program_file: bytes
    uri: str
    referee: str
    slots: int
    stake: int
    low_fee: int
    high_fee: int
    train_period: int
    watch_period: int
    reveal_period: int
    challenge_period: int
    rules: Rules
    verifiers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobView(JobTerms):
    """A job at one block: its terms and its state. Instants are unix seconds, periods seconds, amounts wei."""

    id: int
    phase: JobPhase
    client: str
    posted: int
    reward: int
    commit_end: int
    reveal_end: int
    challenge_end: int
    reclaim_end: int
    commitments: int
    reveals: int
    open_matches: int
    waiting: int | None
    founded: int
    reopened: int
    """End of the challenge period that a refutation has opened, because no claim was left; 0 if none has."""
    accepted_root: bytes
    accepted_last: bytes
    logs: bytes
    """The root of the run's rounding logs, once the trainer has revealed it; zero in a mode without logs.

    NOTE: zero can be a valid root, that of one node in one step without a log. The trainer's claim shows whether the
    root is revealed."""
    finder: str | None
    """The account whose request for these logs got no response in time, or None. If set, no root is accepted."""
    trainers: tuple[Trainer, ...]
    claims: tuple[ClaimView, ...]
    groups: tuple[Group, ...]
    base_fee: int
    """Base fee of the block, in wei for a unit of gas."""
    stake_gas: int
    """Units of gas that a stake is worth at least."""
    hidden: str | None = field(default=None, compare=False)
    """Name of the claims whose events lack and of what that leaves unknown; None if nothing."""

    @property
    def terms(self) -> tuple[object, ...]:
        """What never changes of a job, whatever block it is mined in: what its client has posted, but an address."""
        return *(getattr(self, name) for name in _TERMS), self.client

    @property
    def stake_now(self) -> int:
        """Wei that a slot or the bond of an appeal takes in this block.

        NOTE: `IJobs.stakeOf` gives the same in a transaction; in a call many endpoints have a base fee of zero.
        """
        return self.stake_at(self.base_fee)

    @property
    def stake_sent(self) -> Value:
        """Value to send for a slot or a bond: the stake at twice the base fee, at least the stake in the next block.

        NOTE: a base fee doubles in six blocks at the earliest (EIP-1559).
        """
        return Value(self.stake_at(2 * self.base_fee), self.stake_at(next_base_fee(self.base_fee)))

    def stake_at(self, base_fee: int) -> int:
        """Return the wei that a slot takes in a block with this base fee."""
        return max(self.stake, self.stake_gas * fee_at(base_fee, self.low_fee, self.high_fee))

    @property
    def at_stake(self) -> int:
        """Wei that can be lost in the job, at least one: the stakes of all claims that have not lost. NOTE: they stay
        the same however they are divided among jobs."""
        return max(1, sum(claim.stake for claim in self.claims if not claim.lost))

    @property
    def at_stake_by_root(self) -> float:
        """Wei that can be lost in the job for each claimed root that lives."""
        living = sum(group.refutes is None and not group.dead for group in self.groups)
        return self.at_stake / max(1, living)

    @property
    def due(self) -> int:
        """The earliest instant at which the job can end; it ends later if matches last longer."""
        return max(self.challenge_end, self.reclaim_end)

    def trainer(self, address: str) -> Trainer | None:
        """Return the slot of an address; None if it holds none."""
        return next((t for t in self.trainers if t.owner.lower() == address.lower()), None)

    def claim_of(self, address: str) -> ClaimView | None:
        """Return the claim of an address; None if it has none. NOTE: a refutation claims nothing."""
        return next((c for c in self.stakes_of(address) if self.groups[c.group].refutes is None), None)

    def stakes_of(self, address: str) -> list[ClaimView]:
        """Return the claim of an address and its refutations, in the order in which they came."""
        return [c for c in self.claims if c.owner.lower() == address.lower()]

    def group_of_root(self, root: bytes) -> Group | None:
        """Return the group of a run root; None if nobody has claimed the root."""
        return next((g for g in self.groups if g.root == root and g.refutes is None), None)

    def price_of(self, root: bytes) -> int:
        """Return the wei that a challenger's claim of a root has to stake in this block."""
        return claim_price(self.stake_now, self.founded, self.followers_of(root))

    def followers_of(self, root: bytes) -> int | None:
        """Return how many challengers have claimed a root after it was founded; None if nobody has claimed it."""
        group = self.group_of_root(root)
        return None if group is None else sum(not self.claims[k].slot for k in group.members[1:])

    def refutation_count(self, root: bytes) -> int:
        """Return the number of refutations of a root so far."""
        group = self.group_of_root(root)
        return 0 if group is None else sum(other.refutes == group.index for other in self.groups)

    def refutable(self, root: bytes, now: int) -> bool:
        """Return whether a root can be refuted at an instant."""
        group = self.group_of_root(root)
        if group is None or group.dead or self.finder is not None:
            return False
        until = max(group.until, group.refutable_until)
        return self.phase is JobPhase.CHALLENGE or (self.phase is JobPhase.CLOSING and now < until)

    def claimable_until(self, root: bytes) -> int | None:
        """Return the last instant, as known now, at which a root can be claimed; None if it is too late."""
        if self.phase is JobPhase.CHALLENGE:
            group = self.group_of_root(root)
            return max(self.challenge_end, group.until if group and group.dead else 0)
        group = self.group_of_root(root)
        if self.phase is not JobPhase.CLOSING or group is None or group.spokesman == 0:
            return None
        return group.until if group.dead else NEVER

    def members(self, group: Group) -> list[ClaimView]:
        """Return the claims of a group: first the spokesman's, then those that have not lost."""
        order = sorted(group.members, key=lambda i: (i != group.speaker, self.claims[i].lost, i))
        return [self.claims[i] for i in order]

    def servers(
        self,
        claims: Iterable[ClaimView] | None = None,
        *,
        first: Callable[[ClaimView], bool] = lambda _: False,
        client: bool = False,
    ) -> list[str]:
        """Return the URIs of who may serve the job's data, each once: of the ``client``, then of the authors of these
        claims, or of all claims; those for which ``first`` returns True come before the others."""
        chosen = sorted(self.claims if claims is None else claims, key=lambda claim: not first(claim))
        uris = [claim.uri for claim in chosen if claim.uri]
        return list(dict.fromkeys([self.uri, *uris] if client else uris))

    def is_under(self, referee: str) -> bool:
        """Return whether that referee decides the job's matches. SAFETY: the client names any contract; only a referee
        whose code we have checked can be trusted, so nothing is staked, judged or believed under another."""
        return self.referee.lower() == referee.lower()

    def match_ids(self) -> list[int]:
        """Return the ids of the open matches."""
        return sorted({group.match_id for group in self.groups if group.match_id})

    def pair(self, match_id: int) -> tuple[Group, Group] | None:
        """Return the two groups of an open match. NOTE: they are not in the order of sides; compare roots for that."""
        found = [group for group in self.groups if group.match_id == match_id]
        return (found[0], found[1]) if len(found) == 2 else None


_TERMS = tuple(one.name for one in fields(JobTerms) if one.name != "uri")  # NOTE: what is served has its hash
_POST = Calls[JobTerms]("Jobs", {}, JobTerms)
_JOB = View(
    *(JobView, "Jobs", "viewOf", "job"),
    beside=" ".join(hints_of(JobTerms))
    + " id phase waiting finder trainers claims groups base_fee stake_gas accepted_last hidden",
)
_CLAIM = View(ClaimView, "Jobs", "viewOf", "claims", beside="index uri")
_GROUP = View(Group, "Jobs", "viewOf", "groups", beside="index refutes last")


def job_view(
    job_id: int,
    phase: int,
    raw: Any,
    trainers: Any,
    claims: Any,
    groups: Any,
    *,
    base_fee: int,
    stake_gas: int,
) -> JobView:
    """Return a JobView from the result of `viewOf` in a block with this base fee, in wei. Raises RpcCorrupt."""
    terms = raw.terms
    if len(trainers) > MAX_SLOTS or len(terms.verifiers) > MAX_VERIFIERS:
        raise RpcCorrupt(f"job {job_id} has more slots or verifiers than the contract allows")
    if (len(claims), len(groups)) != (raw.claims, raw.groups):
        raise RpcCorrupt(f"job {job_id} has {raw.claims} claims of {raw.groups} roots, but not all are shown")
    of = f"job {job_id}"
    job_claims = tuple(_CLAIM.read(of, claim, index=i, uri="") for i, claim in enumerate(claims))
    job_groups = tuple(
        _GROUP.read(of, group, index=i, last=EMPTY, refutes=group.refutes - 1 if group.refutes else None)
        for i, group in enumerate(groups)
    )
    if any(c.group >= len(job_groups) for c in job_claims):
        raise RpcCorrupt(f"job {job_id} has a claim of a group that does not exist")
    if any(member >= len(job_claims) for g in job_groups for member in g.members):
        raise RpcCorrupt(f"job {job_id} has a group with a member that does not exist")
    if any(not g.members for g in job_groups):
        raise RpcCorrupt(f"job {job_id} has a group without members")
    if any(g.refutes is not None and g.refutes >= g.index for g in job_groups):
        raise RpcCorrupt(f"job {job_id} has a refutation of a group that did not exist before it")
    posted = known(JobTerms, terms, of)
    if not 1 <= len(posted.program.strides) <= MAX_STRIDES:
        count = len(posted.program.strides)
        raise RpcCorrupt(f"a program with {count} strides; the contract accepts 1 to {MAX_STRIDES}")
    return _JOB.read(
        of,
        raw,
        **{name: getattr(posted, name) for name in hints_of(JobTerms)},
        id=job_id,
        phase=known(JobPhase, phase, of),
        waiting=raw.waiting - 1 if raw.waiting else None,
        finder=raw.finder if int(raw.finder, 16) else None,
        trainers=known(tuple[Trainer, ...], trainers, of),
        claims=job_claims,
        groups=job_groups,
        base_fee=base_fee,
        stake_gas=stake_gas,
        accepted_last=EMPTY,
    )


def post_call(terms: JobTerms) -> Made:
    """Return the function that posts a job, and its arguments."""
    return _POST.encode(terms)
