"""Measure this machine: `make bench`, or `make bench ARGS="kernels steps --write"`.

Prints tables. --write also puts them into the pages of docs/measurements/, between the markers of each section, and
draws a plot of each table that compares with torch. `make bench-rounding` takes the sections about rounding logs, the
experiments of Srivastava et al. (2024), section 6: some two hours on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import (
    audits,
    bf16,
    chains,
    commitments,
    composites,
    contest,
    contractions,
    disputes,
    exact,
    fees,
    gpt_dispute,
    kernels,
    models,
    modes,
    peak,
    report,
    rounding_logs,
    rounding_paper,
    rounding_runs,
    rounding_sums,
    serving,
    soak,
    steps,
    tensor_core,
    workers,
)

ROOT = Path(__file__).resolve().parent.parent
BUILD, ECONOMICS = ROOT / ".build", ROOT / "docs/economics.md"
WIDTH = 180  # a truncated table is useless


@dataclass(frozen=True)
class Options:
    """Options of a measurement. ``turns``: how often each is measured; ``text``: to train on."""

    turns: int
    text: Path | None
    seed: int
    write: bool

    @property
    def given_text(self) -> Path:
        """The text. Raises SystemExit without one."""
        if self.text is None:
            raise SystemExit("this section trains on a text; add --text FILE")
        return self.text


@dataclass(frozen=True)
class Section:
    """A section of the measurements: a table, or several. ``on_machine``: the figures depend on the machine."""

    measure: Callable[[Options], report.Table | Iterable[report.Table]]
    turns: int = 9
    usual: bool = False
    on_machine: bool = True
    page: Path | None = None
    plotted: bool = False


def _contest(name: str, cases: Callable[[], Iterable[contest.Case]]) -> Section:
    return Section(lambda o: contest.measure(name, cases(), o.turns), usual=True, plotted=True)


SECTIONS = {
    "contractions": _contest("contractions", contractions.cases),
    "peak": Section(lambda o: peak.measure(o.turns)),
    "kernels": _contest("kernels", kernels.cases),
    "composites": _contest("composites", composites.cases),
    "models": Section(lambda o: models.measure(o.turns), usual=True),
    "modes": Section(lambda o: modes.measure(o.turns)),
    "bf16": Section(lambda _: bf16.measure()),
    "steps": Section(lambda o: steps.measure(o.turns), usual=True),
    "serving": Section(lambda o: serving.measure(o.turns)),
    "workers": Section(lambda o: workers.measure(o.turns)),
    "commitments": Section(lambda o: commitments.measure(o.turns), usual=True),
    "exact": Section(lambda o: exact.products(o.turns)),
    "exact-sums": Section(lambda o: exact.sums(o.turns)),
    "tc16": Section(lambda o: tensor_core.measure(o.turns)),
    "chains": Section(lambda _: chains.measure()),
    "disputes": Section(lambda _: disputes.measure(BUILD / "bench")),
    "gas": Section(lambda _: disputes.moves(), usual=True, on_machine=False),
    "delay": Section(lambda _: disputes.delays(), on_machine=False, page=ECONOMICS),
    "fees": Section(lambda _: fees.measure(), on_machine=False, page=ECONOMICS),
    "soak": Section(lambda _: soak.measure()),
    "gpt-dispute": Section(lambda o: gpt_dispute.measure(o.given_text, BUILD / "gpt", o.seed)),
    "audits": Section(lambda o: audits.measure(o.given_text, BUILD / "audits", o.seed, o.turns), turns=3),
    "audits-ray": Section(lambda o: audits.on_ray(o.given_text, BUILD / "audits", o.seed)),
    "rounding-logs": Section(lambda o: rounding_logs.measure(o.text)),
    "rounding-overhead": Section(lambda o: rounding_runs.overhead(o.text, o.turns), turns=3),
    "rounding-paper": Section(lambda o: rounding_paper.measure(o.text, o.turns), turns=3),
    "rounding-runs": Section(lambda o: rounding_runs.measure(o.text, draw=o.write)),
    "rounding-corrections": Section(lambda o: rounding_runs.corrections(o.text)),
    "rounding-sums": Section(lambda _: rounding_sums.measure()),
}
USUAL = [name for name, section in SECTIONS.items() if section.usual]
ROUNDING = [name for name in SECTIONS if name.startswith("rounding-")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help=f"{', '.join(SECTIONS)}; without any: {', '.join(USUAL)}",
    )
    parser.add_argument("--rounding", action="store_true", help="all sections about rounding logs")
    parser.add_argument(
        "--text", type=Path, help="train GPTs on this text (of rounding logs: made up without)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is wrong in gpt-dispute and audits (0)")
    parser.add_argument("--turns", type=int, help="how often each is measured; the median counts (9 or 3)")
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
    for name in given.sections or (ROUNDING if given.rounding else USUAL):
        section = SECTIONS[name]
        options = Options(given.turns or section.turns, given.text, given.seed, given.write)
        found = section.measure(options)
        for table in [found] if isinstance(found, report.Table) else found:
            if section.on_machine:
                table.note = f"{table.note}{report.machine()}; {report.load()}."
            report.show(table, console)
            if given.write:
                report.write(table, section.page)
                if section.plotted:
                    report.plot(table, ROOT / f"docs/benchmarks-{name}.png")


if __name__ == "__main__":
    main()
