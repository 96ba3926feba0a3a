"""Refusals of moves: one class for each custom error of `IPanel` and `IVerifierRegistry`, with the same name."""

from __future__ import annotations

from ..walk.refusals import NothingToPay, Refusal, require

__all__ = ["NothingToPay", "Refusal", "require"]


# --- of a hearing -----------------------------------------------------------------------------------------------


class AlreadyHeard(Refusal):
    """The match has been submitted before."""


class WrongHearingPhase(Refusal):
    """The hearing does not wait for a move of this kind (have, want)."""


class PeriodOver(Refusal):
    """The time for this move is over (until)."""


class PeriodRunning(Refusal):
    """The time in which others may move is not over (until)."""


class AnotherSubmission(Refusal):
    """Not the submission that the hearing is about (have, want)."""


class AnotherDispute(Refusal):
    """Not the dispute that was submitted (have, want)."""


class ECDSAInvalidSignature(Refusal):
    """Not a signature: wrong length, not canonical, or of nobody."""


class NotVerifier(Refusal):
    """The signature is not that of a verifier of the job."""


class AlreadyVoted(Refusal):
    """The verifier has already voted in this hearing."""


class NothingToAppeal(Refusal):
    """The sender is not a spokesman whom the verdict calls wrong."""


class WrongBond(Refusal):
    """An appeal costs what a slot of the job takes now (have, want)."""


class NoBond(Refusal):
    """The sender has lost its bond, in another hearing."""


class NotSigner(Refusal):
    """The sender has not signed the verdict, or has lost its bond for it."""


class AnotherRecord(Refusal):
    """Not the record that the verdict calls right (have, want)."""


# --- of a bond --------------------------------------------------------------------------------------------------


class BondTooSmall(Refusal):
    """A bond below the least one (have, want)."""


class AlreadyRegistered(Refusal):
    """The sender has a bond here."""


class NotRegistered(Refusal):
    """The sender has no bond here."""


class AlreadyLeaving(Refusal):
    """The sender has left before (leaves at)."""


class StillLocked(Refusal):
    """A bond stays for a while after its verifier has left (leaves at)."""


class StillHeld(Refusal):
    """Hearings are open in which the verifier has voted (hearings)."""


class NotPanel(Refusal):
    """The bond answers to another panel, or there is none (sender, panel)."""
