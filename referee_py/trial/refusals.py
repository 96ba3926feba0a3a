"""Refusals of moves: one class for each custom error of `ICourt` and `IRule`, with the same name."""

from __future__ import annotations

from ..walk.refusals import (
    BadDescent,
    ChildOutOfRange,
    EarlierDifference,
    NoDifference,
    PathsDiffer,
    Refusal,
    WrongNode,
    require,
)

__all__ = [
    "BadDescent",
    "ChildOutOfRange",
    "EarlierDifference",
    "NoDifference",
    "PathsDiffer",
    "Refusal",
    "WrongNode",
    "require",
]


class WrongStage(Refusal):
    """The trial does not wait for a move of this kind (have, want)."""


class TooLate(Refusal):
    """A side has run out of time, only a timeout may follow (mask)."""


class NotTooLate(Refusal):
    """A timeout while nobody is late."""


class NoSuchSide(Refusal):
    """A side other than 0 and 1."""


class NothingShown(Refusal):
    """No side's root is shown."""


class AlreadyShown(Refusal):
    """The side has already posted its half at this position."""


class NotPlayer(Refusal):
    """States are posted by the side itself (sender, player)."""


class RecordsDiffer(Refusal):
    """The records differ in more than outputs, or are not what the structure says."""


class OutputsEqual(Refusal):
    """The records have the same outputs."""


class AnotherHash(Refusal):
    """Something that does not hash to what is committed to (have, want)."""


class AnotherInput(Refusal):
    """An input that does not hash to what both records have (input, have, want)."""


class AnotherLog(Refusal):
    """A block that the agreed log does not have (have, want)."""


class LeafTooLong(Refusal):
    """A leaf of data has at most 1,024 bytes."""


class WrongInputCount(Refusal):
    """The operator has another number of inputs (have, want)."""


class BadStates(Refusal):
    """So many states have another number of bytes (have, want)."""


class NoSuchPlace(Refusal):
    """A place beyond those of the round (place, places)."""


class SameState(Refusal):
    """An answer that agrees with what was posted."""


class StateNotNeeded(Refusal):
    """A state for the interval's end, where both have said theirs."""


class OutsideTensor(Refusal):
    """An element that the input does not have (input, element)."""


class NotOpened(Refusal):
    """The next operand that the step takes is another one, or none is left (input, element)."""


class NotTaken(Refusal):
    """Operands were opened that the step does not take (opened, taken)."""
