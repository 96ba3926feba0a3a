"""What a node takes while there is nothing to do: memory and processor, of a real process on a real chain."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from assay_lab.demo.network import Network
from tests.e2e.test_processes import wait_for

MAX_BYTES = 150 << 20
SECONDS = 60.0


def resident(pid: int) -> int:
    """Return the bytes of memory that a process takes now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def processor_s(pid: int) -> float:
    """Return the seconds of processor that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_an_idle_node_is_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Network(tmp_path / "network", ["trainer"]) as network:
        network.deploy()
        network.start("trainer", ["trainer", "run"], threads=1, poll_s=2.0)
        wait_for(lambda: any(event["event"] == "node.open" for event in network.events("trainer")))
        pid = network.pid("trainer")
        time.sleep(10)
        before = processor_s(pid)
        time.sleep(SECONDS)
        share, size = (processor_s(pid) - before) / SECONDS, resident(pid)
        with capsys.disabled():
            print(f"\nidle trainer: {share:.2%} of a core, {size / (1 << 20):.0f} MiB resident")
        assert size < MAX_BYTES
