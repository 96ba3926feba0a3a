"""The rules of a hearing as pure functions: the contract `Panel` in Python (docs/adjudication.md, section 6).

`heard`, `apply` and `trial_decided` return the state after a submission, a move or a trial, and the effects on other
contracts as values (`Effect`), which the caller carries out in order. A refusal has the name of the contract's custom
error.

INVARIANT: only effects that are carried out before the state changes can be refused: `Hold`, `Bonded`, `OpenTrial`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..attestation import Verdict, recover
from ..errors import InvalidEncoding
from ..params import BURNED, PRIZE_DIVISOR
from ..walk.dispute import Dispute, dispute_hash
from ..walk.reason import Reason
from ..walk.refusals import require
from ..walk.sides import BOTH, NOBODY
from . import refusals
from .state import (
    Appeal,
    Attest,
    Escalate,
    HearingPhase,
    HearingState,
    HearingTerms,
    Move,
    Proceed,
    Stand,
    Submission,
    defended,
    trial_players,
)

# --- effects on other contracts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hold:
    """The bond cannot be withdrawn until it is released. Refused if the bond does not answer to the panel."""

    verifier: str


@dataclass(frozen=True, slots=True)
class Bonded:
    """No effect, but refused if the verifier has no bond that answers to the panel.

    SAFETY: a signer that has lost its bond elsewhere could win half of an appeal's bond in a trial and lose nothing.
    """

    verifier: str


@dataclass(frozen=True, slots=True)
class Release:
    """One hold on the verifier's bond ends."""

    verifier: str


@dataclass(frozen=True, slots=True)
class Slash:
    """The signer loses its bond: half goes to the accuser, none if a second hearing holds it. The rest is burned."""

    signer: str
    accuser: str


@dataclass(frozen=True, slots=True)
class Credit:
    """An account is credited with ether that the panel holds. ``amount`` is in wei."""

    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """Trial ``number`` of the hearing begins, each side with the job's clock. Refused if the Court refuses it."""

    number: int
    players: tuple[str, str]
    dispute: Dispute


@dataclass(frozen=True, slots=True)
class DecideMatch:
    """The match ends. ``losers`` is a bit mask of sides."""

    losers: int
    reason: Reason
    deciders: tuple[str, ...] = ()
    """The verifiers whose verdict decided; empty if a verdict did not."""


Effect = Hold | Bonded | Release | Slash | Credit | OpenTrial | DecideMatch
Outcome = tuple[HearingState, tuple[Effect, ...]]


# --- moves --------------------------------------------------------------------------------------------------------


def heard(terms: HearingTerms, now: int) -> Outcome:
    """Return a new hearing: with votes, or with a trial. Raises AnotherDispute if the dispute was not submitted."""
    _check_dispute(terms, terms.dispute)
    if not terms.rules.has_verifiers:
        return _try(HearingState(HearingPhase.TRIAL), terms.submission.players, terms.dispute)
    return HearingState(HearingPhase.VOTING, until=now + terms.rules.verdict_period), ()


def apply(state: HearingState, terms: HearingTerms, move: Move, sender: str, value: int, now: int) -> Outcome:
    """Return the state and the effects of a move by ``sender`` at ``now``, in seconds. Raises a Refusal.

    ``value`` is the wei sent with an appeal; no other move takes ether.
    """
    match move:
        case Attest():
            return _attest(_begin(state, terms, move, HearingPhase.VOTING), terms, move, now)
        case Appeal():
            return _appeal(_begin(state, terms, move, HearingPhase.RULED), terms, move, sender, value, now)
        case Escalate():
            return _escalate(_begin(state, terms, move, HearingPhase.VOTING), terms, move, now)
        case Stand():
            return _stand(_begin(state, terms, move, HearingPhase.DEFENCE), terms, move, sender, now)
        case Proceed():
            want = HearingPhase.RULED if state.phase is HearingPhase.RULED else HearingPhase.DEFENCE
            return _proceed(_begin(state, terms, move, want), terms, now)
    raise TypeError(f"no rule for {move!r}")


def _begin(state: HearingState, terms: HearingTerms, move: Move, want: HearingPhase) -> HearingState:
    require(state.phase is want, refusals.WrongHearingPhase, state.phase.name, want.name)
    _check_same(move.submission, terms.submission)
    return state


def _check_same(have: Submission, want: Submission) -> None:
    if have != want:
        raise refusals.AnotherSubmission(f"submission 0x{have.hash().hex()}, not 0x{want.hash().hex()}")


def _check_dispute(terms: HearingTerms, dispute: Dispute) -> None:
    have, want = dispute_hash(dispute), terms.submission.dispute
    require(have == want, refusals.AnotherDispute, have, want)


def _before(until: int, now: int) -> None:
    require(now < until, refusals.PeriodOver, until)


def _after(until: int, now: int) -> None:
    require(now >= until, refusals.PeriodRunning, until)


# --- votes --------------------------------------------------------------------------------------------------------


def _attest(state: HearingState, terms: HearingTerms, move: Attest, now: int) -> Outcome:
    _before(state.until, now)
    verdict = Verdict(terms.hearing_id, move.submission.step, move.submission.node, move.record)
    try:
        verifier = recover(verdict, terms.chain_id, terms.panel, move.signature)
    except InvalidEncoding as error:
        raise refusals.ECDSAInvalidSignature(str(error)) from error
    require(verifier not in state.voters, refusals.AlreadyVoted, verifier)
    require(verifier in terms.verifiers, refusals.NotVerifier, verifier)
    held = (Hold(verifier),)
    votes = (*state.votes, (verifier, move.record))
    state = replace(state, votes=votes, voters=(*state.voters, verifier))
    if len(state.signers(move.record)) < terms.rules.threshold:
        return state, held
    until = now + terms.rules.appeal_period
    return replace(state, verdict=move.record, phase=HearingPhase.RULED, until=until), held


def _close(state: HearingState) -> Outcome:
    """End the hearing and release every bond that it holds."""
    return replace(state, phase=HearingPhase.DONE), tuple(Release(verifier) for verifier in state.voters)


# --- trials -------------------------------------------------------------------------------------------------------


def _try(state: HearingState, players: tuple[str, str], dispute: Dispute) -> Outcome:
    number = state.trials + 1
    return replace(state, trials=number), (OpenTrial(number, players, dispute),)


def _appeal(
    state: HearingState, terms: HearingTerms, move: Appeal, sender: str, value: int, now: int
) -> Outcome:
    _before(state.until, now)
    _check_dispute(terms, move.dispute)
    players, losers = terms.submission.players, terms.submission.unlike(state.verdict)
    side = next((s for s in (0, 1) if losers >> s & 1 and players[s] == sender), None)
    if side is None:
        raise refusals.NothingToAppeal(f"{sender} is not a spokesman whom the verdict calls wrong")
    require(value >= terms.stake, refusals.WrongBond, value, terms.stake)
    state = replace(
        state,
        phase=HearingPhase.TRIAL,
        appellant=side,
        losers=losers,
        players=players,
        bond=terms.stake,
        appeal_period=terms.rules.appeal_period,
    )
    state, trial = _try(state, players, terms.dispute)
    return state, (Credit(sender, value - terms.stake), *trial)


def _escalate(state: HearingState, terms: HearingTerms, move: Escalate, now: int) -> Outcome:
    _after(state.until, now)
    _check_dispute(terms, move.dispute)
    return _try(replace(state, phase=HearingPhase.TRIAL), terms.submission.players, terms.dispute)


def _stand(state: HearingState, terms: HearingTerms, move: Stand, sender: str, now: int) -> Outcome:
    _before(state.until, now)
    _check_dispute(terms, move.dispute)
    require(sender in state.signers(state.verdict), refusals.NotSigner, sender)
    have = move.record.hash()
    require(have == state.verdict, refusals.AnotherRecord, have, state.verdict)
    # NOTE: the record that the verdict calls right may be neither side's.
    state = replace(state, phase=HearingPhase.STAND, defendant=sender)
    state, trial = _try(state, trial_players(state, terms), defended(terms.dispute, state.side, move.record))
    return state, (Bonded(sender), *trial)


def trial_decided(state: HearingState, losers: int, late: bool, now: int) -> Outcome:
    """Return the outcome of a decided trial. ``losers``: its losers, as bits. ``late``: True if a clock decided it."""
    if state.phase is HearingPhase.STAND:
        return _stood(state, losers, now)
    assert state.phase is HearingPhase.TRIAL  # INVARIANT: the Court reports the result of each trial once.
    reason = Reason.TIMEOUT if late else Reason.OPERATOR
    if state.losers == NOBODY:
        # NOTE: this trial had no appeal, so there is no verdict and no bond.
        state, released = _close(state)
        return state, (*released, DecideMatch(losers, reason))
    cleared = state.losers & ~losers
    if cleared:
        return _accuse(state, 0 if cleared & 1 else 1, now), (DecideMatch(losers, reason),)
    deciders = state.signers(state.verdict)
    state, ended = _end(state, _refund(state, losers))
    return state, (*ended, DecideMatch(losers, reason, deciders))


def _end(state: HearingState, paid: tuple[Effect, ...]) -> Outcome:
    """End the hearing of an appeal; the effects ``paid`` distribute the appeal's bond."""
    state, released = _close(replace(state, bond=0))
    return state, (*paid, *released)


def _refund(state: HearingState, losers: int) -> tuple[Effect, ...]:
    """Give the bond back to the appellant. If the appellant lost, half goes to the other side, unless it lost too."""
    side = state.appellant
    if not losers >> side & 1:
        return (Credit(state.players[side], state.bond),)
    return _share(state, BURNED if losers == BOTH else state.players[1 - side])


def _share(state: HearingState, winner: str) -> tuple[Effect, ...]:
    """Distribute a lost appeal's bond: half to ``winner``, the rest is burned."""
    prize = state.bond // PRIZE_DIVISOR
    return Credit(winner, prize), Credit(BURNED, state.bond - prize)


def _lost(state: HearingState) -> int:
    """Return the loser of the spokesmen's trial, as bits. INVARIANT: it is the side that is not the accuser."""
    return 1 << (1 - state.side)


# --- overruled verdicts -------------------------------------------------------------------------------------------


def _accuse(state: HearingState, side: int, now: int) -> HearingState:
    """Begin Defence, in which the verdict's signers may stand by it.

    SAFETY: the Court decides against a right spokesman that does not play. So a signer loses its bond only after it
    had the chance to play a trial of its own.
    """
    return replace(state, phase=HearingPhase.DEFENCE, side=side, until=now + state.appeal_period)


def _stood(state: HearingState, losers: int, now: int) -> Outcome:
    if not losers >> (1 - state.side) & 1:
        # SAFETY: the accuser was wrong, and so was the appellant, whichever side that was. The signer did the work.
        return _end(state, _share(state, state.defendant))
    slash = Slash(state.defendant, state.players[state.side])
    state = _without(state, state.defendant)
    if state.signers(state.verdict):
        return _accuse(state, state.side, now), (slash,)
    state, ended = _end(state, _refund(state, _lost(state)))
    return state, (slash, *ended)


def _without(state: HearingState, signer: str) -> HearingState:
    """Remove the signer's vote; the last vote for the same record takes its place, as in the contract."""
    last = max(k for k, (_, record) in enumerate(state.votes) if record == state.verdict)
    moved = [state.votes[last] if vote == (signer, state.verdict) else vote for vote in state.votes]
    return replace(state, votes=tuple(moved[:last] + moved[last + 1 :]))


def _proceed(state: HearingState, terms: HearingTerms, now: int) -> Outcome:
    _after(state.until, now)
    signers = state.signers(state.verdict)
    if state.phase is HearingPhase.RULED:
        state, released = _close(state)
        losers = terms.submission.unlike(state.verdict)
        return state, (*released, DecideMatch(losers, Reason.OPERATOR, signers))
    accuser = state.players[state.side]
    slashes = tuple(Slash(signer, accuser) for signer in reversed(signers))
    for signer in reversed(signers):
        state = _without(state, signer)
    state, ended = _end(state, _refund(state, _lost(state)))
    return state, (*slashes, *ended)
