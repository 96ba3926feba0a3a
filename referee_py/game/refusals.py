"""Why a move is refused: one class for each custom error of the contracts, by the same name."""

from __future__ import annotations

from ..errors import IllegalMove


class Refusal(IllegalMove):
    """Base of the refusals; the name of the class is the name of the contract's error."""


class WrongPhase(Refusal):
    """The match does not wait for a move of this kind."""


class Late(Refusal):
    """A side has run out of time; only a timeout may follow."""


class NotLate(Refusal):
    """A timeout while nobody is late."""


class BadSide(Refusal):
    """A side other than 0 and 1."""


class AlreadyPosted(Refusal):
    """That side has published its half at this position."""


class WrongLength(Refusal):
    """Too few or too many hashes, or a malformed encoding."""


class WrongHash(Refusal):
    """Something that does not hash to what is committed."""


class WrongProof(Refusal):
    """A Merkle path of the wrong length, at an impossible index, or to another root."""


class SameNode(Refusal):
    """Both sides agree on the node; it is not the difference."""


class NotFirst(Refusal):
    """Something to the left of the node differs too."""


class NotSpokesman(Refusal):
    """Only the spokesman of a side may post a new root."""


class NothingToJudge(Refusal):
    """The records do not differ in what this move judges."""


class Malformed(Refusal):
    """A record is not well formed, so only its structure may be judged."""


class NotVerifier(Refusal):
    """The signature is not that of a verifier of the job."""


class AlreadyVoted(Refusal):
    """That verifier has voted in this match."""


class VerdictOver(Refusal):
    """The verdict period has ended."""


class VerdictOpen(Refusal):
    """The verdict period has not ended."""


def require(holds: bool, refusal: type[Refusal], detail: str = "") -> None:
    """One guard a line."""
    if not holds:
        raise refusal(detail or (refusal.__doc__ or "").strip())
