"""Check that the forge tests run at least 95 % of the lines of each game contract.

Coverage needs a build without the optimiser, so the gas of moves differs and is not checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / ".build/coverage.lcov"
GAME = (
    "contracts/*.sol",
    *(f"contracts/{folder}/*.sol" for folder in ("availability", "clock", "court", "jobs", "match", "panel")),
)
LEAST = 0.95
LEFT_OUT = (
    *(f"tests/contracts/{folder}/*" for folder in ("element", "float", "dispute", "campaign")),
    "Gas.t.sol",
)
"""Tests of arithmetic and of gas, and tests with more acts than fit in a test's gas limit without the optimiser."""


def lines_run(report: str) -> dict[str, dict[int, bool]]:
    """Return, from the tracefile, whether each line of each file was run."""
    found: dict[str, dict[int, bool]] = {}
    file = ""
    for line in report.splitlines():
        kind, _, value = line.partition(":")
        if kind == "SF":
            file = value
        elif kind == "DA":
            number, count = value.split(",")[:2]
            lines = found.setdefault(file, {})
            lines[int(number)] = lines.get(int(number), False) or int(count) > 0
    return found


def in_assembly(source: str) -> set[int]:
    """Return the lines inside assembly, which forge never reports as run."""
    found, end = set[int](), ""
    for number, line in enumerate(source.splitlines(), 1):
        if end:
            found.add(number)
        if line.lstrip().startswith("assembly "):
            end = line[: len(line) - len(line.lstrip())] + "}"
        elif line == end:
            end = ""
    return found


def main() -> int:
    skipped = [word for glob in LEFT_OUT for word in ("--skip", glob)]
    command: list[str | Path] = [
        "coverage",
        "--ir-minimum",
        "--report",
        "lcov",
        "--report-file",
        REPORT,
        *skipped,
    ]
    environment = {**os.environ, "FORGE_SNAPSHOT_CHECK": "false"}
    subprocess.run([ROOT / ".venv/bin/forge", *command], cwd=ROOT, env=environment, check=True)
    found = lines_run(REPORT.read_text())
    poor = 0
    for path in sorted(path for glob in GAME for path in ROOT.glob(glob)):
        source = path.read_text()
        if " function " not in source:
            continue  # only storage, no code to run
        unseen = in_assembly(source)
        every = found.get(path.relative_to(ROOT).as_posix(), {})
        lines = {number: run for number, run in every.items() if number not in unseen}
        share = sum(lines.values()) / len(lines) if lines else 0.0
        missed = [number for number, run in sorted(lines.items()) if not run]
        poor += share < LEAST
        print(
            f"{path.relative_to(ROOT)}: {share:.1%} of {len(lines)} lines"
            + (f", not {missed}" if missed else "")
        )
    if poor:
        print(f"{poor} files below {LEAST:.0%}", file=sys.stderr)
    return 1 if poor else 0


if __name__ == "__main__":
    sys.exit(main())
