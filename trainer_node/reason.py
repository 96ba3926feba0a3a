"""The type of all reasons to leave a job to others, from what the disk says to what the account can pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Reason:
    """Why the node does not stake on a job, or sign in it: one kind of reason, with the numbers that decide it.

    ``str()`` gives what the operator reads: the value, the limit, and the remedy if there is one.
    """

    text: ClassVar[str]
    """The operator's text, with the names of fields in braces."""

    def __str__(self) -> str:
        return self.text.format_map(vars(self))
