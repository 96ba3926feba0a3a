"""The finding of a check: one line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. ``remedy`` is empty if nothing needs to be done."""

    name: str
    state: State
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" + (f" -> {self.remedy}" if self.remedy else "")
