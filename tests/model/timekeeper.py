"""The contract `Timekeeper` in Python: the chain's time less all pauses (docs/protocol.md, section 6)."""

from __future__ import annotations

from referee_py.walk.pauses import Pause, contract_time


class Timekeeper:
    """The contracts' time, with the guardian's moves. ``budget`` and all times are seconds; ``now`` is the chain's."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.pauses: list[Pause] = []

    def time(self, now: int) -> int:
        """Return the contracts' time at the chain's instant ``now``."""
        return contract_time(self.pauses, now)

    def left(self, now: int) -> int:
        """Return the seconds of the budget that are left."""
        return self.budget - (now - self.time(now))

    def paused(self, now: int) -> bool:
        """Return whether the clocks stand still."""
        return bool(self.pauses) and now < self.pauses[-1].end

    def pause(self, now: int) -> str | None:
        """Begin a pause. Return the name of the contract's error that refuses it, or None."""
        if self.paused(now):
            return "AlreadyPaused"
        if not (left := self.left(now)):
            return "BudgetSpent"
        self.pauses.append(Pause(now, now + left))
        return None

    def resume(self, now: int) -> str | None:
        """End the pause. Return the name of the contract's error that refuses it, or None."""
        if not self.paused(now):
            return "NotPaused"
        self.pauses[-1] = Pause(self.pauses[-1].begin, now)
        return None
