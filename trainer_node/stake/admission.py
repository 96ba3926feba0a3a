"""Admission of one more stake or signature: can it be defended with those that we have given? Pure functions.

`too_slow` looks at one job. A client may post many jobs that all pass it, and ask something of each in one block. So
before a stake, what all jobs with a stake of ours may ask of us at once must fit the shortest clock or period of any:

    matches    one after the other in a thread of their own; with them what is executed before an appeal
    answers    one after the other in a thread of their own, and only while no move computes (`turns`); a job passes
               another that waits once at most (`answer_order`)
    trials     in threads outside the loop, `lanes` at a time; the processors are shared with matches and answers
    moves      sent one after the other by the loop's thread, which also reveals

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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from referee_py.jobs import Rules
from referee_py.params import LOG_SECONDS
from referee_py.program.terms import Terms

from ..chain import JobPhase, JobView
from ..reason import Reason
from ..run.cost_estimate import MARGIN, CostEstimate
from ..settings.settings import Settings
from .min_stake import TRIAL_MOVES, match_moves

REMEDY = "a faster machine or jobs with longer periods allow more at once, policy.max_open_jobs fewer"

CLOCK, VERDICTS, APPEALS, REVEALS = "clock", "verdict period", "appeal period", "reveal period"
"""Names of what limits a dispute, as operators read them."""

DRAFT_LANES = 4
"""Threads in which moves of trials are computed (`drafts`). Further ones wait for a free one."""


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


def reveals(job: JobView) -> bool:
    """Return whether the reveal of a slot in a job is still to come, or not over."""
    return job.phase in (JobPhase.TRAINING, JobPhase.REVEAL)


@dataclass(frozen=True, slots=True)
class Duty:
    """Duty in a job in which we have ``stakes``: seconds of computing for a match of each stake, for what it
    waits for answers, for the answers under one checkpoint, for one step's logs, for a trial of each stake; the most
    moves of a dispute; its clock and periods in seconds, 0 for an appeal where there are no verifiers; the seconds in
    which the processor executes an operator before an appeal, for each stake, where runs compute otherwise; and the
    reveal period, 0 where we have no slot that is to be revealed.

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
    right_s: float = 0.0
    reveal_period: int = 0

    @classmethod
    def of(cls, job: JobView, estimate: CostEstimate, stakes: int = 1) -> Duty:
        """Return the duty of a job that has been measured."""
        duty = cls.under(job.program, job.rules, estimate, stakes)
        return replace(duty, reveal_period=job.reveal_period) if reveals(job) else duty

    @classmethod
    def under(cls, terms: Terms, rules: Rules, estimate: CostEstimate, stakes: int = 1) -> Duty:
        """Return the duty under such terms and rules."""
        return cls(
            estimate.match_s(terms),
            estimate.waits_s(terms),
            estimate.answer_s(terms),
            estimate.commit_s if terms.arithmetic.follows_logs else 0.0,
            estimate.trial.seconds,
            max(match_moves(terms), TRIAL_MOVES),
            rules.clock,
            rules.verdict_period,
            rules.appeal_period if rules.has_verifiers else 0,
            stakes,
            estimate.right_s if rules.has_verifiers else 0.0,
        )

    @property
    def limits(self) -> dict[str, int]:
        """Seconds of the clock and the periods in which something may be asked of us, by their names."""
        appeals = {APPEALS: self.appeal_period} if self.appeal_period else {}
        reveal = {REVEALS: self.reveal_period} if self.reveal_period else {}
        return {CLOCK: self.clock, VERDICTS: self.verdict_period, **appeals, **reveal}

    @property
    def moves_s(self) -> float:
        """Seconds of computing for the matches of all its stakes and for their trials, during which runs rest."""
        return (self.match_s + self.right_s + self.trial_s) * self.stakes

    def seen_s(self, limit: str, means: Means) -> float:
        """Return the seconds of one of the limits in which moves of this job alone are on their way."""
        return (self.moves if limit == CLOCK else 2) * (means.latency_s - means.mined_s)


@dataclass(frozen=True, slots=True)
class Asked:
    """Work that jobs may ask of us at once under a limit: ``seconds`` of our time, and beside them a ``part`` of the
    limit, however long that is."""

    what: str
    seconds: float
    part: float = 0.0


def asked_at_once(duties: Collection[Duty], means: Means) -> dict[str, Asked]:
    """Return what all these jobs may ask of us at once, by the limit that it must fit in."""
    every = [of for of in duties for _ in range(of.stakes)]
    # NOTE: an operator that is executed before an appeal has the processors as a match has them.
    matches, waits = sum(of.match_s + of.right_s for of in every), sum(of.waits_s for of in every)
    trials, shared = (
        trials_s([of.trial_s for of in every], means.lanes),
        sum(of.trial_s for of in every) / means.lanes,
    )
    answers = sum(of.answer_s + of.log_s for of in duties)
    sending = sum(of.moves for of in every) * means.mined_s
    rounds_s = 2 * len(every) * means.mined_s
    logs = sum(of.log_s for of in duties) / LOG_SECONDS
    return {
        CLOCK: Asked("disputes", matches + waits + trials + sending),
        VERDICTS: Asked("answers", matches + answers + shared + rounds_s, logs),
        APPEALS: Asked("appeals", matches + waits + shared + rounds_s),
        REVEALS: Asked("moves of disputes", rounds_s),
    }


@dataclass(frozen=True, slots=True)
class Bond:
    """A verdict that we have signed: the seconds of a trial about it, the trial's clock in seconds, and the wei that
    the gas of the trial may take; the seconds until we can stand by it, and the period for that in seconds."""

    trial_s: float
    clock: int
    wei: int
    stand_s: float
    appeal_period: int


def trials_s(seconds: Sequence[float], lanes: int) -> float:
    """Return the seconds until the last of these trials is computed at most, if all come at once, in whatever order.

    NOTE: the sum over the lanes is not enough: the longest may be the last to begin.
    """
    longest = max(seconds, default=0.0)
    return longest + (sum(seconds) - longest) / lanes


class TooMuchAtOnce(Reason):
    text = (
        "with {stakes} stakes in {jobs} jobs at once, {what} may take us {takes_s:.0f} s; the {name} of job {job} has "
        f"{{limit}} s: {REMEDY}"
    )
    stakes: int
    jobs: int
    what: str
    takes_s: float
    name: str
    job: int
    limit: int


def too_much_at_once(held: Mapping[int, Duty], job_id: int, duty: Duty, means: Means) -> TooMuchAtOnce | None:
    """Return why not to stake on a job, or None: what it may ask at once with all others does not fit the shortest
    clock or period. ``held``: the jobs that hold stakes of ours; ``duty``: that of the job with the new stake.

    NOTE: with nothing else at stake there is no reason. `too_slow` has judged the job by itself.
    """
    others = {number: of for number, of in held.items() if number != job_id}
    if not others and duty.stakes == 1:
        return None
    duties = {**others, job_id: duty}
    asked, stakes = asked_at_once(duties.values(), means), sum(of.stakes for of in duties.values())
    found = list[TooMuchAtOnce]()
    for number, of in duties.items():
        for name, limit in of.limits.items():
            takes_s = MARGIN * (asked[name].seconds + asked[name].part * limit + of.seen_s(name, means))
            if takes_s > limit:
                found.append(
                    TooMuchAtOnce(stakes, len(duties), asked[name].what, takes_s, name, number, limit)
                )
    return max(found, key=lambda reason: reason.takes_s - reason.limit, default=None)


class TooManyTrials(Reason):
    text = (
        "with {verdicts} verdicts signed at once, their trials may take us {takes_s:.0f} s; the shortest clock has "
        "{clock} s ({lanes} at a time): a faster machine or one with more processors can sign more"
    )
    verdicts: int
    takes_s: float
    clock: int
    lanes: int


class TrialsTooDear(Reason):
    text = (
        "with {verdicts} verdicts signed at once, the gas of their trials may take {wei} wei; the account has {spare} "
        "wei: send ether to it, or lower fees.max_fee_gwei (nothing is sent above it)"
    )
    verdicts: int
    wei: int
    spare: int


class TooManyStands(Reason):
    text = (
        "with {verdicts} verdicts signed at once, to stand by all of them may take us {takes_s:.0f} s; the shortest "
        "appeal period has {period} s: others can sign this one"
    )
    verdicts: int
    takes_s: float
    period: int


def too_many_stands(held: Sequence[Bond], bond: Bond, means: Means) -> TooManyStands | None:
    """Return why not to sign one more verdict, or None: all that we have signed may be overruled in one block, and we
    could not stand by each in its period. With nothing signed there is no reason: `too_slow_to_stand` has judged it."""
    every = [*held, bond]
    takes = MARGIN * (sum(of.stand_s for of in every) + 2 * means.latency_s)
    period = min(of.appeal_period for of in every)
    return TooManyStands(len(every), takes, period) if held and takes > period else None


def too_many_trials(held: Sequence[Bond], bond: Bond, spare: int, means: Means) -> Reason | None:
    """Return why not to sign one more verdict, or None: the trials of all that we have signed may come at once, and not
    be played in time, or not be paid. ``spare``: the wei of our account. With nothing signed there is no reason of
    time: `verdicts.too_costly` has judged the trial by itself."""
    every = [*held, bond]
    takes = MARGIN * (
        trials_s([of.trial_s for of in every], means.lanes)
        + TRIAL_MOVES * (means.latency_s + (len(every) - 1) * means.mined_s)
    )
    clock, wei = min(of.clock for of in every), sum(of.wei for of in every)
    if held and takes > clock:
        return TooManyTrials(len(every), takes, clock, means.lanes)
    return TrialsTooDear(len(every), wei, spare) if wei > spare else None
