"""Rungs: a dispute as the pages show it, each with the tree that is walked, its hashes, and the transactions of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from referee_py.element import Entry
from referee_py.walk.reason import Reason

from .index import Sent

Pair = tuple[bytes, bytes]
Names = Callable[[str], str]
"""Name of an account on the page."""


@dataclass
class Moves:
    """A transaction's part in a rung. ``shared``: an earlier rung has shown it, with its gas."""

    sent: Sent
    since: int
    shared: bool
    lines: list[str] = field(default_factory=list)


@dataclass
class Strip:
    """The leaves of a tree. Those before ``lo`` are equal, the first difference is one of ``lo..hi``, both included."""

    count: int
    lo: int
    hi: int
    unit: str
    first: int
    """Number that the first leaf is called by."""
    every: int = 1
    end: int = 0
    """With ``every``: leaf k is called ``min(first + k * every, end)``."""

    @property
    def found(self) -> bool:
        return self.lo == self.hi

    @property
    def kinds(self) -> set[str]:
        """Kinds of leaves that it has: equal, different or open, after."""
        return {
            kind
            for kind, some in (
                ("equal", self.lo > 0),
                ("different", self.found),
                ("open", not self.found),
                ("after", self.hi < self.count - 1),
            )
            if some
        }

    def name(self, leaf: int) -> str:
        number = self.first + leaf * self.every
        return f"{self.unit}{min(number, self.end) if self.end else number}"


@dataclass
class Rung:
    """One rung. ``pairs`` are hashes of both sides by what they are of; equal or not is seen from the hashes."""

    kind: str
    title: str
    lead: str = ""
    pairs: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    strip: Strip | None = None
    moves: list[Moves] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    page: str = ""
    """Another page about it: operator or element."""

    @property
    def gas(self) -> int:
        return sum(part.sent.gas for part in self.moves if not part.shared)

    @property
    def seconds(self) -> int:
        return sum(part.since for part in self.moves if not part.shared)


@dataclass(frozen=True)
class Found:
    """The first difference, as far as it is known: the disputed step (after which both differ), node and element."""

    step: int | None = None
    node: int | None = None
    output: int | None = None
    element: int | None = None
    values: tuple[int, int] | None = None
    entry: Entry | None = None
    lo: int | None = None
    hi: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Ladder:
    rungs: list[Rung]
    found: Found
    losers: tuple[int, ...] | None
    """The sides that lost, once that is decided."""
    reason: Reason | None
    transactions: int
    gas: int
    seconds: int
