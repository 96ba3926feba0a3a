"""Decisions about a job: pure functions of the chain's state and our own data.

    trainer     join -> commit -> reveal -> play -> finalize -> collect -> withdraw
                join -> resign -> withdraw
    challenger                  challenge -> play -> finalize -> collect -> withdraw
    sampler                     refute    -> play -> finalize -> collect -> withdraw      (sampling/decide.py)

These functions do not check that the contract accepts an action: every action is simulated before it is sent.
"""

from __future__ import annotations

from enum import StrEnum

from referee_py.execute import RunClaim
from referee_py.jobs import EMPTY_COMMITMENT

from ..chain import Group, JobPhase, JobView, MatchInfo, Seat
from ..chain.codec.job import NEVER
from ..run.refutation import Refuted
from ..settings.extent import Mode
from ..stake.gas_patience import Market, Patience, Slack


class JobAction(StrEnum):
    """An action on a job. The node adds the arguments of the call."""

    JOIN = "join"
    RESIGN = "resign"
    COMMIT = "commit"
    REVEAL = "reveal"
    CHALLENGE = "challenge"
    FINALIZE = "finalize"


def trainer_actions(
    job: JobView, me: str, own: RunClaim | None, now: int, *, willing: bool, keeps: bool = True
) -> list[JobAction]:
    """Return what a trainer does about a job now. ``own``: its result, if it has one; ``willing``: it would join;
    ``keeps``: it would commit, if it has a slot."""
    mine = job.trainer(me)
    match job.phase:
        case JobPhase.TRAINING if mine is None:
            return [JobAction.JOIN] if willing and len(job.trainers) < job.slots else []
        case JobPhase.TRAINING if mine is not None and mine.commitment == EMPTY_COMMITMENT:
            if not keeps:
                return [JobAction.RESIGN]
            return [] if own is None else [JobAction.COMMIT]
        case JobPhase.REVEAL if mine is not None and own is not None:
            return [] if mine.revealed or mine.commitment == EMPTY_COMMITMENT else [JobAction.REVEAL]
    return closing(job, me, now)


def later(
    job: JobView, me: str, act: JobAction, own: RunClaim | None, market: Market, now: int, commit_age: int = 0
) -> bool:
    """Return whether an action waits for cheaper gas (`gas_patience`). ``commit_age``: see `deadlines.too_late`.

    NOTE: slots go to those who come first, so JOIN never waits. A claim does not wait either where the end of its time
    (`NEVER`) depends on other claimants.
    """

    def about(stake: int, moves: int) -> Patience:
        return market.about(stake, job.stake_gas, moves * market.latency_s)

    slot = job.trainer(me)
    match act:
        case JobAction.COMMIT if slot is not None:
            return about(slot.stake, 1).waits(Slack(job.commit_end - now, job.train_period))
        case JobAction.REVEAL if slot is not None:
            return about(slot.stake, 1).waits(Slack(job.reveal_end - now, job.reveal_period))
        case JobAction.CHALLENGE if own is not None:
            against = [g.speaker for g in disagreements(job, own) if g.speaker is not None]
            prize_of = min((job.claims[speaker].stake for speaker in against), default=job.stake_now)
            until = job.claimable_until(own.root) or now
            slack = Slack(until - commit_age - now, job.challenge_period)
            return until < NEVER and about(prize_of, 2).waits(slack)
        case JobAction.FINALIZE:
            return about(job.stake_at(0), 0).waits(Slack(job.due - now))
    return False


def challenger_actions(
    job: JobView, me: str | None, own: RunClaim | None, mode: Mode, now: int
) -> list[JobAction]:
    """Return what a challenger does now. It challenges only with a result of its own: silence proves nothing."""
    if me is None or mode is Mode.WATCH:
        return []
    if mode is Mode.CHALLENGE and own is not None and (job.claimable_until(own.root) or 0) > now:
        claimed = job.group_of_root(own.root)
        # NOTE: a root that is claimed needs no second stake, and a job without claims needs no challenger. But once a
        # claimant of our root has lost, the next may lose, too: so we claim it as well, unless another claimant follows
        # the spokesman. Where logs are withheld, no root is accepted and no new match begins.
        forsaken = claimed is None or (claimed.spokesman > 0 and len(claimed.members) - claimed.spokesman < 2)
        if forsaken and job.claims and job.finder is None and job.claim_of(me) is None:
            return [JobAction.CHALLENGE]
    return closing(job, me, now)


def stands_for(own: RunClaim, pair: tuple[Group, Group]) -> bool:
    """Return whether a result of ours is one side of a match. NOTE: a refutation is about one interval of one root;
    beside others, its root is somebody's claim of a whole run, which we do not have. And a refutation with the root of
    our claim is its author's own: a liar whose ally refutes it must not have its match played by us, and paid for."""
    mine, other = pair if pair[0].root == own.root else pair[::-1]
    if mine.root != own.root:
        return False
    return other.root == own.against if isinstance(own, Refuted) else mine.refutes is None


def seats(job: JobView, matches: list[MatchInfo], me: str | None, own: RunClaim | None) -> list[Seat]:
    """Return the open matches about our result. Anybody may play for it; only its spokesman may refine."""
    if own is None:
        return []
    found = []
    for match in matches:
        pair = job.pair(match.id)
        if pair is None or not stands_for(own, pair):
            continue
        mine, other = pair if pair[0].root == own.root else pair[::-1]
        if mine.speaker is None:
            continue
        side = match.side_of(job.claims[mine.speaker].owner)
        if side is not None:
            may_refine = me is not None and match.side_of(me) == side
            found.append(Seat(match, side, may_refine, mine, other))
    return found


def disagreements(job: JobView, own: RunClaim | None) -> list[Group]:
    """Return the living groups whose root differs from our result."""
    return [] if own is None else [group for group in job.groups if group.root != own.root and not group.dead]


def is_over(job: JobView, now: int) -> bool:
    """Return whether a job's matches and periods are over, so that only open requests may delay `finalize`."""
    return job.phase is JobPhase.CLOSING and job.open_matches == 0 and now >= job.reclaim_end


def closing(job: JobView, me: str, now: int) -> list[JobAction]:
    """Return FINALIZE if it is due in a job that concerns us."""
    concerned = bool(job.stakes_of(me)) or job.trainer(me) is not None
    return [JobAction.FINALIZE] if concerned and is_over(job, now) else []
