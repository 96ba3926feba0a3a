"""The works that strangers can cause a node, each bounded by what its author pays and by our clock.

The table is shown in docs/security.md. A work that has no row here is one whose bound nobody has thought about.
"""

from __future__ import annotations

from .dispute_works import OF_DISPUTES
from .job_works import OF_JOBS

WORKS = (*OF_DISPUTES, *OF_JOBS)


def table() -> list[str]:
    """Return the lines of the table in docs/security.md."""
    lines = ["| work | caused by | bound | its author pays | test |", "|---|---|---|---|---|"]
    return lines + [f"| {w.name} | {w.caused_by} | {w.bound} | {w.paid_by} | {w.test} |" for w in WORKS]
