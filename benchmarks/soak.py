"""A day of a deployment on the chain's clock: what the nodes hold as the jobs go by (tests/campaigns/soak.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.campaigns.soak import Plan
from tests.campaigns.test_soak import DAY, play
from tests.conftest import _chains

from .report import Table

EVERY_H = 3


def measure(plan: Plan = DAY) -> Table:
    """Play the day, check it, and return a row for each three hours."""
    columns = ["hours", "jobs so far", "MiB of all nodes in one process", "KiB of the fullest disk"]
    table = Table("soak", [*columns, "machine's seconds per hour"])
    with tempfile.TemporaryDirectory() as folder, _chains() as start:
        day = play(start(), Path(folder), plan)
    for at, sample in enumerate(day.samples):
        if at % EVERY_H == 0 or at == len(day.samples) - 1:
            table.add(
                f"{sample.hour:.0f}" if at % EVERY_H == 0 else "all over",
                str(sample.jobs),
                str(sample.memory >> 20),
                str(max(sample.disk.values()) >> 10),
                f"{sample.seconds:.0f}",
            )
    return table
