"""The ledger: what all cases came to, beside the table that is checked in.

table.tsv has a line for each function, with a letter for each of its samples in float32 and bfloat16. A rerun may only
be better: a sample that was right stays right. docs/measurements/peers.md is made of the same rows.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .judge import CRASH, FAILS, KNOWN, REFUSED, RIGHT, SKIPPED, SLOW, WRONG
from .run import DTYPES, ROOT
from .samples import functions

TABLE = Path(__file__).with_name("table.tsv")
PAGE = ROOT / "docs" / "measurements" / "peers.md"
LETTERS = {RIGHT: "r", REFUSED: "-", SKIPPED: ".", KNOWN: "k", WRONG: "W", CRASH: "C", SLOW: "S"}
NONE = "0"
"""A dtype that PyTorch lacks for a function."""
Row = Mapping[str, Any]


def table_of(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Return the letters of each function's samples, for each dtype."""
    letters: dict[str, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        table, function, dtype, number = row["case"].split("/")
        letters[f"{table}/{function}"][dtype][int(number)] = LETTERS[row["outcome"]]
    return {
        name: tuple("".join(found[dtype][k] for k in sorted(found[dtype])) or NONE for dtype in DTYPES)
        for name, found in sorted(letters.items())
    }


def read_table() -> dict[str, tuple[str, ...]]:
    lines = (line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    return {name: tuple(letters) for name, *letters in lines}


def write_table(rows: Sequence[Row], version: str) -> None:
    legend = ", ".join(f"{letter} {outcome}" for outcome, letter in LETTERS.items())
    lines = [f"# torch {version}; {' and '.join(DTYPES)}: {legend}; {NONE} no such samples"]
    lines += ["\t".join([name, *letters]) for name, letters in table_of(rows).items()]
    TABLE.write_text("\n".join(lines) + "\n")


def lost(rows: Iterable[Row]) -> list[str]:
    """Return the samples that were right in the checked-in table and are not any more."""
    before, found = read_table(), []
    for row in rows:
        table, function, dtype, number = row["case"].split("/")
        letters = before.get(f"{table}/{function}", (NONE,) * len(DTYPES))[DTYPES.index(dtype)]
        if letters[int(number) : int(number) + 1] == LETTERS[RIGHT] and row["outcome"] != RIGHT:
            found.append(f"{row['case']}: {row['outcome']}, was right: {row['reason']}")
    return found


def failed(rows: Iterable[Row]) -> list[str]:
    """Return what is neither right, nor refused or skipped with a reason."""
    return [f"{row['case']}: {row['outcome']}: {row['reason']}" for row in rows if row["outcome"] in FAILS]


def write_page(rows: Sequence[Row], version: str) -> None:
    """Write docs/measurements/peers.md."""
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        "# PyTorch's own tables",
        "",
        "What capture makes of the samples that PyTorch tests itself with: `op_db` (functions) and `module_db`",
        "(layers), up to three samples of each and dtype. Results and gradients are executed by the kernels in C and",
        "compared with eager PyTorch place by place.",
        f"Written by `make peer-suites` on {today}, torch {version}. `tests/peers/table.tsv` has each sample.",
        *_unfinished(rows),
        "",
        "| table | dtype | right | refused | skipped | known | fails | right of not skipped | and with gradients |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for table in ("op", "module"):
        for dtype in DTYPES:
            lines.append(
                _line(table, dtype, [r for r in rows if r["case"].split("/")[::2] == [table, dtype]])
            )
    refused = [row for row in rows if row["outcome"] == REFUSED]
    whole = sum(row["whole"] for row in refused)
    lines += [
        "",
        f"{whole} of {len(refused)} refusals ({_share(whole, len(refused))}) name module, operator and remedy.",
        "",
        "## Refused",
        "",
        "Functions with refused samples, by reason; in brackets how many of its samples, where it is not all.",
        "",
        *_by_reason(rows, REFUSED),
        "",
        "## Skipped",
        "",
        *_by_reason(rows, SKIPPED),
    ]
    if any(row["outcome"] == KNOWN for row in rows):
        lines += ["", "## Known to differ", "", *_by_reason(rows, KNOWN)]
    PAGE.write_text("\n".join(lines) + "\n")


def _unfinished(rows: Sequence[Row]) -> list[str]:
    """Return a sentence about functions that have not been run. PyTorch itself lacks bfloat16 for a quarter of them."""
    cases = [row["case"].split("/") for row in rows]
    run = {dtype: len({(t, name) for t, name, of, _ in cases if of == dtype}) for dtype in DTYPES}
    whole = len(functions())
    if run["float32"] > 0.95 * whole and run["bfloat16"] > 0.7 * whole:
        return []
    parts = " and ".join(f"{count} in {dtype}" for dtype, count in run.items())
    return ["", f"This is a part: of {whole} functions and layers there are samples of {parts}."]


def _line(table: str, dtype: str, rows: Sequence[Row]) -> str:
    counts = Counter(row["outcome"] for row in rows)
    trained = Counter(row["outcome"] for row in rows if row["trains"])
    shares = (_share(found[RIGHT], sum(found.values()) - found[SKIPPED]) for found in (counts, trained))
    numbers = (counts[RIGHT], counts[REFUSED], counts[SKIPPED], counts[KNOWN], sum(counts[f] for f in FAILS))
    return f"| `{table}_db` | {dtype} | " + " | ".join([*map(str, numbers), *shares]) + " |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _by_reason(rows: Sequence[Row], outcome: str) -> list[str]:
    """Return a table of reasons with the functions that they hold for."""
    totals = Counter(_function(row) for row in rows)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["outcome"] == outcome:
            found[_short(row["reason"])][_function(row)] += 1
    lines = ["| reason | functions |", "|---|---|"]
    for reason, holders in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        names = (
            f"`{name}`" if count == totals[name] else f"`{name}` ({count} of {totals[name]})"
            for name, count in sorted(holders.items())
        )
        lines.append(f"| {reason} | {', '.join(names)} |")
    return lines


def _function(row: Row) -> str:
    return row["case"].split("/")[1]


def _short(reason: str) -> str:
    """Return a reason without the place that it was met at, on one line."""
    plain = re.sub(r"^(module \S+?|loss or gradient|given\d+)[,:] ", "", reason)
    plain = re.sub(r"^ATen operator \S+: (dtype .* operator set); .*", r"\1", plain)
    plain = re.sub(r" \(samples\.py, line \d+\)", "", plain)
    return " ".join(plain.split()).replace("|", "\\|")[:300]
