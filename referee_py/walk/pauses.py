"""The contracts' time: the chain's time less all pauses (the contract Timekeeper)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pause:
    """A period in which the clocks stand still, from ``begin`` to ``end``: unix seconds of the chain."""

    begin: int
    end: int


def contract_time(pauses: Iterable[Pause], chain_time: int) -> int:
    """Return the contracts' time at an instant of the chain, both in unix seconds."""
    return chain_time - sum(max(0, min(chain_time, p.end) - p.begin) for p in pauses)
