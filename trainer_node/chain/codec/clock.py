"""Pauses of a deployment's clocks (the contract Timekeeper), from events."""

from __future__ import annotations

from dataclasses import dataclass, field

from referee_py.walk.pauses import Pause

from ...errors import RpcCorrupt
from .base import Fold


@dataclass(frozen=True, slots=True)
class TimekeeperInfo:
    """``budget``, ``left``: seconds; ``paused_until``: when stopped clocks run again at the latest; zero if running."""

    guardian: str
    budget: int
    left: int
    paused_until: int


@dataclass
class Pauses(Fold, contract="Timekeeper"):
    """All pauses, in order; the last may still last. Events that no contract emits raise RpcCorrupt."""

    found: list[Pause] = field(default_factory=list)

    def on_paused(self, since: int, until: int) -> None:
        # NOTE: a pause that nobody ended is over when its budget is used up.
        if since < self._last.end:
            raise RpcCorrupt(f"the clocks were stopped at {since}, but ran again only at {self._last.end}")
        self.found.append(Pause(since, until))

    def on_resumed(self, instant: int) -> None:
        last = self._last
        if not last.begin <= instant < last.end:
            raise RpcCorrupt(f"the clocks were started at {instant}, but did not stand still then")
        self.found[-1] = Pause(last.begin, instant)

    @property
    def _last(self) -> Pause:
        return self.found[-1] if self.found else Pause(0, 0)
