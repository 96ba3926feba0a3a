"""Acts of a verifier in a hearing: a pure function of the chain's state and its own judgement.

    Voting              judge -> vote, or refuse
    Defence             judge -> stand, if we signed the verdict and it is right; else wait
    Trial, Stand        the court decides: `referee_py.trial.solver` plays
    a period is over    keep going: escalate, proceed

SAFETY: a vote locks our bond, and only what we can defend afterwards is signed: in time, beside all that we have signed
before, and by what we keep. After a vote the bond is defended at any cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from referee_py.commit import Record
from referee_py.panel.solver import plan
from referee_py.panel.state import HearingPhase, Stand

from ..chain import HearingInfo, JobView
from ..reason import Reason
from ..run.trial_cost import TrialCost
from ..stake.admission import Bond, Means
from ..stake.funds import trial_wei
from ..stake.judge import NOT_KNOWN


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
class Signed:
    """Signatures of ours in other hearings. ``spare``: the wei of our account; ``max_fee``: the most that we pay for a
    unit of gas; ``means``: of this machine."""

    bonds: Sequence[Bond]
    spare: int
    max_fee: int
    means: Means

    def bond(self, job: JobView, judged: Judged) -> Bond:
        """Return what one more signature may ask of us."""
        wei, rules = trial_wei(job, self.max_fee), job.rules
        return Bond(judged.trial.seconds, rules.clock, wei, judged.read_s, rules.appeal_period)


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
    hearing: HearingInfo, me: str, judged: Judged | None, now: int, refusal: Callable[[], Reason | None]
) -> Decision:
    """Return what the verifier ``me`` does about a hearing at ``now``, in seconds. ``judged`` is None until known;
    ``refusal`` returns why not to sign, `NOT_KNOWN` if that needs our judgement.

    NOTE: a refusal is final. Whoever calls this for a hearing that was refused leaves its vote to others.
    """
    state = hearing.state
    if state.phase is HearingPhase.VOTING and now < state.until:
        return Decision(Act.WAIT) if hearing.voted(me) else _vote(refusal())
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


def _vote(refusal: Reason | None) -> Decision:
    if refusal is NOT_KNOWN:
        return Decision(Act.JUDGE)
    return Decision(Act.VOTE) if refusal is None else Decision(Act.REFUSE, str(refusal))


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
