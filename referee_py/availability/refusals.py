"""Refusals of requests, responses and closings: one class for each custom error of the contract, with the same name.

Those of proofs are in referee_py/walk/refusals.py.
"""

from __future__ import annotations

from ..walk.refusals import Refusal


class NothingRequested(Refusal):
    """A request of no place."""


class TooManyPlaces(Refusal):
    """More places than one call takes (have, most)."""


class TooManyOpen(Refusal):
    """So much is open under the root that one has to wait for answers (open pieces, other checkpoints)."""


class WrongDeposit(Refusal):
    """The value is less than what the places cost (have, want)."""


class NoSuchPlace(Refusal):
    """The program has no such place (number, count)."""


class NoSuchLogs(Refusal):
    """The job has no such logs (root)."""


class NotClaimed(Refusal):
    """Nobody who has not lost claims this root."""


class AnotherCheckpoint(Refusal):
    """Records of one checkpoint can be requested in one call (have, want)."""


class NoSuchRequest(Refusal):
    """Nothing open is requested there."""


class WrongPiece(Refusal):
    """Another kind of piece (have, want)."""


class ResponseLate(Refusal):
    """The time for an answer is over (until)."""


class NotLate(Refusal):
    """There is time for an answer (until)."""


class Unreadable(Refusal):
    """A log can have no such block (number)."""


class WrongBlockCount(Refusal):
    """A page has another number of blocks (have, want)."""


class WrongDigest(Refusal):
    """It is not what the hash is of (have, want)."""


class WrongLeafLength(Refusal):
    """The tensor's leaf has another length (have, want)."""


class NothingThere(Refusal):
    """The place has no such thing, and something is shown of it."""


class UnknownDtype(Refusal):
    """A tensor of no dtype that there is."""


class TooManyElements(Refusal):
    """A tensor of more elements than any may have."""


class RankTooHigh(Refusal):
    """A tensor of more dimensions than any may have."""
