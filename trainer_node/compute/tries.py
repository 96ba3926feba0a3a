"""Failed tries of one work of a job: its package, its measurement, its run, or the check of one claimed root.

SAFETY: strangers decide what fails in a job. So a delay keeps only the work waiting that has failed: what is known of
the job stays known meanwhile, and all else in it continues.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tries:
    """The failures of a work since it was done last."""

    failures: int = 0
    retry_at: float = 0.0
    """Time of the next try after so many failures, by the clock of this machine."""
    short: str | None = None
    """Why there is no memory for it."""

    def done(self) -> None:
        """Note that the work is done."""
        self.failures, self.short = 0, None
