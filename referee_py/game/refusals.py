"""Refusals of moves in a match: one class for each custom error of `IReferee`, with the same name."""

from __future__ import annotations

from ..walk.refusals import Refusal


class Late(Refusal):
    """A side has run out of time, only a timeout may follow (mask)."""


class NotLate(Refusal):
    """A timeout while nobody is late."""


class AlreadyPosted(Refusal):
    """The side has already published its half at this position."""


class PreviousNotNeeded(Refusal):
    """A checkpoint before the interval where there is none to agree on."""


class NotSpokesman(Refusal):
    """Only the spokesman of a side may post a new root (sender, spokesman)."""


class WellFormed(Refusal):
    """Both records are well formed, so there is nothing to say about their structure."""


class Malformed(Refusal):
    """A record is not well formed, so only its structure may be judged (mask)."""


class InputsEqual(Refusal):
    """The records do not differ in that input."""


class InputsDiffer(Refusal):
    """The records differ in an input, so the operator is not in dispute (input)."""


class LogsEqual(Refusal):
    """The records do not differ in their logs."""


class LogsDiffer(Refusal):
    """The records differ in their logs, so the operator is not in dispute."""


class UnknownOperand(Refusal):
    """A structure names a kind of operand that does not exist."""


class ForwardReference(Refusal):
    """An input names a node that is not earlier, so it cannot be agreed (source, node)."""
