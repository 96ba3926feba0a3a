"""Admission of one more stake or signature: can it be defended with those that we have given? Pure functions.

`too_slow` looks at one job. A client may post many jobs that all pass it, and ask something of each in one block. So
before a stake, what all jobs with a stake of ours may ask of us at once must fit the shortest clock or period of any:

    matches    one after the other in the loop's thread, which also sends their moves one after the other
    answers    one after the other in a thread of their own, and only while no move computes (`turns`); a job passes
               another that waits once at most (`answer_order`)
    trials     in threads outside the loop, `lanes` at a time; the processors are shared with matches and answers

INVARIANT: a job's answers are never late if, over all jobs,

    MARGIN * (matches + answers + trials / processors + logs) <= the shortest verdict period

    Whatever is requested when, each round of answers has one checkpoint of each job at most, so it takes no longer than
    the shortest verdict period, and in each of its rounds a job has one checkpoint less to answer. The protocol gives a
    verdict period for each open checkpoint (docs/protocol.md, section 8). Logs come first, one step's in `LOG_SECONDS`
    for each job, which is a share of the thread.

NOTE: the sum of each work divided by its own period would not do. Who asks again as soon as he is answered keeps a
short period busy all the time, and a long work beside it would begin when only that short period is left.

NOTE: of a root one match at a time is counted, and of a stake one trial: who wants the next one pays a stake or a bond
that is lost, and twice as much (docs/economics.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from referee_py.params import LOG_SECONDS
from referee_py.program.mode import is_rounded

from ..chain import JobView
from ..run.cost_estimate import MARGIN, CostEstimate
from ..settings.settings import Settings
from .min_stake import TRIAL_MOVES, match_moves

REMEDY = "a faster machine or jobs with longer periods allow more at once, policy.max_open_jobs fewer"

DRAFT_LANES = 4
"""Number of threads in which moves of trials are computed (`trial_drafts`)."""


@dataclass(frozen=True, slots=True)
class Means:
    """``latency_s``: seconds until a move is seen and the next one mined; ``mined_s``: seconds until a transaction in a
    row is mined; ``lanes``: trials that are computed at the same time, on as many processors."""

    latency_s: float
    mined_s: float
    lanes: int

    @classmethod
    def of(cls, settings: Settings) -> Means:
        """Return the means of this machine."""
        return cls(settings.latency_s, settings.mined_s, min(DRAFT_LANES, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Duty:
    """Duty in a job in which we have ``stakes``: seconds of computing for a match of each stake, for what it
    waits for answers, for the answers under one checkpoint, for one step's logs, for a trial of each stake; the most
    moves of a dispute; and its clock and periods in seconds, 0 for an appeal where there are no verifiers.

    NOTE: a refutation counts as a claim does, though no data can be requested of it.
    """

    match_s: float
    waits_s: float
    answer_s: float
    log_s: float
    trial_s: float
    moves: int
    clock: int
    verdict_period: int
    appeal_period: int
    stakes: int = 1

    @classmethod
    def of(cls, job: JobView, estimate: CostEstimate, stakes: int = 1) -> Duty:
        """Return the duty of a job that has been measured."""
        terms, rules = job.program, job.rules
        return cls(
            estimate.match_s(terms),
            estimate.waits_s(terms),
            estimate.answer_s(terms),
            estimate.commit_s if is_rounded(terms.mode) else 0.0,
            estimate.trial.seconds,
            max(match_moves(terms), TRIAL_MOVES),
            rules.clock,
            rules.verdict_period,
            rules.appeal_period if rules.has_verifiers else 0,
            stakes,
        )


@dataclass(frozen=True, slots=True)
class Bond:
    """A verdict that we have signed: the seconds of a trial about it, the trial's clock in seconds, and the wei that
    the gas of the trial may take."""

    trial_s: float
    clock: int
    wei: int


def trials_s(seconds: Sequence[float], lanes: int) -> float:
    """Return the seconds until the last of these trials is computed at most, if all come at once, in whatever order.

    NOTE: the sum over the lanes is not enough: the longest may be the last to begin.
    """
    longest = max(seconds, default=0.0)
    return longest + (sum(seconds) - longest) / lanes


def too_much_at_once(held: Mapping[int, Duty], job_id: int, duty: Duty, means: Means) -> str | None:
    """Return why not to stake on a job, or None: what it may ask at once with all others does not fit the shortest
    clock or period. ``held``: the jobs that hold stakes of ours; ``duty``: that of the job with the new stake.

    NOTE: with nothing else at stake there is no reason. `too_slow` has judged the job by itself.
    """
    others = {number: of for number, of in held.items() if number != job_id}
    if not others and duty.stakes == 1:
        return None
    duties = {**others, job_id: duty}
    every = [of for of in duties.values() for _ in range(of.stakes)]
    matches, waits = sum(of.match_s for of in every), sum(of.waits_s for of in every)
    trials, shared = (
        trials_s([of.trial_s for of in every], means.lanes),
        sum(of.trial_s for of in every) / means.lanes,
    )
    answers = sum(of.answer_s + of.log_s for of in duties.values())
    logs = sum(of.log_s for of in duties.values()) / LOG_SECONDS
    sending = sum(of.moves for of in every) * means.mined_s
    rounds_s = 2 * (means.latency_s + (len(every) - 1) * means.mined_s)
    worst: tuple[float, str] | None = None
    for number, of in duties.items():
        moves_s = of.moves * (means.latency_s - means.mined_s) + sending
        needed = {
            "clock": ("disputes", of.clock, matches + waits + trials + moves_s),
            "verdict period": (
                "answers",
                of.verdict_period,
                matches + answers + shared + logs * of.verdict_period + rounds_s,
            ),
        }
        if of.appeal_period:
            needed["appeal period"] = "appeals", of.appeal_period, matches + waits + shared + rounds_s
        for name, (what, limit, seconds) in needed.items():
            takes = MARGIN * seconds
            if takes > limit and (worst is None or takes - limit > worst[0]):
                told = (
                    f"with {len(every)} stakes in {len(duties)} jobs at once, {what} may take us {takes:.0f} s; "
                    f"the {name} of job {number} has {limit} s: {REMEDY}"
                )
                worst = takes - limit, told
    return None if worst is None else worst[1]


def too_many_trials(held: Sequence[Bond], bond: Bond, spare: int, means: Means) -> str | None:
    """Return why not to sign one more verdict, or None: the trials of all that we have signed may come at once, and not
    be played in time, or not be paid. ``spare``: the wei of our account. With nothing signed there is no reason."""
    if not held:
        return None
    every = [*held, bond]
    takes = MARGIN * (
        trials_s([of.trial_s for of in every], means.lanes)
        + TRIAL_MOVES * (means.latency_s + (len(every) - 1) * means.mined_s)
    )
    clock = min(of.clock for of in every)
    if takes > clock:
        return (
            f"with {len(every)} verdicts signed at once, their trials may take us {takes:.0f} s; the shortest clock "
            f"has {clock} s ({means.lanes} at a time): a faster machine or one with more processors can sign more"
        )
    wei = sum(of.wei for of in every)
    if wei > spare:
        return (
            f"with {len(every)} verdicts signed at once, the gas of their trials may take {wei} wei; the account has "
            f"{spare} wei: send ether to it, or lower fees.max_fee_gwei (nothing is sent above it)"
        )
    return None
