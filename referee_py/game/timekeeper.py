"""What time it is for the contracts: the chain's, less all pauses (the contract Timekeeper)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """The clocks stood still from ``begin`` to ``end``, both on the chain's clock, in seconds."""

    begin: int
    end: int


def contract_time(pauses: Iterable[Pause], chain_time: int) -> int:
    """The contracts' time at an instant of the chain, in seconds."""
    return chain_time - sum(max(0, min(chain_time, p.end) - p.begin) for p in pauses)


class Timekeeper:
    """The same from the guardian's side; refusals are the contract's, by name."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.pauses: list[Pause] = []

    def time(self, now: int) -> int:
        """What contracts call now when the chain says ``now``."""
        return contract_time(self.pauses, now)

    def left(self, now: int) -> int:
        """Seconds of the budget that are not spent."""
        return self.budget - (now - self.time(now))

    def paused(self, now: int) -> bool:
        """Whether the clocks stand still."""
        return bool(self.pauses) and now < self.pauses[-1].end

    def pause(self, now: int) -> str | None:
        """The name of the error that refuses it, if one does."""
        if self.paused(now):
            return "AlreadyPaused"
        if not (left := self.left(now)):
            return "BudgetSpent"
        self.pauses.append(Pause(now, now + left))
        return None

    def resume(self, now: int) -> str | None:
        """The name of the error that refuses it, if one does."""
        if not self.paused(now):
            return "NotPaused"
        self.pauses[-1] = Pause(self.pauses[-1].begin, now)
        return None
