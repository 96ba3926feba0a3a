"""Time for a job, by what it was measured to take: reasons not to stake on it, claim or sign in it.

What other jobs may ask at the same time: `admission`. All times are seconds, and count `MARGIN` times.
"""

from __future__ import annotations

from ..chain import JobPhase, JobView
from ..reason import Reason
from ..run.cost_estimate import MARGIN, CostEstimate
from ..run.trial_cost import TrialCost
from .flood import too_many_pieces
from .min_stake import TRIAL_MOVES, match_moves


class TooLate(Reason):
    takes_s: float
    commit_age: int
    left_s: int

    def __str__(self) -> str:
        waits = f", and its commitment must be {self.commit_age} s old" if self.commit_age else ""
        return f"the result may take {self.takes_s:.0f} s{waits}; {self.left_s} s are left"


def too_late(job: JobView, ready_in_s: float, now: int, commit_age: int = 0) -> TooLate | None:
    """Return why a job cannot be done before training ends, or for a challenger before the challenges end; or None.

    ``commit_age``: required age of a challenger's commitment; zero for a trainer, who need not wait.
    """
    ends = {JobPhase.TRAINING: job.commit_end, JobPhase.CLOSING: job.reclaim_end}
    takes_s, left_s = MARGIN * ready_in_s, ends.get(job.phase, job.challenge_end) - now
    return TooLate(takes_s, commit_age, left_s) if takes_s + commit_age > left_s else None


LEAST_S = 1.0
"""Seconds that a transaction takes at least, also on a development chain, which mines it at once."""


class Hopeless(Reason):
    text = (
        "the run has {rest_s:.0f} s to go, by what its steps have taken, its commitment takes {latency_s:.0f} s, and "
        "what is sent for other jobs may take {sends_s:.0f} s before; training has {left_s} s left"
    )
    rest_s: float
    latency_s: float
    sends_s: float
    left_s: int


def hopeless(job: JobView, rest_s: float, latency_s: float, sends_s: float, now: int) -> Hopeless | None:
    """Return why a run in progress will not be done before training ends, or None.

    ``rest_s``: the seconds that it has to go; 0 if they are not known. ``latency_s``: what a transaction takes.
    As long as the run might be done, nothing is lost by waiting, until the last moment at which the slot can be given
    back. SAFETY: in that moment other jobs may have something to send first, which takes ``sends_s``.
    """
    left_s = job.commit_end - now
    if rest_s > MARGIN * left_s or last_moment(job, latency_s, sends_s, now):
        return Hopeless(rest_s, max(latency_s, LEAST_S), sends_s, left_s)
    return None


def last_moment(job: JobView, latency_s: float, sends_s: float, now: int) -> bool:
    """Return whether a slot must be given back now, or is kept."""
    return 2 * max(latency_s, LEAST_S) + sends_s > job.commit_end - now


class Unripe(Reason):
    text = "a commitment must be {commit_age} s old before the claim; {left_s} s are left to claim the root"
    commit_age: int
    left_s: int


def unripe(job: JobView, root: bytes, commit_age: int, now: int) -> Unripe | None:
    """Return why a commitment is too late now, or None. NOTE: a lost claim or a request may still give more time."""
    left_s = (job.claimable_until(root) or now) - now
    return Unripe(commit_age, left_s) if commit_age >= left_s else None


class TooSlow(Reason):
    text = (
        "{what} {takes_s:.0f} s; its {name} has {limit} s: {busy_s:.0f} s {doing}, and {moves} moves of "
        "{move_s:.0f} s (block_s, confirmations)"
    )
    what: str
    takes_s: float
    name: str
    limit: int
    busy_s: float
    doing: str
    moves: int
    move_s: float


def too_slow(
    job: JobView, estimate: CostEstimate, latency_s: float = 0.0, commit_age: int = 0, mined_s: float = 0.0
) -> Reason | None:
    """Return why this node should not stake on a job, or None: a clock or a period of the job may be too short for it.
    ``latency_s``: until a move is seen and the next one mined; ``commit_age``: see `too_late`; ``mined_s``: until a
    transaction in a row is mined.

    NOTE: an appeal needs the disputed step again, and its operator on the processor; a match needs an interval again
    for each stride, and that step. What strangers request of us is computed between the parts of these: at most one
    interval in each verdict period. A trial has a clock of its own, but may be one of several.
    """
    return _short_term(job, estimate, latency_s, commit_age) or too_many_pieces(job, estimate, mined_s)


def _short_term(job: JobView, estimate: CostEstimate, latency_s: float, commit_age: int) -> TooSlow | None:
    """Return which clock or period may be too short, or None."""
    match_s, trial_s = estimate.match_s(job.program), estimate.trial.seconds
    waits_s, answer_s = estimate.waits_s(job.program), estimate.answer_s(job.program)
    right_s = estimate.right_s if job.rules.has_verifiers else 0.0
    moves = max(match_moves(job.program), TRIAL_MOVES)

    def with_part(seconds: float, of: str) -> str:
        return f"to compute ({MARGIN * seconds:.0f} s of that for {of})"

    trial = with_part(trial_s, f"a trial, {estimate.trial}")
    answers = with_part(answer_s, "what may be requested under a checkpoint")
    needed = {
        "clock": (job.rules.clock, match_s + waits_s + right_s + trial_s, moves, trial),
        "verdict period": (job.rules.verdict_period, match_s + answer_s, 2, answers),
        "reveal period": (job.reveal_period, 0.0, 2, "to compute"),
        "challenge period": (job.challenge_period, float(commit_age), 3, "to wait"),
    }
    if job.rules.has_verifiers:
        doing = with_part(right_s, "an operator on the processor") if right_s else "to compute"
        needed["appeal period"] = (job.rules.appeal_period, match_s + waits_s + right_s, 2, doing)
    takes = {name: MARGIN * (busy + count * latency_s) for name, (_, busy, count, _) in needed.items()}
    name = max(needed, key=lambda name: takes[name] - needed[name][0])
    limit, busy_s, count, doing = needed[name]
    if takes[name] <= limit:
        return None
    what = "a claim takes" if name == "challenge period" else "a dispute may take us"
    return TooSlow(what, takes[name], name, limit, MARGIN * busy_s, doing, count, MARGIN * latency_s)


class TooHasty(Reason):
    text = "its watch period has {period} s; to commit in it may take {takes_s:.0f} s"
    period: int
    takes_s: float


def too_hasty(job: JobView, latency_s: float) -> TooHasty | None:
    """Return why not to watch, or None: there would be no time to commit after the trainers."""
    takes_s = MARGIN * 2 * latency_s
    return TooHasty(job.watch_period, takes_s) if 0 < job.watch_period < takes_s else None


# ---------------------------------------------------------------------- a verifier's


class TooShort(Reason):
    text = "its {name} has {limit} s; the moves that may be due in it take {takes_s:.0f} s (block_s, confirmations)"
    name: str
    limit: int
    takes_s: float


def too_short(job: JobView, latency_s: float) -> TooShort | None:
    """Return why not to sign a verdict, or None: there is too little time to stand by it and to play the trial."""
    rules = job.rules
    for name, limit, moves in (
        ("appeal period", rules.appeal_period, 2),
        ("clock", rules.clock, TRIAL_MOVES),
    ):
        if limit < moves * MARGIN * latency_s:
            return TooShort(name, limit, moves * MARGIN * latency_s)
    return None


class TooSlowToStand(Reason):
    text = "to read what we have judged and to stand by it may take us {takes_s:.0f} s; the appeal period has {limit} s"
    takes_s: float
    limit: int


def too_slow_to_stand(seconds: float, appeal_period: int) -> TooSlowToStand | None:
    """Return why not to sign a verdict, or None: after a restart we could not stand by it within the appeal period.
    ``seconds``: until its record is known and two moves are mined."""
    takes_s = MARGIN * seconds
    return TooSlowToStand(takes_s, appeal_period) if takes_s > appeal_period else None


class TooCostly(Reason):
    text = (
        "a trial may take us {trial_s:.0f} s to compute ({trial}), and {moves_s:.0f} s for its moves; the clock has "
        "{clock} s"
    )
    trial_s: float
    trial: TrialCost
    moves_s: float
    clock: int


def too_costly(trial: TrialCost, moves_s: float, clock: int) -> TooCostly | None:
    """Return why not to sign a verdict, or None: this machine could not play its trial within the clock."""
    if MARGIN * (trial.seconds + moves_s) <= clock:
        return None
    return TooCostly(MARGIN * trial.seconds, trial, MARGIN * moves_s, clock)
