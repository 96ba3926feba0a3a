"""Refusals of moves: one class for each custom error of the contracts, with the same name.

This module has those that several contracts share: of proofs and descents (contracts/commit/), and of money.
"""

from __future__ import annotations

from ..errors import IllegalMove


class Refusal(IllegalMove):
    """Base of the refusals. A subclass has the name of the contract's error; its docstring is the error message."""


def require(holds: bool, refusal: type[Refusal], *values: object) -> None:
    """Raise ``refusal`` unless ``holds``. The values, such as the one found and the one wanted, end the message."""
    if not holds:
        what = (refusal.__doc__ or refusal.__name__).strip().rstrip(".")
        raise refusal(f"{what}: {', '.join(map(show, values))}" if values else what)


def show(value: object) -> str:
    """Return a value as text for a message: bytes as hexadecimal."""
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


class BadSide(Refusal):
    """A side other than 0 and 1."""


class WrongNode(Refusal):
    """Something that does not hash to the side's node (side, have, want)."""


class BadDescent(Refusal):
    """A descent goes down at least min(height, 4) levels and at most height (levels, height)."""


class PathsDiffer(Refusal):
    """The two paths of a descent differ in length."""


class ChildOutOfRange(Refusal):
    """No such descendant (child, levels)."""


class NoDifference(Refusal):
    """Both sides agree on the node, so it is not the difference."""


class EarlierDifference(Refusal):
    """The trees differ already to the left of this child (level)."""


class WrongPathLength(Refusal):
    """A path must have exactly as many siblings as the tree is deep (have, want)."""


class IndexOutOfTree(Refusal):
    """No such leaf (index, depth)."""


class WrongChildCount(Refusal):
    """A level must have exactly as many nodes as asked for (have, want)."""


class PathMismatch(Refusal):
    """The path does not lead to the committed root (have, want)."""


class StructureTooLong(Refusal):
    """The encoding is longer than any structure may be."""


class StructureTruncated(Refusal):
    """The encoding ends before what its header announces."""


class NoSuchInput(Refusal):
    """The node has no such input (input, count)."""


class NothingToPay(Refusal):
    """The account has no credit."""


class WrongPhase(Refusal):
    """The match or job does not wait for a move of this kind (have, want)."""


class WrongStake(Refusal):
    """The value is not the job's stake (have, want)."""
