"""How much of the game contracts the forge tests run: at least 95 of 100 lines of each file, or this fails.

Without the optimiser, as coverage needs it, so the gas of moves is another one and is not checked.
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
    *(f"contracts/{folder}/*.sol" for folder in ("court", "requests", "jobs", "match", "panel")),
)
LEAST = 0.95
LEFT_OUT = (
    *(f"tests/contracts/{folder}/*" for folder in ("element", "float", "dispute", "campaign")),
    "Gas.t.sol",
)
"""Tests of arithmetic and of gas, and of more acts than the limit of a test allows without the optimiser."""


def lines_run(report: str) -> dict[str, dict[int, bool]]:
    """From the tracefile: of each file, which of its lines were run."""
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
    """Lines within assembly, of which forge never says that they were run."""
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
    command = ["coverage", "--ir-minimum", "--report", "lcov", "--report-file", REPORT, *skipped]
    environment = {**os.environ, "FORGE_SNAPSHOT_CHECK": "false"}
    subprocess.run([ROOT / ".venv/bin/forge", *command], cwd=ROOT, env=environment, check=True)
    found = lines_run(REPORT.read_text())
    poor = 0
    for path in sorted(path for glob in GAME for path in ROOT.glob(glob)):
        source = path.read_text()
        if " function " not in source:
            continue  # storage alone: nothing of it is run
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
