"""Ether behind receipts: the contract `Pledges` in Python (docs/protocol.md, section 11).

INVARIANT: ether in = credits + pledges + charges of open challenges + ether withdrawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from referee_py.params import BURNED


class Ended(IntEnum):
    """The end of a challenge's job. ``SHOWN``: what it has accepted can be shown; ``NONSENSE``: nobody can."""

    RUNS = 0
    SHOWN = 1
    NONSENSE = 2
    NOTHING = 3


class Refused(Exception):
    """A move that the contract refuses, by the name of its error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Terms:
    """Amounts in wei and periods in seconds, of the conditions of a pledge."""

    forfeit: int
    charge: int
    notice: int
    close: int


@dataclass(frozen=True)
class Note:
    """A receipt: its number, whether its tokens are right, and the last second in which it can be challenged."""

    number: int
    right: bool
    until: int


@dataclass
class Open:
    challenger: str
    note: Note
    ended: Ended = Ended.RUNS
    closes_at: int = 0


@dataclass
class Pledge:
    amount: int = 0
    leaves_at: int = 0
    row: list[Open] = field(default_factory=list)
    """Challenges that are not decided, in the order of their opening."""


class Pledges:
    """One owner's pledge, and its challenges. A move takes full effect or raises Refused."""

    def __init__(self, owner: str, terms: Terms) -> None:
        self.owner, self.terms, self.pledge = owner, terms, Pledge()
        self.credits: Counter[str] = Counter()
        self.wrong: set[int] = set()
        self.committed: set[tuple[str, int]] = set()

    def add(self, wei: int) -> None:
        if self.pledge.amount + wei < self.terms.forfeit:
            raise Refused("PledgeTooSmall")
        self.pledge.amount += wei
        self.pledge.leaves_at = 0

    def give_notice(self, now: int) -> None:
        if self.pledge.leaves_at:
            raise Refused("AlreadyLeaving")
        self.pledge.leaves_at = now + self.terms.notice

    def reclaim(self, now: int) -> None:
        if not self.pledge.amount:
            raise Refused("NothingPledged")
        if not self._gone(now):
            raise Refused("StillPledged")
        if self.pledge.row:
            raise Refused("ChallengesOpen")
        self.credits[self.owner] += self.pledge.amount
        self.pledge.amount = 0

    def commit(self, sender: str, note: Note) -> None:
        self.committed.add((sender, note.number))

    def challenge(self, sender: str, note: Note, wei: int, least: int, now: int) -> None:
        pledge, terms = self.pledge, self.terms
        for refused, name in (
            (not pledge.amount, "NothingPledged"),
            (self._gone(now), "PledgeGone"),
            (now > note.until, "ReceiptExpired"),
            (note.number in self.wrong, "AlreadyWrong"),
            (max(0, pledge.amount - terms.forfeit * len(pledge.row)) < least, "CoveredBy"),
            ((sender, note.number) not in self.committed, "NothingCommitted"),
            (wei < terms.charge, "WrongCharge"),
        ):
            if refused:
                raise Refused(name)
        pledge.row.append(Open(sender, note))
        self.credits[sender] += wei - terms.charge

    def decide(self, note: Note) -> None:
        first = self._first(note)
        if first.ended is Ended.NONSENSE:
            raise Refused("PathMismatch")
        if first.ended is Ended.NOTHING or note.right:
            self._uphold()
            return
        self.pledge.row.pop(0)
        self.credits[first.challenger] += self.terms.charge
        if note.number not in self.wrong:
            self.wrong.add(note.number)
            paid = min(self.terms.forfeit, self.pledge.amount)
            self.pledge.amount -= paid
            self._halve(first.challenger, paid)

    def close(self, note: Note, now: int) -> None:
        first = self._first(note)
        if first.ended is Ended.NOTHING:
            raise Refused("NothingAccepted")
        if not first.closes_at:
            first.closes_at = now + self.terms.close
        elif now < first.closes_at:
            raise Refused("StillOpen")
        else:
            self._uphold()

    def instants(self) -> list[int]:
        """Return the instants that matter, apart from those of receipts."""
        return [self.pledge.leaves_at, *(one.closes_at for one in self.pledge.row)]

    # --- inside ---------------------------------------------------------------------------------------------------

    def _first(self, note: Note) -> Open:
        if not self.pledge.row:
            raise Refused("NothingOpen")
        first = self.pledge.row[0]
        if first.note != note:
            raise Refused("OtherReceipt")
        if first.ended is Ended.RUNS:
            raise Refused("JobRuns")
        return first

    def _uphold(self) -> None:
        self.pledge.row.pop(0)
        self._halve(self.owner, self.terms.charge)

    def _halve(self, account: str, wei: int) -> None:
        self.credits[account] += wei // 2
        self.credits[BURNED] += wei - wei // 2

    def _gone(self, now: int) -> bool:
        return 0 < self.pledge.leaves_at <= now
