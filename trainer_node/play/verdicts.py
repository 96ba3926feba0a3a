"""Acts of a verifier in a hearing: a pure function of the chain's state and its own judgement.

    Voting              judge -> vote, or refuse
    Defence             judge -> stand, if we signed the verdict and it is right; else wait
    Trial, Stand        the court decides: `referee_py.trial.solver` plays
    a period is over    keep going: escalate, proceed

SAFETY: a vote locks our bond, and only what we can defend afterwards is signed: in time, beside all that we have signed
before, and by what we keep. After a vote the bond is defended at any cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from referee_py.commit import Record
from referee_py.panel.solver import plan
from referee_py.panel.state import HearingPhase, Stand

from ..chain import HearingInfo, JobView
from ..run.cost_estimate import MARGIN
from ..run.trial_cost import TrialCost
from ..settings.sections import Policy
from ..stake.admission import Bond, Means, too_many_trials
from ..stake.funds import trial_wei
from ..stake.min_stake import TRIAL_MOVES
from ..stake.policy import unwanted
from .actions import too_long, too_short, too_uncertain


@dataclass(frozen=True, slots=True)
class Judged:
    """The record that we have found to be right, and what a trial about it costs us at most.

    INVARIANT: the tensors with which a trial begins are kept, on disk or in memory. ``read_s``: the seconds until they
    are read and checked, before which we cannot stand by the record; ``trial`` includes them.
    """

    record: Record
    trial: TrialCost
    read_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Caution:
    """Limits of the operator. ``max_period_s``: longest period of a job, in seconds; ``latency_s``: seconds until a
    move is seen and the next one mined."""

    policy: Policy
    allow_probable_bounds: bool
    max_period_s: int
    latency_s: float


@dataclass(frozen=True, slots=True)
class Signed:
    """Signatures of ours in other hearings. ``spare``: the wei of our account; ``max_fee``: the most that we pay for a
    unit of gas; ``means``: of this machine."""

    bonds: Sequence[Bond]
    spare: int
    max_fee: int
    means: Means

    def bond(self, job: JobView, judged: Judged) -> Bond:
        """Return what one more signature may ask of us."""
        return Bond(judged.trial.seconds, job.rules.clock, trial_wei(job, self.max_fee))


NOTHING_SIGNED = Signed((), 0, 0, Means(0.0, 0.0, 1))


class Act(StrEnum):
    """The due act. JUDGE: our judgement is wanted, and nothing can be done without it; UNREADABLE: the endpoint hides
    whether we signed; TRY: a trial runs; KEEP_GOING: anybody may end a period that is over."""

    WAIT = "wait"
    JUDGE = "judge"
    VOTE = "vote"
    REFUSE = "refuse"
    STAND = "stand"
    TRY = "try"
    KEEP_GOING = "keep going"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Decision:
    """``reason``: why a vote is refused."""

    act: Act
    reason: str = ""


def decide(
    job: JobView,
    hearing: HearingInfo,
    me: str,
    judged: Judged | None,
    now: int,
    caution: Caution,
    signed: Signed = NOTHING_SIGNED,
) -> Decision:
    """Return what the verifier ``me`` does about a hearing at ``now``, in seconds. ``judged`` is None until known;
    ``signed``: in other hearings.

    NOTE: a refusal is final. Whoever calls this for a hearing that was refused leaves its vote to others.
    """
    state = hearing.state
    if state.phase is HearingPhase.VOTING and now < state.until:
        return Decision(Act.WAIT) if hearing.voted(me) else _vote(job, judged, caution, signed)
    if state.in_trial:
        return Decision(Act.TRY)
    if state.phase is HearingPhase.DEFENCE:
        # SAFETY: a signer that does not know of its own vote would not stand by it, and would end its own time.
        if hearing.hidden is not None:
            return Decision(Act.UNREADABLE, hearing.hidden)
        if judged is None and hearing.signed(me) and now < state.until:
            return Decision(Act.JUDGE)
    move = plan(state, hearing.terms, me, judged.record if judged is not None else None, now)
    if move is None:
        return Decision(Act.WAIT)
    return Decision(Act.STAND if isinstance(move, Stand) else Act.KEEP_GOING)


def _vote(job: JobView, judged: Judged | None, caution: Caution, signed: Signed) -> Decision:
    reason = unwanted(job, caution.policy) or too_uncertain(job, caution.allow_probable_bounds)
    # SAFETY: a vote locks our bond for as long as the hearing lasts.
    reason = reason or too_long(job, caution.max_period_s) or too_short(job, caution.latency_s)
    if reason:
        return Decision(Act.REFUSE, reason)
    if judged is None:
        return Decision(Act.JUDGE)
    # SAFETY: with a signature we stake our bond on playing a trial in time; after signing we defend it at any cost.
    # NOTE: whoever appeals against several verdicts in the same minute has all their trials at once.
    reason = too_slow_to_stand(judged.read_s + 2 * caution.latency_s, job.rules.appeal_period)
    reason = reason or too_costly(judged.trial, TRIAL_MOVES * caution.latency_s, job.rules.clock)
    reason = reason or too_many_trials(signed.bonds, signed.bond(job, judged), signed.spare, signed.means)
    return Decision(Act.REFUSE, reason) if reason else Decision(Act.VOTE)


def too_slow_to_stand(seconds: float, appeal_period: int) -> str | None:
    """Return why not to sign a verdict, or None: after a restart we could not stand by it within the appeal period.
    ``seconds``: until its record is known and two moves are mined."""
    if MARGIN * seconds <= appeal_period:
        return None
    return (
        f"to read what we have judged and to stand by it may take us {MARGIN * seconds:.0f} s; the appeal period has "
        f"{appeal_period} s"
    )


def too_costly(trial: TrialCost, moves_s: float, clock: int) -> str | None:
    """Return why not to sign a verdict, or None: this machine could not play its trial within the clock."""
    if MARGIN * (trial.seconds + moves_s) <= clock:
        return None
    return (
        f"a trial may take us {MARGIN * trial.seconds:.0f} s to compute ({trial}), and {MARGIN * moves_s:.0f} s "
        f"for its moves; the clock has {clock} s"
    )


def must_be_ready(hearing: HearingInfo, me: str) -> bool:
    """Return whether our judgement has to be known though nothing is due: our verdict is there and can be overruled.

    SAFETY: it is made again, where that is needed, before the period to stand by it begins or the clock of our trial.
    """
    phases = (HearingPhase.RULED, HearingPhase.TRIAL, HearingPhase.STAND)
    return hearing.state.phase in phases and hearing.signed(me)


def may_stake(hearing: HearingInfo, me: str, refused: bool) -> bool:
    """Return whether a hearing may hold our bond, now or by a signature that we have given: then what it rests on is
    kept. ``refused``: whether we have left its vote to others.

    NOTE: while votes are called for, a signature of ours may be on its way, also one from before a restart.
    """
    open_ = hearing.state.phase is HearingPhase.VOTING and not refused
    return open_ or hearing.hidden is not None or hearing.voted(me)
