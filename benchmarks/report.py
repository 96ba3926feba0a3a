"""Tables for the terminal and for the pages of docs/measurements/, and the plot."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repops.host import cpu
from repops.host.library import ISA_NAMES
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/measurements"
RATIO = "torch / ours"
"""Columns that are drawn."""


@dataclass
class Table:
    """Rows of words, the first column left-aligned. ``name`` is the section of the page; words may contain **bold**."""

    name: str
    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    """Text under the table: machine, versions and load."""

    def add(self, *words: str) -> None:
        self.rows.append(list(words))


def factor(value: float) -> str:
    """Format torch's time over ours, to two digits, in bold if ours is slower."""
    text = f"{value:.2f}"
    return f"**{text}**" if float(text) < 1 else text


def ms(seconds: float) -> str:
    """Format milliseconds with three significant digits."""
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def machine() -> str:
    """Return the processor, its cores, and the versions that matter."""
    import torch

    names = re.findall(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    kinds = re.findall(r"^(?:cpu family|model)\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)[:2]
    kind = " family {} model {}".format(*kinds) if len(kinds) == 2 else ""
    virtual = (
        " (virtual machine)" if re.search(r"^flags.*\bhypervisor\b", _read("/proc/cpuinfo"), re.M) else ""
    )
    cores = len(os.sched_getaffinity(0))
    return (
        f"{names[0] if names else platform.processor()}{kind}{virtual}, {cores} cores, {ISA_NAMES[cpu._isa]} kernels; "
        f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), Python {platform.python_version()}"
    )


def load() -> str:
    return f"load average at the end {os.getloadavg()[0]:.1f}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def show(table: Table, console: Console) -> None:
    rich = RichTable(box=box.SIMPLE_HEAD, title=table.name, title_justify="left", caption=table.note)
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in table.rows:
        rich.add_row(*(re.sub(r"\*\*(.*)\*\*", r"[bold red]\1[/bold red]", word) for word in row))
    console.print(rich)


def markdown(table: Table) -> str:
    lines = ["| " + " | ".join(table.columns) + " |"]
    lines.append("|---" + "|---:" * (len(table.columns) - 1) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([*lines, "", table.note]).rstrip() + "\n"


def write(table: Table, page: Path | None = None) -> None:
    """Put the table between its markers in ``page``, or in that page of docs/measurements which has them.

    Raises ValueError unless there is such a page, with both markers once.
    """
    begin, end = f"<!-- {table.name} -->\n", f"<!-- /{table.name} -->"
    pages = [page] if page else [path for path in sorted(PAGES.glob("*.md")) if begin in path.read_text()]
    if len(pages) != 1:
        raise ValueError(f"{len(pages)} pages of {PAGES} have {begin.strip()}; exactly one must have it")
    page, text = pages[0], pages[0].read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"{page} must hold {begin.strip()} and {end} once each")
    before, rest = text.split(begin)
    page.write_text(before + begin + markdown(table) + end + rest.split(end)[1])


def plot(table: Table, path: Path) -> None:
    """Draw bars of torch's time over ours; a bar to the right of 1 is an operator in which ours is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = [number for number, column in enumerate(table.columns) if column == RATIO]
    figure, axes = pyplot.subplots(figsize=(8, 0.27 * len(table.rows) + 1))
    height = 0.8 / len(columns)
    for place, number in enumerate(columns):
        factors = [float(row[number].strip("*")) for row in table.rows]
        label = table.columns[number - 2].split(":")[0]
        places = [row + place * height for row in range(len(factors))]
        axes.barh(places, [factor - 1 for factor in factors], height, left=1, label=label)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(table.rows))])
    axes.set_yticklabels([row[0].strip("*") for row in table.rows], fontsize=7)
    axes.set_ylim(len(table.rows), -height)
    axes.set_xscale("log", base=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("torch's time / ours (right of 1: ours is faster)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend()
    figure.tight_layout()
    # NOTE: opaque, with black words: a transparent plot would be black on black on a dark page.
    figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})
    pyplot.close(figure)
