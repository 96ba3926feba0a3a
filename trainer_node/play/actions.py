"""Decisions about a job: pure functions of the chain's state and our own data.

    trainer     join -> commit -> reveal -> play -> finalize -> collect -> withdraw
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
from ..run.cost_estimate import MARGIN, CostEstimate
from ..run.refutation import Refuted
from ..settings.extent import Mode
from ..stake.flood import too_many_pieces
from ..stake.gas_patience import Market, Patience
from ..stake.min_stake import TRIAL_MOVES, match_moves


class JobAction(StrEnum):
    """An action on a job. The node adds the arguments of the call."""

    JOIN = "join"
    COMMIT = "commit"
    REVEAL = "reveal"
    CHALLENGE = "challenge"
    FINALIZE = "finalize"


def trainer_actions(
    job: JobView, me: str, own: RunClaim | None, now: int, *, willing: bool
) -> list[JobAction]:
    """Return what a trainer does about a job now. ``own``: its result, if it has one; ``willing``: it would join."""
    mine = job.trainer(me)
    match job.phase:
        case JobPhase.TRAINING if mine is None:
            return [JobAction.JOIN] if willing and len(job.trainers) < job.slots else []
        case JobPhase.TRAINING if (
            mine is not None and own is not None and mine.commitment == EMPTY_COMMITMENT
        ):
            return [JobAction.COMMIT]
        case JobPhase.REVEAL if mine is not None and own is not None:
            return [] if mine.revealed or mine.commitment == EMPTY_COMMITMENT else [JobAction.REVEAL]
    return closing(job, me, now)


def too_late(job: JobView, ready_in_s: float, now: int, commit_age: int = 0) -> str | None:
    """Return why a job cannot be done before training ends, or for a challenger before the challenges end; or None.

    ``commit_age``: required age of a challenger's commitment, in seconds; zero for a trainer, who need not wait.
    """
    ends = {JobPhase.TRAINING: job.commit_end, JobPhase.CLOSING: job.reclaim_end}
    left = ends.get(job.phase, job.challenge_end) - now
    if MARGIN * ready_in_s + commit_age <= left:
        return None
    waits = f", and its commitment must be {commit_age} s old" if commit_age else ""
    return f"the result may take {MARGIN * ready_in_s:.0f} s{waits}; {left} s are left"


def unripe(job: JobView, root: bytes, commit_age: int, now: int) -> str | None:
    """Return why a commitment is too late now, or None. NOTE: a lost claim or a request may still give more time."""
    left = (job.claimable_until(root) or now) - now
    if commit_age < left:
        return None
    return f"a commitment must be {commit_age} s old before the claim; {left} s are left to claim the root"


def too_slow(
    job: JobView, estimate: CostEstimate, latency_s: float = 0.0, commit_age: int = 0, mined_s: float = 0.0
) -> str | None:
    """Return why this node should not stake on a job, or None: a clock or a period of the job may be too short for it.
    ``latency_s``: seconds until a move is seen and the next one mined; ``commit_age``: see `too_late`; ``mined_s``:
    seconds until a transaction in a row is mined.

    NOTE: an appeal needs the disputed step again, and its operator on the processor; a match needs an interval again
    for each stride, and that step. What strangers request of us is computed between the parts of these: at most one
    interval in each verdict period. A trial has a clock of its own, but may be one of several. What other jobs may ask
    at the same time: `admission`.
    """
    return _short_term(job, estimate, latency_s, commit_age) or too_many_pieces(job, estimate, mined_s)


def _short_term(job: JobView, estimate: CostEstimate, latency_s: float, commit_age: int) -> str | None:
    """Return which clock or period may be too short, or None."""
    match_s, trial_s = estimate.match_s(job.program), estimate.trial.seconds
    waits_s, answer_s = estimate.waits_s(job.program), estimate.answer_s(job.program)
    right_s = estimate.right_s if job.rules.has_verifiers else 0.0
    moves = max(match_moves(job.program), TRIAL_MOVES)
    needed = {
        "clock": (job.rules.clock, match_s + waits_s + right_s + trial_s, moves),
        "verdict period": (job.rules.verdict_period, match_s + answer_s, 2),
        "reveal period": (job.reveal_period, 0.0, 2),
        "challenge period": (job.challenge_period, float(commit_age), 3),
    }
    if job.rules.has_verifiers:
        needed["appeal period"] = (job.rules.appeal_period, match_s + waits_s + right_s, 2)
    takes = {name: MARGIN * (busy + count * latency_s) for name, (_, busy, count) in needed.items()}
    name = max(needed, key=lambda name: takes[name] - needed[name][0])
    limit, busy, count = needed[name]
    if takes[name] <= limit:
        return None
    told = f"a dispute may take us {takes[name]:.0f} s; its {name} has {limit} s: {MARGIN * busy:.0f} s to compute"
    if name == "clock":
        told += f" ({MARGIN * trial_s:.0f} s of that for a trial, {estimate.trial})"
    elif name == "appeal period" and right_s:
        told += f" ({MARGIN * right_s:.0f} s of that for an operator on the processor)"
    elif name == "verdict period":
        told += f" ({MARGIN * answer_s:.0f} s of that for what may be requested under a checkpoint)"
    elif name == "challenge period":
        told = f"a claim takes {takes[name]:.0f} s; its {name} has {limit} s: {MARGIN * busy:.0f} s to wait"
    return f"{told}, and {count} moves of {MARGIN * latency_s:.0f} s (block_s, confirmations)"


def too_long(job: JobView, max_period_s: int) -> str | None:
    """Return why not to stake on a job or sign in it, or None: its periods may hold the stake or bond for too long."""
    periods = {
        "training": job.train_period,
        "watch": job.watch_period,
        "reveal": job.reveal_period,
        "challenge": job.challenge_period,
        "verdict": job.rules.verdict_period,
        "appeal": job.rules.appeal_period,
        "clock": job.rules.clock,
    }
    name = max(periods, key=lambda name: periods[name])
    if periods[name] <= max_period_s:
        return None
    what = "clock has" if name == "clock" else f"{name} period has"
    return (
        f"its {what} {periods[name]} s, limits.max_period_s allows {max_period_s}; "
        "raise the limit to take the job anyway"
    )


def later(
    job: JobView, me: str, act: JobAction, own: RunClaim | None, market: Market, now: int, commit_age: int = 0
) -> bool:
    """Return whether an action waits for cheaper gas (`gas_patience`). ``commit_age``: see `too_late`.

    NOTE: slots go to those who come first, so JOIN never waits. A claim does not wait either where the end of its time
    (`NEVER`) depends on other claimants.
    """

    def about(stake: int, moves: int) -> Patience:
        return market.about(stake, job.stake_gas, moves * market.latency_s)

    slot = job.trainer(me)
    match act:
        case JobAction.COMMIT if slot is not None:
            return about(slot.stake, 1).waits(job.commit_end - now, job.train_period)
        case JobAction.REVEAL if slot is not None:
            return about(slot.stake, 1).waits(job.reveal_end - now, job.reveal_period)
        case JobAction.CHALLENGE if own is not None:
            against = [g.speaker for g in disagreements(job, own) if g.speaker is not None]
            prize_of = min((job.claims[speaker].stake for speaker in against), default=job.stake_now)
            until = job.claimable_until(own.root) or now
            left = until - commit_age - now
            return until < NEVER and about(prize_of, 2).waits(left, job.challenge_period)
        case JobAction.FINALIZE:
            return market.about(job.stake_at(0), job.stake_gas).lingers(now - job.due)
    return False


def too_short(job: JobView, latency_s: float) -> str | None:
    """Return why not to sign a verdict, or None: there is too little time to stand by it and to play the trial."""
    needed = {"appeal period": 2 * MARGIN * latency_s, "clock": TRIAL_MOVES * MARGIN * latency_s}
    limits = {"appeal period": job.rules.appeal_period, "clock": job.rules.clock}
    for name, seconds in needed.items():
        if limits[name] < seconds:
            return (
                f"its {name} has {limits[name]} s; the moves that may be due in it take {seconds:.0f} s "
                "(block_s, confirmations)"
            )
    return None


def too_uncertain(job: JobView, allowed: bool) -> str | None:
    """Return why to leave a job to others, or None: with probable bounds, every honest result may be wrong."""
    if allowed or not job.program.arithmetic.honest_may_lose:
        return None
    return (
        "it has probable bounds: a party that chooses the data can make an honest result wrong; "
        "set allow_probable_bounds to take the job anyway"
    )


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
