"""Which move of a hearing is due: a pure decision.

Votes are the verifiers' (`Attest`), and trials have a solver of their own (`referee_py.trial.solver`).
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
    """The move that is due from ``me`` at ``now``, or None. An appeal is sent with ``terms.stake``.

    ``right`` is the record that ``me`` has found to be the operator's right one; None if it does not know. Who ``me``
    is follows from its address: a spokesman, a signer of the verdict, or a bystander, who only sees to it that the
    hearing goes on. So

    - a spokesman appeals from a verdict that calls its record wrong, if its record is ``right``;
    - a signer stands by a verdict that was overruled, if the verdict is ``right``;
    - anybody escalates or proceeds when the period is over; a signer never proceeds against itself.
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
    """Whether the verdict calls the right record of this spokesman wrong."""
    if right is None or right.hash() == state.verdict:
        return False
    sides = zip(terms.submission.players, terms.submission.records, strict=True)
    return any(player == me and record == right.hash() for player, record in sides)


def seat(state: HearingState, terms: HearingTerms, me: str) -> int | None:
    """Which side of the running trial is ``me``; None if no trial runs, or it is between others."""
    if not state.in_trial:
        return None
    players = trial_players(state, terms)
    return players.index(me) if me in players else None
