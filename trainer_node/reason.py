"""The type of all reasons to leave a job to others, from what the disk says to what the account can pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Reason:
    """Why the node does not stake on a job, or sign in it. Each kind is a frozen dataclass of the numbers that decide.

    ``str()`` gives what the operator reads: the value, the limit, and the remedy if there is one.
    """

    text: ClassVar[str]
    """The operator's text, with the names of fields in braces."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __str__(self) -> str:
        return self.text.format_map(vars(self))
