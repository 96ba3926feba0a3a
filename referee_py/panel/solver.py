"""The move of a hearing that is due: a pure decision.

Verifiers vote by themselves (`Attest`), and trials have a solver of their own (`referee_py.trial.solver`).
"""

from __future__ import annotations

from ..commit import Record
from .state import (
    Appeal,
    Escalate,
    HearingPhase,
    HearingState,
    HearingTerms,
    Move,
    Proceed,
    Stand,
    trial_players,
)


def plan(state: HearingState, terms: HearingTerms, me: str, right: Record | None, now: int) -> Move | None:
    """Return the move that is due from ``me`` at ``now``, or None. The caller sends ``terms.stake`` with an appeal.

    ``right`` is the record that ``me`` has found to be right, or None if it does not know. The role of ``me`` follows
    from its address: a spokesman, a signer of the verdict, or a bystander that only keeps the hearing going.

    - A spokesman appeals from a verdict that calls its record wrong, if its record is ``right``.
    - A signer stands by an overruled verdict, if the verdict's record is ``right``.
    - Anybody escalates or proceeds when the period is over, but a signer never proceeds against itself.
    """
    over = now >= state.until
    match state.phase:
        case HearingPhase.VOTING if over:
            return Escalate(terms.submission, terms.dispute)
        case HearingPhase.RULED:
            if over:
                return Proceed(terms.submission)
            return Appeal(terms.submission, terms.dispute) if _wronged(state, terms, me, right) else None
        case HearingPhase.DEFENCE:
            signed = me in state.signers(state.verdict)
            if over:
                return None if signed else Proceed(terms.submission)
            if signed and right is not None and right.hash() == state.verdict:
                return Stand(terms.submission, terms.dispute, right)
    return None


def _wronged(state: HearingState, terms: HearingTerms, me: str, right: Record | None) -> bool:
    """Return whether ``me`` is a spokesman whose record is right, and the verdict calls it wrong."""
    if right is None or right.hash() == state.verdict:
        return False
    sides = zip(terms.submission.players, terms.submission.records, strict=True)
    return any(player == me and record == right.hash() for player, record in sides)


def seat(state: HearingState, terms: HearingTerms, me: str) -> int | None:
    """Return the side of ``me`` in the running trial; None if no trial runs, or ``me`` is not one of its players."""
    if not state.in_trial:
        return None
    players = trial_players(state, terms)
    return players.index(me) if me in players else None
