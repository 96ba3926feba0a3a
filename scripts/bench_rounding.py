"""Measure rounding logs: `make bench-rounding`, or `make bench-rounding ARGS="logs overhead --text FILE --write"`.

Runs the experiments of Srivastava et al. (2024), section 6; together they take about two hours on two cores. Prints
tables. --write also puts them into docs/measurements/, between the markers of each section, and draws how weights
diverge.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import report, rounding_logs, rounding_paper, rounding_runs, rounding_sums

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("logs", "overhead", "paper", "runs", "corrections", "sums")
PLOT = ROOT / "docs/benchmarks-rounding.png"
WIDTH = 180


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="section", help=f"{', '.join(SECTIONS)}; without any: all"
    )
    parser.add_argument("--text", type=Path, help="train the GPTs on this text (made up if not given)")
    parser.add_argument(
        "--turns", type=int, default=3, help="how often a step is timed; the median counts (3)"
    )
    parser.add_argument(
        "--write", action="store_true", help="also write docs/measurements/rounding-logs.md and the plot"
    )
    given = parser.parse_args()
    unknown = set(given.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    console.print(report.machine(), soft_wrap=True)
    for section in given.sections or SECTIONS:
        table = _measure(section, given.text, given.turns, given.write)
        table.note = f"{report.machine()}; {report.load()}."
        report.show(table, console)
        if given.write:
            report.write(table)


def _measure(section: str, text: Path | None, turns: int, draw: bool) -> report.Table:
    match section:
        case "logs":
            return rounding_logs.measure(text)
        case "overhead":
            return rounding_runs.overhead(text, turns)
        case "paper":
            return rounding_paper.measure(text, turns)
        case "corrections":
            return rounding_runs.corrections(text)
        case "sums":
            return rounding_sums.measure()
    outcomes = {
        (name, bits): rounding_runs.runs(name, bits, text) for bits in (32, 26) for name in rounding_runs.LONG
    }
    if draw:
        rounding_runs.plot({name: outcomes[name, 32].curves for name in rounding_runs.CURVES}, PLOT)
    tables = [outcome.table for outcome in outcomes.values()]
    return report.Table("rounding-runs", tables[0].columns, [row for table in tables for row in table.rows])


if __name__ == "__main__":
    main()
