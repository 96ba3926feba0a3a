"""Measure this machine: `make bench`, or `make bench ARGS="kernels steps --write"`.

Prints tables. --write also puts them into the pages of docs/measurements/, between the markers of each section, and
draws a plot of each table that compares with torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks import (
    bf16,
    chains,
    commitments,
    composites,
    contest,
    contractions,
    disputes,
    exact,
    fees,
    kernels,
    models,
    modes,
    peak,
    report,
    soak,
    steps,
    tensor_core,
)

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = (
    "contractions",
    "peak",
    "kernels",
    "composites",
    "models",
    "modes",
    "bf16",
    "steps",
    "commitments",
    "exact",
    "exact-sums",
    "tc16",
    "chains",
    "disputes",
    "gas",
    "delay",
    "fees",
    "soak",
)
PAGES = dict.fromkeys(("delay", "fees"), ROOT / "docs/economics.md")
PLOTTED = ("contractions", "kernels", "composites")
WIDTH = 160  # a truncated table is useless
DEFAULT = ("contractions", "kernels", "composites", "models", "steps", "commitments", "gas")


def _measure(section: str, turns: int) -> report.Table:
    match section:
        case "contractions" | "kernels" | "composites":
            cases = {"contractions": contractions, "kernels": kernels, "composites": composites}[
                section
            ].cases()
            return contest.measure(section, cases, turns)
        case "peak":
            return peak.measure(turns)
        case "models":
            return models.measure(turns)
        case "modes":
            return modes.measure(turns)
        case "bf16":
            return bf16.measure()
        case "steps":
            return steps.measure(turns)
        case "commitments":
            return commitments.measure(turns)
        case "exact":
            return exact.products(turns)
        case "exact-sums":
            return exact.sums(turns)
        case "tc16":
            return tensor_core.measure(turns)
        case "chains":
            return chains.measure()
        case "disputes":
            return disputes.measure(ROOT / ".build/bench")
        case "delay":
            return disputes.delays()
        case "fees":
            return fees.measure()
        case "soak":
            return soak.measure()
    return disputes.moves()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help=f"{', '.join(SECTIONS)}; without any: {', '.join(DEFAULT)}",
    )
    parser.add_argument(
        "--turns", type=int, default=9, help="how often each is measured; the median counts (9)"
    )
    parser.add_argument(
        "--write", action="store_true", help="also write docs/measurements/*.md and docs/benchmarks-*.png"
    )
    given = parser.parse_args()
    unknown = set(given.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    console.print(report.machine(), soft_wrap=True)
    for section in given.sections or DEFAULT:
        table = _measure(section, given.turns)
        if section not in ("gas", "delay", "fees"):
            table.note = f"{report.machine()}; {report.load()}."
        report.show(table, console)
        if given.write:
            report.write(table, PAGES.get(section))
            if section in PLOTTED:
                report.plot(table, ROOT / f"docs/benchmarks-{section}.png")


if __name__ == "__main__":
    main()
